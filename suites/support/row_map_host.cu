/* Compiled by the C++ compiler, in builds with and without CUDA. */
#include "suites/support/host_warp.cuh"
#include "kernels/decode/row_map.cuh"

extern "C" {
#include "suites/support/row_map_host.h"
extern const char *const kg_row_map_missing = nullptr;
}

using namespace kg_step_product;

static row_map map_of(const kg_rows_problem &p) {
    const uint8_t *weights[ROW_SOURCES];
    for (int i = 0; i < ROW_SOURCES; i++) weights[i] = reinterpret_cast<const uint8_t *>((uintptr_t)p.weights[i]);
    switch (p.form) {
    case KG_ROWS_NEIGHBOURS: return map_of_neighbours(weights[0], p.row_bytes[0], p.n_pairs);
    case KG_ROWS_OF_TWO: return map_of_two(weights[0], weights[1], p.row_bytes[0], p.n_pairs);
    case KG_ROWS_OF_HEADS: break;
    }
    return map_of_heads({ weights[0], weights[1], weights[2] }, p.row_bytes, p.n_heads, p.n_kv_heads, p.head_dim,
                        p.n_apart);
}

extern "C" kg_row_place kg_row_map_place(const kg_rows_problem *problem, uint32_t pair, uint32_t which) {
    const row_place place = row_place_of(map_of(*problem), pair, which);
    return { (uint64_t) reinterpret_cast<uintptr_t>(place.at), place.source };
}
