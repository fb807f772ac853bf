/* Launches gemm.cuh, after sorting rows by expert, and gemm_tma.cuh. The kernel is the one, with the split of the
 * columns, whose estimated time is the shortest. The choice depends on shapes and the device only. */
#include "kernels/mxfp4/gemm_tma.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/tensor_map.h"
#include <algorithm>

KG_PRELOADED(mxfp4_gemm, KG_SOME_PROMPTS)

namespace kg_mxfp4 {

enum { SORT_THREADS = 1024, MAX_EXPERTS = 1024, SMALLEST_N = 64 };

static uint64_t ceil_div(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}

struct sort_params {
    const int32_t *ids; /* (n) */
    uint32_t n, n_experts, tile_rows;
    uint32_t *row; /* (n), sorted by expert; stable */
    struct gemm_tile *tiles;
    uint32_t *n_tiles;
};

/* One block. A warp counts an expert's rows, then writes their numbers in order. */
static __global__ void __launch_bounds__(SORT_THREADS) sort_kernel(const sort_params s) {
    __shared__ uint32_t count[MAX_EXPERTS], first_row[MAX_EXPERTS], first_tile[MAX_EXPERTS];
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    kg_dependents_start();
    kg_dependency_wait(); /* ids are visible; nothing reads `row` any more */
    for (uint32_t e = warp; e < s.n_experts; e += SORT_THREADS / 32) {
        uint32_t n = 0;
#pragma unroll 4
        for (uint32_t i = 0; i < s.n; i += 32)
            n += __popc(__ballot_sync(0xFFFFFFFFu, i + lane < s.n && s.ids[i + lane] == (int32_t)e));
        if (lane == 0) count[e] = n;
    }
    __syncthreads(); /* all counts are written */
    if (threadIdx.x == 0) {
        uint32_t rows = 0, tiles = 0;
        for (uint32_t e = 0; e < s.n_experts; e++) {
            first_row[e] = rows;
            first_tile[e] = tiles;
            rows += count[e];
            tiles += (count[e] + s.tile_rows - 1) / s.tile_rows;
        }
        *s.n_tiles = tiles;
    }
    __syncthreads(); /* all offsets are written */
    for (uint32_t e = warp; e < s.n_experts; e += SORT_THREADS / 32) {
        uint32_t to = first_row[e];
        for (uint32_t i = lane; i * s.tile_rows < count[e]; i += 32)
            s.tiles[first_tile[e] + i] = { e, to + i * s.tile_rows, min(s.tile_rows, count[e] - i * s.tile_rows) };
#pragma unroll 4
        for (uint32_t i = 0; i < s.n; i += 32) {
            const bool mine = i + lane < s.n && s.ids[i + lane] == (int32_t)e;
            const uint32_t all = __ballot_sync(0xFFFFFFFFu, mine);
            if (mine) s.row[to + __popc(all & ((1u << lane) - 1))] = i + lane;
            to += __popc(all);
        }
    }
}

struct sorted {
    uint32_t *row, *n_tiles;
    struct gemm_tile *tiles;
    uint64_t size_bytes;
};

static struct sorted lay_out(void *workspace, uint32_t n_rows, uint32_t n_experts) {
    const uint64_t rows_bytes = ((uint64_t)n_rows + 64) / 64 * 256, n_tiles = n_rows / SMALLEST_N + n_experts;
    char *at = static_cast<char *>(workspace);
    return { reinterpret_cast<uint32_t *>(at + 256), reinterpret_cast<uint32_t *>(at),
             reinterpret_cast<struct gemm_tile *>(at + 256 + rows_bytes),
             256 + rows_bytes + n_tiles * sizeof(struct gemm_tile) };
}

template <typename S>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p, uint32_t n_split,
                             uint32_t, struct kg_error *err) {
    gemm_params g = { *p, NULL, NULL, NULL, n_split };
    uint32_t n_tiles = (uint32_t)ceil_div(p->n_rows, S::N);
    if (p->ids) {
        if (!p->workspace || p->n_experts > MAX_EXPERTS)
            return kg_fail(err, KG_ERR_USAGE, "mxfp4: %u rows of %u experts need a workspace", p->n_rows, p->n_experts);
        const struct sorted to = lay_out(p->workspace, p->n_rows, p->n_experts);
        const sort_params s = { p->ids, p->n_rows, p->n_experts, (uint32_t)S::N, to.row, to.tiles, to.n_tiles };
        const enum kg_status status =
            kg_launch_dependent(cuda, sort_kernel, dim3(1), SORT_THREADS, s, "experts_linear: sorting rows", err);
        if (status) return status;
        g.row = to.row, g.tiles = to.tiles, g.n_tiles = to.n_tiles;
        n_tiles = p->n_rows / S::N + std::min(p->n_experts, p->n_rows); /* at most */
    }
    const dim3 grid(n_split, (unsigned)ceil_div(p->n_out, S::M), n_tiles);
    return kg_launch_dependent(cuda, gemm_kernel<S>, grid, S::THREADS, g, "linear: mxfp4", err, S::BYTES, n_split);
}

