/* Before experts.cuh: rows of x sorted by expert, and the units of work of what rows each expert has, which only the
 * device knows.
 *
 * A pair is a (token, chosen expert), a row of y. Sorted pairs are stable: by expert, then in order. An expert's rows
 * are split evenly into as few tiles as hold them, so that no tile is nearly empty. A class of tiles has a launch of
 * experts.cuh to itself, for at most `width` rows. A unit is a tile of rows times a tile of outputs; a gated unit makes
 * rows of the activation, a down unit multiplies them.
 *
 * Order of a class's units: gated ones, then down ones; tiles with many rows first, so that the last units are short;
 * tiles of one expert are neighbours, so that its weights come from L2 but once. */
#ifndef KIGO_KERNELS_MXFP4_EXPERTS_PLAN_CUH
#define KIGO_KERNELS_MXFP4_EXPERTS_PLAN_CUH

#include "kernels/ptx/dependent.cuh"
#include <cstdint>
#include <cuda_fp16.h>

namespace kg_mxfp4 {

enum { GATED = 0, DOWN = 1, PHASES = 2, NO_UNIT = 2 };
enum { PLAN_THREADS = 512, PLAN_MAX_EXPERTS = 1024, PLAN_BLOCK_PAIRS = 16, ROWS_STEP = 16, MAX_CLASSES = 8 };

/* Rows [first, first + n_rows) of the sorted, the across-th tile of outputs. */
struct experts_unit {
    uint32_t first;
    uint16_t n_rows, phase;
    uint16_t expert, tile; /* tile of rows, of all experts */
    uint32_t across;
};
static_assert(sizeof(experts_unit) == 16, "one load");

/* Of a class: its units lie from `first` on; experts.cuh counts those that are taken. */
struct experts_queue {
    uint32_t first, n_units, n_taken;
};

struct experts_class {
    uint32_t width, n_across[PHASES]; /* rows of a tile, at most; tiles of outputs */
};

struct plan_params {
    const __half *x;    /* (n_pairs / n_sharing, n_cols) */
    const int32_t *ids; /* (n_pairs) */
    __half *sorted;     /* (n_pairs, n_cols) */
    uint32_t *row;      /* (n_pairs): the pair of each sorted row */
    experts_unit *units;
    experts_queue *queues; /* by class */
    uint32_t *n_done;      /* by tile of rows: see experts.cuh; zeroed here */
    uint32_t n_pairs, n_cols, n_experts, n_sharing, n_classes;
    experts_class classes[MAX_CLASSES]; /* wide ones first */
};

static __host__ __device__ __forceinline__ uint32_t div_up(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

/* Rows of each expert: of all pairs, and of those before `start`. */
static __device__ void count_rows(const plan_params &p, uint32_t start, uint32_t *n_rows, uint32_t *n_before) {
    for (uint32_t e = threadIdx.x; e < p.n_experts; e += PLAN_THREADS) n_rows[e] = n_before[e] = 0;
    __syncthreads(); /* counts are zero */
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < p.n_pairs; i += PLAN_THREADS) {
        const uint32_t e = (uint32_t)p.ids[i];
        atomicAdd(&n_rows[e], 1);
        if (i < start) atomicAdd(&n_before[e], 1);
    }
    __syncthreads(); /* counts are complete */
}

/* Tiles of n rows, and the rows of each but the last. */
static __device__ __forceinline__ uint32_t tiles_of(const plan_params &p, uint32_t n) {
    return div_up(n, p.classes[0].width);
}
static __device__ __forceinline__ uint32_t tile_rows_of(const plan_params &p, uint32_t n) {
    return n ? div_up(div_up(n, tiles_of(p, n)), ROWS_STEP) * ROWS_STEP : 0;
}
/* The narrowest class that holds them. */
static __device__ __forceinline__ uint32_t class_of(const plan_params &p, uint32_t tile_rows) {
    uint32_t c = 0;
    while (c + 1 < p.n_classes && p.classes[c + 1].width >= tile_rows) c++;
    return c;
}

/* One block: all units. order: experts by the rows of their tiles; the arrays are shared memory. */
static __device__ void write_units(const plan_params &p, const uint32_t *n_rows, uint32_t *order, uint32_t *first_row,
                                   uint32_t *first_tile) {
    __shared__ uint32_t class_tile[MAX_CLASSES + 1], class_unit[MAX_CLASSES + 1];
    for (uint32_t e = threadIdx.x; e < p.n_experts; e += PLAN_THREADS) {
        const uint32_t mine = tile_rows_of(p, n_rows[e]);
        uint32_t rank = 0, rows = 0;
        for (uint32_t other = 0; other < p.n_experts; other++) {
            const uint32_t its = tile_rows_of(p, n_rows[other]);
            rank += its > mine || (its == mine && other < e);
            if (other < e) rows += n_rows[other];
        }
        order[rank] = e, first_row[e] = rows;
    }
    __syncthreads(); /* the order is complete */
    for (uint32_t i = threadIdx.x; i <= p.n_experts; i += PLAN_THREADS) {
        uint32_t tiles = 0;
        for (uint32_t before = 0; before < i; before++) tiles += tiles_of(p, n_rows[order[before]]);
        first_tile[i] = tiles;
    }
    __syncthreads(); /* the tiles are counted */
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_tiles = first_tile[p.n_experts];
    for (uint32_t tile = threadIdx.x; tile < n_tiles; tile += PLAN_THREADS) p.n_done[tile] = 0;
    if (threadIdx.x == 0) {
        uint32_t i = 0, unit = 0;
        for (uint32_t c = 0; c < p.n_classes; c++) {
            const uint32_t from = class_tile[c] = first_tile[i];
            while (i < p.n_experts && n_rows[order[i]] && class_of(p, tile_rows_of(p, n_rows[order[i]])) == c) i++;
            const uint32_t n = (first_tile[i] - from) * (p.classes[c].n_across[GATED] + p.classes[c].n_across[DOWN]);
            class_unit[c] = unit, class_tile[c + 1] = first_tile[i];
            p.queues[c] = { unit, n, 0 };
            unit += n;
        }
    }
    __syncthreads(); /* classes have their places */
    for (uint32_t i = warp; i < p.n_experts; i += PLAN_THREADS / 32) {
        const uint32_t e = order[i], n = n_rows[e], tiles = tiles_of(p, n), each = tile_rows_of(p, n);
        if (n == 0) break; /* nor do those behind it have any */
        const uint32_t c = class_of(p, each);
        for (uint32_t phase = 0; phase < PHASES; phase++) {
            const uint32_t across = p.classes[c].n_across[phase];
            uint32_t base = class_unit[c] + (first_tile[i] - class_tile[c]) * across;
            if (phase == DOWN) base += (class_tile[c + 1] - class_tile[c]) * p.classes[c].n_across[GATED];
            for (uint32_t k = lane; k < tiles * across; k += 32) {
                const uint32_t tile = k % tiles, at = min(tile * each, n);
                p.units[base + k] = { first_row[e] + at, (uint16_t)min(each, n - at),      (uint16_t)phase,
                                      (uint16_t)e,       (uint16_t)(first_tile[i] + tile), k / tiles };
            }
        }
    }
}

/* Copies rows of x to their sorted places. A warp to a pair. */
static __device__ void sort_pairs(const plan_params &p, uint32_t start, const uint32_t *n_rows,
                                  const uint32_t *n_before) {
    const uint32_t lane = threadIdx.x % 32, i = start + threadIdx.x / 32;
    if (i >= p.n_pairs) return;
    const uint32_t e = (uint32_t)p.ids[i];
    uint32_t to = 0;
    for (uint32_t other = lane; other < e; other += 32) to += n_rows[other];
    if (lane < i - start) to += (uint32_t)p.ids[start + lane] == e;
    to = __reduce_add_sync(0xFFFFFFFFu, to) + n_before[e];
    if (lane == 0) p.row[to] = i;
    const uint4 *from = reinterpret_cast<const uint4 *>(p.x + (size_t)(i / p.n_sharing) * p.n_cols);
    uint4 *there = reinterpret_cast<uint4 *>(p.sorted + (size_t)to * p.n_cols);
#pragma unroll 4
    for (uint32_t k = lane; k < p.n_cols / 8; k += 32) there[k] = from[k];
}

/* Grid: a block for the units, then one for every PLAN_BLOCK_PAIRS pairs. */
static __global__ void __launch_bounds__(PLAN_THREADS) experts_plan_kernel(const __grid_constant__ plan_params p) {
    static_assert(PLAN_BLOCK_PAIRS == PLAN_THREADS / 32 && PLAN_BLOCK_PAIRS <= 32, "a warp to a pair");
    __shared__ uint32_t n_rows[PLAN_MAX_EXPERTS], n_before[PLAN_MAX_EXPERTS], order[PLAN_MAX_EXPERTS],
        first_tile[PLAN_MAX_EXPERTS + 1];
    kg_dependents_start();
    kg_dependency_wait(); /* x and ids are visible; nothing reads what this writes any more */
    const uint32_t start = blockIdx.x == 0 ? 0 : (blockIdx.x - 1) * PLAN_BLOCK_PAIRS;
    count_rows(p, start, n_rows, n_before);
    if (blockIdx.x == 0) write_units(p, n_rows, order, n_before, first_tile);
    else sort_pairs(p, start, n_rows, n_before);
}

} // namespace kg_mxfp4

#endif
