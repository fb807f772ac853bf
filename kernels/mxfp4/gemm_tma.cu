/* Launches gemm_tma.cuh. */
#include "kernels/mxfp4/gemm_tma.cuh"
#include "kernels/attention/sdpa/tensor_map.h"
#include <algorithm>

namespace kg_mxfp4 {

static uint32_t ceil_div(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

/* The tensor maps of the kernel's copies (tensor_map.h). */
template <typename S>
static enum kg_status make_maps(tma_params *t, const struct kg_mxfp4_product *p, struct kg_error *err) {
    const uint32_t n_steps = p->n_cols / TILE_COLS, group_bytes = n_steps * (CODES_BYTES + SCALES_BYTES);
    const auto view = [&](CUtensorMap *map, const void *data, uint32_t n_rows, uint32_t n_halves, uint64_t row_halves,
                          uint32_t box_rows, uint32_t box_bytes) {
        kg_tensor_extent e = {};
        e.data = data;
        e.strides.row = row_halves;
        e.n_batch = e.n_heads = 1;
        e.n_rows = n_rows, e.head_dim = n_halves;
        e.element_bytes = 2, e.box_rows = box_rows, e.box_bytes = box_bytes;
        return kg_tensor_map_make(map, &e, "linear: mxfp4", err);
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

template <typename S> static uint32_t tma_clusters(uint32_t n_split) {
    return clusters_at_once(gemm_tma_kernel<S>, n_split * S::MULTICAST, S::THREADS, S::BYTES);
}

template <typename S>
static enum kg_status launch_tma(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p, uint32_t n_split,
                                 uint32_t n_clusters, struct kg_error *err) {
    tma_params t = {};
    t.p = *p, t.n_split = n_split, t.unit_shift = (uint32_t)S::unit_shift((int)n_split);
    t.n_across = ceil_div(p->n_out, S::M * S::MULTICAST);
    t.n_tiles = t.n_across * ceil_div(p->n_rows, S::N);
    const enum kg_status status = make_maps<S>(&t, p, err);
    if (status) return status;
    const uint32_t size = n_split * S::MULTICAST, n = S::PERSISTENT ? std::min(t.n_tiles, n_clusters) : t.n_tiles;
    return kg_launch_dependent(cuda, gemm_tma_kernel<S>, dim3(n * size), S::THREADS, t, "linear: mxfp4", err, S::BYTES,
                               size);
}

template <typename S> static constexpr struct kg_mxfp4_gemm entry(uint32_t step, uint32_t ends, uint32_t exchange) {
    return { launch_tma<S>, tma_clusters<S>, S::M * S::MULTICAST, S::N, S::MAX_SPLIT, false, step, ends, exchange };
}

} // namespace kg_mxfp4

using namespace kg_mxfp4;

const struct kg_mxfp4_gemm kg_mxfp4_gemms_tma[KG_MXFP4_GEMMS_TMA] = {
    entry<tma_shape<1, 64, 12, 1, 2, 4>>(235, 1100, 500),  entry<tma_shape<2, 64, 12, 1, 1, 4>>(270, 2000, 900),
    entry<tma_shape<3, 128, 7, 1, 1, 2>>(460, 2400, 1000), entry<tma_shape<2, 128, 9, 1, 1, 1>>(340, 1700, 0),
    entry<tma_shape<2, 256, 4, 2, 1, 1>>(640, 1500, 0),
};
