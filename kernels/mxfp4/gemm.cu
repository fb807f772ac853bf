/* Launches gemm.cuh, after sorting rows by expert, and gemm_tma.cuh. The kernel is the one, with the split of the
 * columns, whose estimated time is the shortest. The choice depends on shapes and the device only. */
#include "kernels/block/precision.cuh"
#include "kernels/mxfp4/gemm_tma.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/tensor_map.h"
#include <algorithm>

KG_PRELOADED(mxfp4_gemm, KG_SOME_PROMPTS)

namespace kg_mxfp4 {

enum { SORT_THREADS = 1024, MAX_EXPERTS = 1024, SMALLEST_N = 64 };
static const char WHAT[] = "linear: mxfp4";

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
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_gated *gated, uint32_t n_split,
                             uint32_t, struct kg_error *err) {
    const struct kg_mxfp4_product *p = &gated->gate;
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
    return kg_launch_dependent(cuda, gemm_kernel<S>, grid, S::THREADS, g, WHAT, err, S::BYTES, n_split);
}

/* The tensor maps of the kernel's copies (tensor_map.h). */
template <typename S>
static enum kg_status make_maps(typename S::params *t, const struct kg_mxfp4_gated *gated, struct kg_error *err) {
    const struct kg_mxfp4_product *p = &gated->gate;
    const uint32_t n_steps = p->n_cols / TILE_COLS, group_bytes = n_steps * (CODES_BYTES + SCALES_BYTES);
    const auto view = [&](CUtensorMap *map, const void *data, uint32_t n_rows, uint32_t n_halves, uint64_t row_halves,
                          uint32_t box_rows, uint32_t box_bytes) {
        return kg_tensor_map_make_rows(map, data, n_rows, n_halves, row_halves, box_rows, box_bytes, WHAT, err);
    };
    const auto view_weight = [&](CUtensorMap *codes, CUtensorMap *scales, const uint8_t *weight) {
        const uint32_t n_groups = p->n_out / GROUP_ROWS;
        const enum kg_status status =
            view(codes, weight, n_groups, n_steps * CODES_BYTES / 2, group_bytes / 2, S::OUTPUT_GROUPS, CODES_BYTES);
        if (status) return status;
        return view(scales, weight + (size_t)n_steps * CODES_BYTES, n_groups, n_steps * SCALES_BYTES / 2,
                    group_bytes / 2, S::OUTPUT_GROUPS, SCALES_BYTES);
    };
    enum kg_status status = view(&t->x, p->x, p->n_rows, p->n_cols, p->n_cols, S::X_ROWS, ROW_BYTES);
    if (!status) status = view_weight(&t->codes, &t->scales, p->weight);
    if constexpr (S::GATED)
        if (!status) status = view_weight(&t->up_codes, &t->up_scales, gated->up);
    if (!status && p->y_is_f16) status = view(&t->y, p->y, p->n_rows, p->n_out, p->n_out, S::BOX_ROWS, ROW_BYTES);
    return status;
}

template <typename S>
static enum kg_status launch_tma(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_gated *gated,
                                 uint32_t n_split, uint32_t n_clusters, struct kg_error *err) {
    const struct kg_mxfp4_product *p = &gated->gate;
    typename S::params t = {};
    t.p = *p, t.n_split = n_split, t.unit_shift = (uint32_t)S::unit_shift((int)n_split);
    t.n_across = (uint32_t)ceil_div(p->n_out, S::OUTPUTS * S::MULTICAST);
    t.n_tiles = t.n_across * (uint32_t)ceil_div(p->n_rows, S::N);
    if constexpr (S::GATED) {
        const struct kg_swiglu_form *form = &gated->form;
        t.up_bias = gated->up_bias, t.is_gelu = form->cubic != 0;
        t.swiglu = kg_swiglu_op_of(form->limit, form->alpha, form->up_offset);
        t.gelu = { form->alpha, form->cubic, form->up_offset };
    }
    const enum kg_status status = make_maps<S>(&t, gated, err);
    if (status) return status;
    const uint32_t size = n_split * S::MULTICAST, n = S::PERSISTENT ? std::min(t.n_tiles, n_clusters) : t.n_tiles;
    return kg_launch_dependent(cuda, gemm_tma_kernel<S>, dim3(n * size), S::THREADS, t, WHAT, err, S::BYTES, size);
}

/* A kernel: a cluster of n_split blocks, or MULTICAST times as many, has m outputs of n rows; its blocks split the
 * columns. launch: of gated->gate alone, but for the gated ones. */
struct kernel {
    enum kg_status (*launch)(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_gated *gated, uint32_t n_split,
                             uint32_t n_clusters, struct kg_error *err);
    uint32_t (*clusters)(uint32_t n_split); /* that the device runs at the same time */
    uint32_t m, n, max_split;
    bool any_rows; /* rows by expert or shared, too; not those that are added to y */
    bool gated;    /* m: gates, and as many ups */
    /* Times of a block in ns, measured on the H200: a step of 64 columns, prologue and epilogue, the exchange of sums
     * in a cluster. Of the gated ones they are estimates: what the same tiles take, and an activation. */
    uint32_t step, ends, exchange;
};

