/* experts_linear on the GPU (contract in ops/experts_linear.h): y[r] = x[r / n_sharing] W[e]^T + bias[e], e = ids[r].
 *
 * Repacked MXFP4 by f16 x: mxfp4/mxfp4.h. Else each row of y is a separate matrix-vector product, with gemv.cuh's
 * decoding, sums and order: any format, as exact, but a weight is read again for each row that has its expert.
 *
 * A row whose id is no expert's is not written: the caller is to refuse it. */
#include "kernels/gemv/gemv.cuh"
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/block/precision.cuh"
#include <algorithm>
#include <climits>

struct experts_params {
    kg_gemv::params product; /* n_out: of one expert */
    const int32_t *ids;
    uint32_t n_experts, n_sharing;
    uint32_t first_row; /* of y, of this grid */
};

enum { GRID_ROWS = 65535 }; /* the most blocks that a grid has in y */

/* Grid: (ceil(n_out / (4 / parts)), rows of y from first_row), as gemv_kernel with a row at a time. */
template <enum kg_dtype D, typename X, bool WHOLE>
static __global__ __launch_bounds__(kg_gemv::BLOCK_THREADS) void experts_gemv_kernel(const experts_params e) {
    using namespace kg_gemv;
    __shared__ float partial[WARPS];
    const params &p = e.product;
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const uint32_t row = e.first_row + blockIdx.y;
    const uint32_t part = warp % p.parts, o = blockIdx.x * (WARPS / p.parts) + warp / p.parts;
    const int32_t id = e.ids[row];
    if (id < 0 || (uint32_t)id >= e.n_experts) return;
    const size_t at = (size_t)id * p.n_out + o;
    if (o < p.n_out) {
        float sum[1];
        lane_sums<D, X, 1, WHOLE>(p, row / e.n_sharing, kg_dequant::row_of<D>(p.weight, at, p.row_bytes),
                                  part * WARP + lane, sum);
#pragma unroll
        for (int mask = WARP / 2; mask > 0; mask /= 2) sum[0] += __shfl_xor_sync(0xFFFFFFFFu, sum[0], mask);
        if (lane == 0) partial[warp] = sum[0];
    }
    __syncthreads(); /* the sums of an output's other warps are read below */
    if (o >= p.n_out || part != 0 || lane != 0) return;
    float total = partial[warp];
    for (uint32_t k = 1; k < p.parts; k++) total += partial[warp + k];
    if (p.bias) total += p.bias[at];
    const size_t to = (size_t)row * p.n_out + o;
    if (p.y_is_f16) static_cast<__half *>(p.y)[to] = __float2half_rn(total);
    else static_cast<float *>(p.y)[to] = total;
}

template <enum kg_dtype D, typename X, bool WHOLE>
static enum kg_status launch(const struct kg_cuda_backend *cuda, experts_params e, uint32_t n_rows,
                             struct kg_error *err) {
    const uint32_t outputs = kg_gemv::WARPS / e.product.parts;
    for (; e.first_row < n_rows; e.first_row += GRID_ROWS) {
        const dim3 grid((e.product.n_out + outputs - 1) / outputs, std::min<uint32_t>(n_rows - e.first_row, GRID_ROWS));
        experts_gemv_kernel<D, X, WHOLE><<<grid, kg_gemv::BLOCK_THREADS, 0, cuda->stream>>>(e);
    }
    return kg_cuda_launched(err, "experts_linear");
}

template <enum kg_dtype D>
static enum kg_status run(const struct kg_cuda_backend *cuda, const struct kg_experts_linear_args *args,
                          const experts_params &e, struct kg_error *err) {
    const bool half = args->activations == KG_PRECISION_F16;
    if (kg_dequant::rows_are_whole(&args->weight) && reinterpret_cast<uintptr_t>(args->x) % 16 == 0)
        return half ? launch<D, __half, true>(cuda, e, args->n_rows, err)
                    : launch<D, float, true>(cuda, e, args->n_rows, err);
    if constexpr (kg_dequant::is_plain<D>::value)
        return half ? launch<D, __half, false>(cuda, e, args->n_rows, err)
                    : launch<D, float, false>(cuda, e, args->n_rows, err);
    return kg_fail(err, KG_ERR_USAGE, "experts_linear: x is not on 16 bytes");
}

static enum kg_status run_any(const struct kg_cuda_backend *cuda, const struct kg_experts_linear_args *args,
                              bool repacked, struct kg_error *err) {
    const struct kg_weight *w = &args->weight;
    experts_params e = {};
    e.product.x = args->x;
    e.product.weight = static_cast<const uint8_t *>(w->data);
    e.product.row_bytes = kg_weight_row_bytes(w);
    e.product.bias = args->bias;
    e.product.y = args->y;
    e.product.y_is_f16 = args->activations == KG_PRECISION_F16 && !args->wide_output;
    e.product.n_rows = args->n_rows / args->n_sharing; /* of x */
    e.product.n_in = w->n_cols;
    e.product.n_out = w->n_rows / args->n_experts;
    e.product.parts = kg_gemv::parts_of(e.product.n_out, w->n_cols, cuda->n_sms);
    e.ids = args->ids;
    e.n_experts = args->n_experts;
    e.n_sharing = args->n_sharing;
    if (repacked) return run<kg_dequant::MXFP4_REPACKED>(cuda, args, e, err);
    switch (w->dtype) {
#define EXPERTS_CASE(name, gguf_id, text, block_elems, block_bytes)                                                    \
    case KG_DTYPE_##name: return run<KG_DTYPE_##name>(cuda, args, e, err);
        KG_DTYPE_LIST(EXPERTS_CASE)
#undef EXPERTS_CASE
    case KG_DTYPE_COUNT: break;
    }
    return kg_fail(err, KG_ERR_USAGE, "experts_linear: %d is no weight format", (int)w->dtype);
}

extern "C" enum kg_status kg_cuda_experts_linear(struct kg_backend *backend, const struct kg_experts_linear_args *args,
                                                 struct kg_error *err) {
    enum kg_status status = kg_experts_linear_check(args, err);
    if (!status) status = kg_cuda_require_float("experts_linear", "activations", args->activations, err);
    if (status || args->n_rows == 0) return status;
    const struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    const struct kg_weight *w = &args->weight;
    if (w->n_cols > INT_MAX - kg_dequant::CHUNK)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "experts_linear: %u columns are too many for the cuda back end",
                       w->n_cols);
    const struct kg_mxfp4_range *repacked = kg_mxfp4_repacked_range(cuda, w);
    if (!repacked || args->activations != KG_PRECISION_F16) return run_any(cuda, args, repacked != NULL, err);
    const struct kg_mxfp4_product p = { .x = static_cast<const __half *>(args->x),
                                        .weight = static_cast<const uint8_t *>(w->data),
                                        .bias = args->bias,
                                        .ids = args->ids,
                                        .y = args->y,
                                        .y_is_f16 = !args->wide_output,
                                        .n_rows = args->n_rows,
                                        .n_out = w->n_rows / args->n_experts,
                                        .n_cols = w->n_cols,
                                        .n_experts = args->n_experts,
                                        .n_sharing = args->n_sharing,
                                        .weight_f16 = repacked->f16,
                                        .workspace = args->workspace };
    return kg_mxfp4_multiply(cuda, &p, err);
}