/* The tensor maps of the kernel's copies (tensor_map.h). */
template <typename S>
static enum kg_status make_maps(tma_params *t, const struct kg_mxfp4_product *p, struct kg_error *err) {
    const uint32_t n_steps = p->n_cols / TILE_COLS, group_bytes = n_steps * (CODES_BYTES + SCALES_BYTES);
    const auto view = [&](CUtensorMap *map, const void *data, uint32_t n_rows, uint32_t n_halves, uint64_t row_halves,
                          uint32_t box_rows, uint32_t box_bytes) {
        return kg_tensor_map_make_rows(map, data, n_rows, n_halves, row_halves, box_rows, box_bytes, "linear: mxfp4",
                                       err);
    };
    const uint32_t n_groups = p->n_out / GROUP_ROWS;
    enum kg_status status = view(&t->x, p->x, p->n_rows, p->n_cols, p->n_cols, S::X_ROWS, ROW_BYTES);
    if (!status)
        status =
            view(&t->codes, p->weight, n_groups, n_steps * CODES_BYTES / 2, group_bytes / 2, S::GROUPS, CODES_BYTES);
    if (!status)
        status = view(&t->scales, p->weight + (size_t)n_steps * CODES_BYTES, n_groups, n_steps * SCALES_BYTES / 2,
                      group_bytes / 2, S::GROUPS, SCALES_BYTES);
    if (!status && p->y_is_f16) status = view(&t->y, p->y, p->n_rows, p->n_out, p->n_out, S::BOX_ROWS, ROW_BYTES);
    return status;
}

template <typename S>
static enum kg_status launch_tma(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p, uint32_t n_split,
                                 uint32_t n_clusters, struct kg_error *err) {
    tma_params t = {};
    t.p = *p, t.n_split = n_split, t.unit_shift = (uint32_t)S::unit_shift((int)n_split);
    t.n_across = (uint32_t)ceil_div(p->n_out, S::M * S::MULTICAST);
    t.n_tiles = t.n_across * (uint32_t)ceil_div(p->n_rows, S::N);
    const enum kg_status status = make_maps<S>(&t, p, err);
    if (status) return status;
    const uint32_t size = n_split * S::MULTICAST, n = S::PERSISTENT ? std::min(t.n_tiles, n_clusters) : t.n_tiles;
    return kg_launch_dependent(cuda, gemm_tma_kernel<S>, dim3(n * size), S::THREADS, t, "linear: mxfp4", err, S::BYTES,
                               size);
}

/* A kernel: a cluster of n_split blocks, or MULTICAST times as many, has m outputs of n rows; its blocks split the
 * columns. */
struct kernel {
    enum kg_status (*launch)(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p, uint32_t n_split,
                             uint32_t n_clusters, struct kg_error *err);
    uint32_t (*clusters)(uint32_t n_split); /* that the device runs at the same time */
    uint32_t m, n, max_split;
    bool any_rows; /* rows by expert or shared, too */
    /* Times of a block in ns, measured on the H200: a step of 64 columns, prologue and epilogue, the exchange of sums
     * in a cluster. */
    uint32_t step, ends, exchange;
};

template <typename S> static constexpr kernel by_threads(uint32_t step, uint32_t ends, uint32_t exchange) {
    return { launch<S>,
             [](uint32_t n_split) { return kg_clusters_at_once(gemm_kernel<S>, S::THREADS, S::BYTES, n_split); },
             S::M,
             S::N,
             KG_MAX_SPLIT,
             true,
             step,
             ends,
             exchange };
}

template <typename S> static constexpr kernel by_tma(uint32_t step, uint32_t ends, uint32_t exchange) {
    return { launch_tma<S>,
             [](uint32_t n_split) {
                 return kg_clusters_at_once(gemm_tma_kernel<S>, S::THREADS, S::BYTES, n_split * S::MULTICAST);
             },
             S::M * S::MULTICAST,
             S::N,
             S::MAX_SPLIT,
             false,
             step,
             ends,
             exchange };
}

static constexpr kernel KERNELS[KG_MXFP4_KERNELS] = {
    by_threads<gemm_shape<2, 64, 10, 72>>(320, 3900, 1200), by_threads<gemm_shape<4, 64, 8, 64>>(505, 5000, 1200),
    by_threads<gemm_shape<3, 128, 8, 80>>(537, 5000, 1700), by_tma<tma_shape<1, 64, 12, 1, 2, 4>>(235, 1100, 500),
    by_tma<tma_shape<2, 64, 12, 1, 1, 4>>(270, 2000, 900),  by_tma<tma_shape<3, 128, 7, 1, 1, 2>>(460, 2400, 1000),
    by_tma<tma_shape<2, 128, 9, 1, 1, 1>>(340, 1700, 0),    by_tma<tma_shape<2, 256, 4, 2, 1, 1>>(640, 1500, 0),
};

} // namespace kg_mxfp4

using namespace kg_mxfp4;

uint64_t kg_mxfp4_gemm_workspace_bytes(uint32_t n_rows, uint32_t n_experts) {
    return lay_out(NULL, n_rows, n_experts).size_bytes;
}

enum kg_status kg_mxfp4_gemm(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p,
                             struct kg_error *err) {
    const uint64_t steps = p->n_cols / TILE_COLS, n_matrices = p->ids ? std::min(p->n_experts, p->n_rows) : 1;
    const kernel *best = NULL;
    uint32_t best_split = 1, best_clusters = 1;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < KG_MXFP4_KERNELS; i++) {
        const kernel *k = &KERNELS[i];
        for (uint32_t n_split = 1; n_split <= k->max_split && n_split <= steps; n_split++) {
            if ((p->ids || p->n_sharing > 1) && !k->any_rows) continue;
            uint32_t *clusters = &cuda->mxfp4_clusters[i][n_split];
            if (*clusters == 0) *clusters = k->clusters(n_split);
            const uint64_t rows = ceil_div(ceil_div(p->n_rows, n_matrices), k->n) * n_matrices,
                           waves = ceil_div(ceil_div(p->n_out, k->m) * rows, *clusters);
            const uint64_t ns =
                waves * (ceil_div(steps, n_split) * k->step + k->ends + (n_split > 1 ? k->exchange : 0));
            if (ns < least) least = ns, best = k, best_split = n_split, best_clusters = *clusters;
        }
    }
    return best->launch(cuda, p, best_split, best_clusters, err);
}
