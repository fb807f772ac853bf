/* Launches gemv.cuh and stream.cuh. */
#include "kernels/gemv/gemv.h"
#include "kernels/gemv/stream.cuh"
#include "kernels/preload.h"
#include <algorithm>

KG_PRELOADED(gemv_gemv, KG_FIRST_TOKEN)

namespace kg_gemv {

enum { ROWS_AT_ONCE = 4, GRID_ROWS = 65535 };
static_assert(KG_GEMV_MAX_ROWS == ROWS_AT_ONCE * GRID_ROWS, "one grid without ids");

template <typename W, typename X, int CHUNKS>
static enum kg_status stream(const struct kg_cuda_backend *cuda, const params &p, const char *what,
                             struct kg_error *err) {
    const uint32_t n_blocks = stream_grid_of(kg_blocks_for(p.n_out, STREAM_WARPS / p.parts),
                                             STREAM_BLOCKS<W, CHUNKS> * (uint32_t)cuda->n_sms);
    return kg_launch_dependent(cuda, gemv_stream_kernel<W, X, CHUNKS>, dim3(n_blocks), STREAM_THREADS, p, what, err);
}

template <typename W, typename X>
static enum kg_status stream_row(const struct kg_cuda_backend *cuda, const params &p, uint32_t chunks, const char *what,
                                 struct kg_error *err) {
    static_assert(MOST_CHUNKS == 4, "a kernel for each number of chunks");
    return chunks == 1   ? stream<W, X, 1>(cuda, p, what, err)
           : chunks == 2 ? stream<W, X, 2>(cuda, p, what, err)
           : chunks == 3 ? stream<W, X, 3>(cuda, p, what, err)
                         : stream<W, X, 4>(cuda, p, what, err);
}

template <enum kg_dtype D, typename X, bool WHOLE>
static enum kg_status launch(const struct kg_cuda_backend *cuda, params p, uint32_t n_rows, const char *what,
                             struct kg_error *err) {
    if constexpr (WHOLE && (D == KG_DTYPE_F16 || D == KG_DTYPE_F32)) {
        using W = std::conditional_t<D == KG_DTYPE_F16, __half, float>;
        const stream_plan plan = stream_plan_of(p.n_out, p.n_in, cuda->n_sms);
        if (!p.ids && n_rows == 1 && plan.chunks > 0) {
            p.parts = plan.parts;
            return stream_row<W, X>(cuda, p, plan.chunks, what, err);
        }
    }
    p.parts = parts_of(p.n_out, p.n_in, cuda->n_sms);
    const uint32_t rows = p.ids || n_rows == 1 ? 1 : ROWS_AT_ONCE;
    void (*const kernel)(params) = p.ids       ? gemv_kernel<D, X, 1, WHOLE, true>
                                   : rows == 1 ? gemv_kernel<D, X, 1, WHOLE, false>
                                               : gemv_kernel<D, X, ROWS_AT_ONCE, WHOLE, false>;
    for (; p.first_row < n_rows; p.first_row += GRID_ROWS * rows) {
        const dim3 grid(kg_blocks_for(p.n_out, WARPS / p.parts),
                        std::min<uint32_t>(kg_blocks_for(n_rows - p.first_row, rows), GRID_ROWS));
        kernel<<<grid, BLOCK_THREADS, 0, cuda->stream>>>(p);
    }
    return kg_cuda_launched(err, what);
}

} // namespace kg_gemv

enum kg_status kg_cuda_gemv(const struct kg_cuda_backend *cuda, const struct kg_experts_linear_args *a,
                            bool is_repacked, const char *what, struct kg_error *err) {
    using namespace kg_gemv;
    const struct kg_weight *w = &a->weight;
    params p = {};
    p.x = a->x;
    p.weight = static_cast<const uint8_t *>(w->data);
    p.row_bytes = kg_weight_row_bytes(w);
    p.bias = a->bias;
    p.y = a->y;
    p.y_is_f16 = a->activations == KG_PRECISION_F16 && !a->wide_output;
    p.n_rows = a->n_rows / a->n_sharing;
    p.n_in = w->n_cols;
    p.n_out = w->n_rows / a->n_experts;
    p.ids = a->ids;
    p.n_experts = a->n_experts;
    p.n_sharing = a->n_sharing;
    const bool f16 = a->activations == KG_PRECISION_F16;
    return kg_dequant::visit_format(
        w, is_repacked, kg_vector_aligned(a->x), what, err, [&](auto format, auto whole) -> enum kg_status {
            return f16 ? launch<format, __half, whole>(cuda, p, a->n_rows, what, err)
                       : launch<format, float, whole>(cuda, p, a->n_rows, what, err);
        });
}
