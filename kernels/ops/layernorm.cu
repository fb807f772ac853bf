/* layernorm: y[r][i] = (x[r][i] - mean_r) / sqrt(var_r + eps) * weight[i] + bias[i] (contract in ops/layernorm.h).
 *
 * x, y (n_rows, n_cols) of T, y may be x, weight and bias (n_cols) float32. A block a row (kg_for_rows,
 * kg_each_vector), three passes.
 *
 * Float32 sums: a tree within a vector, the thread's few vectors in order, a butterfly over the block. The first pass
 * gives a mean that has rounding errors of the size of x; the second sums both d = x - mean, which has none of them
 * where x is near the mean, and d^2, and corrects by the mean of d: mean + shift, mean d^2 - shift^2. So the result is
 * as good for a row far from zero as for one around it. (Chan, Golub, LeVeque, Algorithms for computing the sample
 * variance, 1983.) */
#include "kernels/block/precision.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/preload.h"

KG_PRELOADED(ops_layernorm, KG_SOME_PROMPTS)

constexpr int MAX_THREADS = KG_WARP * KG_MAX_WARPS;

template <typename T, int N>
static __global__ void __launch_bounds__(MAX_THREADS)
    layernorm_kernel(const T *x, const float *weight, const float *bias, T *y, uint32_t n_cols, float eps) {
    __shared__ float shared[KG_MAX_WARPS];
    x += (size_t)blockIdx.x * n_cols;
    y += (size_t)blockIdx.x * n_cols;
    float sum = 0, rest = 0, squares = 0;
    kg_each_vector<N>(x, n_cols, [&](float(&v)[N], size_t) { sum += kg_thread_reduce<kg_sum>(v); });
    const float mean = __fdiv_rn(kg_block_reduce<kg_sum>(sum, shared), (float)n_cols);
    kg_each_vector<N>(x, n_cols, [&](float(&v)[N], size_t) {
        float square[N];
#pragma unroll
        for (int e = 0; e < N; e++) v[e] -= mean, square[e] = v[e] * v[e];
        rest += kg_thread_reduce<kg_sum>(v);
        squares += kg_thread_reduce<kg_sum>(square);
    });
    const float shift = __fdiv_rn(kg_block_reduce<kg_sum>(rest, shared), (float)n_cols);
    const float mean_square = __fdiv_rn(kg_block_reduce<kg_sum>(squares, shared), (float)n_cols);
    /* Rounding must not leave a negative variance. */
    const float variance = fmaxf(mean_square - shift * shift, 0.0f);
    const float scale = __fdiv_rn(1.0f, __fsqrt_rn(variance + eps));
    kg_each_vector<N>(x, n_cols, [&](float(&v)[N], size_t at) {
        float w[N], b[N] = {};
        kg_load_some<N>(weight + at, w);
        if (bias) kg_load_some<N>(bias + at, b);
#pragma unroll
        for (int e = 0; e < N; e++) v[e] = (v[e] - mean - shift) * scale * w[e] + b[e];
        kg_store_some<N>(y + at, v);
    });
}

extern "C" enum kg_status kg_cuda_layernorm(struct kg_backend *backend, const struct kg_layernorm_args *args,
                                            struct kg_error *err) {
    const enum kg_status status = kg_layernorm_check(args, err);
    if (status) return status;
    const auto launch = [&](auto t, auto n) {
        using T = decltype(t);
        layernorm_kernel<T, n><<<args->n_rows, kg_row_threads(args->n_cols / n), 0, kg_cuda_of(backend)->stream>>>(
            (const T *)args->x, args->weight, args->bias, (T *)args->y, args->n_cols, args->eps);
        return kg_cuda_launched(err, "layernorm");
    };
    return kg_for_rows("layernorm", args->activations, args->n_rows, args->n_cols,
                       { args->x, args->y, args->weight, args->bias }, err, launch);
}