template <typename S> static constexpr kernel by_threads(uint32_t step, uint32_t ends, uint32_t exchange) {
    return { launch<S>,
             [](uint32_t n_split) { return kg_clusters_at_once(gemm_kernel<S>, S::THREADS, S::BYTES, n_split); },
             S::M,
             S::N,
             KG_MAX_SPLIT,
             true,
             false,
             step,
             ends,
             exchange };
}

template <typename S> static constexpr kernel by_tma(uint32_t step, uint32_t ends, uint32_t exchange) {
    return { launch_tma<S>,
             [](uint32_t n_split) {
                 return kg_clusters_at_once(gemm_tma_kernel<S>, S::THREADS, S::BYTES, n_split * S::MULTICAST);
             },
             S::OUTPUTS * S::MULTICAST,
             S::N,
             S::MAX_SPLIT,
             false,
             S::GATED,
             step,
             ends,
             exchange };
}

static constexpr kernel KERNELS[KG_MXFP4_KERNELS] = {
    by_threads<gemm_shape<2, 64, 10, 72>>(320, 3900, 1200),
    by_threads<gemm_shape<4, 64, 8, 64>>(505, 5000, 1200),
    by_threads<gemm_shape<3, 128, 8, 80>>(537, 5000, 1700),
    by_tma<tma_shape<1, 64, 12, 1, 2, 4>>(235, 1100, 500),
    by_tma<tma_shape<2, 64, 12, 1, 1, 4>>(270, 2000, 900),
    by_tma<tma_shape<3, 128, 7, 1, 1, 2>>(460, 2400, 1000),
    by_tma<tma_shape<2, 128, 9, 1, 1, 1>>(340, 1700, 0),
    by_tma<tma_shape<2, 256, 4, 2, 1, 1>>(640, 1500, 0),
    by_tma<tma_shape<2, 128, 9, 1, 1, 1, true>>(345, 2200, 0),
    by_tma<tma_shape<2, 256, 5, 2, 1, 1, true>>(645, 2500, 0),
};

/* A kernel, the split of its columns, the clusters that run at once, and its estimated time. */
struct choice {
    const kernel *kernel;
    uint32_t n_split, n_clusters;
    uint64_t ns;
};

static struct choice choose(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p, bool gated) {
    const uint64_t steps = p->n_cols / TILE_COLS, n_matrices = p->ids ? std::min(p->n_experts, p->n_rows) : 1;
    struct choice best = { NULL, 1, 1, UINT64_MAX };
    for (uint32_t i = 0; i < KG_MXFP4_KERNELS; i++) {
        const kernel *k = &KERNELS[i];
        if (k->gated != gated || (k->any_rows ? p->adds : p->ids || p->n_sharing > 1)) continue;
        for (uint32_t n_split = 1; n_split <= k->max_split && n_split <= steps; n_split++) {
            uint32_t *clusters = &cuda->mxfp4_clusters[i][n_split];
            if (*clusters == 0) *clusters = k->clusters(n_split);
            const uint64_t rows = ceil_div(ceil_div(p->n_rows, n_matrices), k->n) * n_matrices,
                           waves = ceil_div(ceil_div(p->n_out, k->m) * rows, *clusters);
            const uint64_t ns =
                waves * (ceil_div(steps, n_split) * k->step + k->ends + (n_split > 1 ? k->exchange : 0));
            if (ns < best.ns) best = { k, n_split, *clusters, ns };
        }
    }
    return best;
}

static enum kg_status launch_best(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_gated *gated, bool is_gated,
                                  struct kg_error *err) {
    const struct choice best = choose(cuda, &gated->gate, is_gated);
    return best.kernel->launch(cuda, gated, best.n_split, best.n_clusters, err);
}

/* What two products and a launch of the activation take: its start, and gate, up and y through the L2. */
static uint64_t apart_ns(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *gate) {
    constexpr uint64_t LAUNCH = 1500, BYTES_PER_NS = 4000, BYTES = 3 * sizeof(__half);
    return 2 * choose(cuda, gate, false).ns + LAUNCH + (uint64_t)gate->n_rows * gate->n_out * BYTES / BYTES_PER_NS;
}

} // namespace kg_mxfp4

using namespace kg_mxfp4;

uint64_t kg_mxfp4_gemm_workspace_bytes(uint32_t n_rows, uint32_t n_experts) {
    return lay_out(NULL, n_rows, n_experts).size_bytes;
}

bool kg_mxfp4_gemm_takes(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p) {
    const uint32_t few_rows = p->ids ? (uint32_t)KG_MXFP4_GEMV_MAX_ROWS : (uint32_t)KG_MXFP4_FEW_ROWS;
    return cuda->compute_capability == 90 && p->weight_f16 && kg_vector_aligned(p->x) && kg_vector_aligned(p->y) &&
           (!p->ids || p->workspace) && p->n_rows > few_rows;
}

enum kg_status kg_mxfp4_gemm(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p,
                             struct kg_error *err) {
    const struct kg_mxfp4_gated product = { *p, NULL, NULL, {} };
    return launch_best(cuda, &product, false, err);
}

bool kg_mxfp4_gated_takes(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *gate) {
    return kg_mxfp4_gemm_takes(cuda, gate) && !gate->ids && gate->n_sharing == 1 && gate->y_is_f16 &&
           choose(cuda, gate, true).ns <= apart_ns(cuda, gate);
}

enum kg_status kg_mxfp4_gemm_gated(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_gated *p,
                                   struct kg_error *err) {
    return launch_best(cuda, p, true, err);
}
