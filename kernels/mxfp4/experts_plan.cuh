/* Before experts.cuh: rows of x sorted by expert, and the units of work of what rows each expert has, which only the
 * device knows.
 *
 * A pair is a (token, chosen expert), a row of y. Sorted pairs are stable: by expert, then in order. A unit is a tile
 * of an expert's rows times a tile of outputs; a gated unit makes rows of the activation, a down unit multiplies them.
 * Order of units: gated ones, then down ones; tiles of one expert are neighbours, so that its weights come from L2 but
 * once. */
#ifndef KIGO_KERNELS_MXFP4_EXPERTS_PLAN_CUH
#define KIGO_KERNELS_MXFP4_EXPERTS_PLAN_CUH

#include "kernels/ptx/dependent.cuh"
#include <cstdint>
#include <cuda_fp16.h>

namespace kg_mxfp4 {

enum { GATED = 0, DOWN = 1, PHASES = 2, NO_UNIT = 2 };
enum { PLAN_THREADS = 512, PLAN_MAX_EXPERTS = 1024, PLAN_BLOCK_PAIRS = 16, ROWS_STEP = 16 };

/* Rows [first, first + n_rows) of the sorted, the across-th tile of outputs. */
struct experts_unit {
    uint32_t first;
    uint16_t n_rows, phase;
    uint16_t expert, tile; /* tile of rows, of all experts */
    uint32_t across;
};
static_assert(sizeof(experts_unit) == 16, "one load");

/* experts.cuh counts the units that are taken. */
struct experts_queue {
    uint32_t n_units, n_taken;
};

struct plan_params {
    const __half *x;    /* (n_pairs / n_sharing, n_cols) */
    const int32_t *ids; /* (n_pairs) */
    __half *sorted;     /* (n_pairs, n_cols) */
    uint32_t *row;      /* (n_pairs): the pair of each sorted row */
    experts_unit *units;
    experts_queue *queue;
    uint32_t *n_done; /* by tile of rows: see experts.cuh; zeroed here */
    uint32_t n_pairs, n_cols, n_experts, n_sharing;
    uint32_t width, n_across[PHASES]; /* rows of a tile, at most; tiles of outputs */
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

/* Of each expert. */
struct expert_tiles {
    uint32_t n[PLAN_MAX_EXPERTS], first_row[PLAN_MAX_EXPERTS + 1], first_tile[PLAN_MAX_EXPERTS + 1];
};

/* One block: all units. */
static __device__ void write_units(const plan_params &p, const uint32_t *n_rows, expert_tiles &tiles) {
    for (uint32_t e = threadIdx.x; e < p.n_experts; e += PLAN_THREADS) tiles.n[e] = div_up(n_rows[e], p.width);
    __syncthreads(); /* tiles are counted */
    for (uint32_t e = threadIdx.x; e <= p.n_experts; e += PLAN_THREADS) {
        uint32_t row = 0, tile = 0;
#pragma unroll 8
        for (uint32_t before = 0; before < e; before++) row += n_rows[before], tile += tiles.n[before];
        tiles.first_row[e] = row, tiles.first_tile[e] = tile;
    }
    __syncthreads(); /* experts have their places */
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_tiles = tiles.first_tile[p.n_experts];
    if (threadIdx.x == 0) *p.queue = { n_tiles * (p.n_across[GATED] + p.n_across[DOWN]), 0 };
    for (uint32_t tile = threadIdx.x; tile < n_tiles; tile += PLAN_THREADS) p.n_done[tile] = 0;
    for (uint32_t e = warp; e < p.n_experts; e += PLAN_THREADS / 32) {
        const uint32_t n = tiles.n[e], first = tiles.first_tile[e], row = tiles.first_row[e];
        for (uint32_t phase = 0; phase < PHASES; phase++) {
            const uint32_t across = p.n_across[phase],
                           base = (phase == DOWN ? n_tiles * p.n_across[GATED] : 0) + first * across;
            for (uint32_t k = lane; k < n * across; k += 32) {
                const uint32_t tile = k % n, at = tile * p.width;
                p.units[base + k] = { row + at,
                                      (uint16_t)min(p.width, n_rows[e] - at),
                                      (uint16_t)phase,
                                      (uint16_t)e,
                                      (uint16_t)(first + tile),
                                      k / n };
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
    __shared__ uint32_t n_rows[PLAN_MAX_EXPERTS], n_before[PLAN_MAX_EXPERTS];
    __shared__ expert_tiles tiles;
    kg_dependents_start();
    kg_dependency_wait(); /* x and ids are visible; nothing reads what this writes any more */
    const uint32_t start = blockIdx.x == 0 ? 0 : (blockIdx.x - 1) * PLAN_BLOCK_PAIRS;
    count_rows(p, start, n_rows, n_before);
    if (blockIdx.x == 0) write_units(p, n_rows, tiles);
    else sort_pairs(p, start, n_rows, n_before);
}

} // namespace kg_mxfp4

#endif
