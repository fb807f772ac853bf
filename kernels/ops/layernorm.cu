/* layernorm: y[r][i] = (x[r][i] - mean_r) / sqrt(var_r + eps) * weight[i] + bias[i] (contract in ops/layernorm.h).
 *
 * x, y (n_rows, n_cols) of T, weight and bias (n_cols) float32. One block a row; thread t takes vectors t, t + threads,
 * ... of 8 elements (of 1 where the row is no whole vectors or a pointer is not aligned), reads them again for each of
 * three passes, and writes only what it has read itself, so y may be x.
 *
 * Float32 sums: a tree within a vector, the thread's few vectors in order, a butterfly over the block. The first pass
 * gives a mean that has rounding errors of the size of x; the second sums both d = x - mean, which has none of them
 * where x is near the mean, and d^2, and corrects by the mean of d: mean + shift, mean d^2 - shift^2. So the result is
 * as good for a row far from zero as for one around it. (Chan, Golub, LeVeque, Algorithms for computing the sample
 * variance, 1983.) */
#include "kernels/block/precision.cuh"
#include "kernels/block/reduce.cuh"

constexpr int MAX_THREADS = KG_WARP * KG_MAX_WARPS;

template <typename T, int N>
static __global__ void __launch_bounds__(MAX_THREADS)
    layernorm_kernel(const T *x, const float *weight, const float *bias, T *y, uint32_t n_cols, float eps) {
    __shared__ float shared[KG_MAX_WARPS];
    const size_t row = (size_t)blockIdx.x * n_cols;
    const uint32_t n_vectors = n_cols / N;
    float v[N], sum = 0, rest = 0, squares = 0;
    for (uint32_t i = threadIdx.x; i < n_vectors; i += blockDim.x) {
        kg_load_some<N>(x + row + (size_t)i * N, v);
        sum += kg_thread_reduce<kg_sum>(v);
    }
    const float mean = __fdiv_rn(kg_block_reduce<kg_sum>(sum, shared), (float)n_cols);
    for (uint32_t i = threadIdx.x; i < n_vectors; i += blockDim.x) {
        float square[N];
        kg_load_some<N>(x + row + (size_t)i * N, v);
#pragma unroll
        for (int e = 0; e < N; e++) v[e] -= mean, square[e] = v[e] * v[e];
        rest += kg_thread_reduce<kg_sum>(v);
        squares += kg_thread_reduce<kg_sum>(square);
    }
    const float shift = __fdiv_rn(kg_block_reduce<kg_sum>(rest, shared), (float)n_cols);
    const float mean_square = __fdiv_rn(kg_block_reduce<kg_sum>(squares, shared), (float)n_cols);
    /* Rounding must not leave a negative variance. */
    const float variance = fmaxf(mean_square - shift * shift, 0.0f);
    const float scale = __fdiv_rn(1.0f, __fsqrt_rn(variance + eps));
    for (uint32_t i = threadIdx.x; i < n_vectors; i += blockDim.x) {
        float w[N], b[N] = {};
        kg_load_some<N>(x + row + (size_t)i * N, v);
        kg_load_some<N>(weight + (size_t)i * N, w);
        if (bias) kg_load_some<N>(bias + (size_t)i * N, b);
#pragma unroll
        for (int e = 0; e < N; e++) v[e] = (v[e] - mean - shift) * scale * w[e] + b[e];
        kg_store_some<N>(y + row + (size_t)i * N, v);
    }
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
