/* softmax: y[r][i] = exp((x[r][i] - max_r) scale) / sum_j exp((x[r][j] - max_r) scale) (contract in ops/softmax.h).
 *
 * x, y (n_rows, n_cols) of T, y may be x. A block a row (kg_for_rows, kg_each_vector), three passes. The weights are
 * computed twice rather than kept: y may be too coarse to keep them in.
 *
 * Float32: the full-precision expf of an exact maximum's differences, a tree within a vector, the thread's few vectors
 * in order, a butterfly over the block. The scale is positive, so the largest product is the largest element's. The
 * maximum starts at the smallest finite number: -inf never becomes it, and a row all masked sums to 0, which nothing
 * else does. */
#include "kernels/block/precision.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/preload.h"

KG_PRELOADED(ops_softmax, KG_SOME_PROMPTS)

constexpr int MAX_THREADS = KG_WARP * KG_MAX_WARPS;

/* In place. */
template <int N> static __device__ __forceinline__ void to_weights(float (&x)[N], float largest, float scale) {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = expf((x[i] - largest) * scale);
}

template <typename T, int N>
static __global__ void __launch_bounds__(MAX_THREADS) softmax_kernel(const T *x, T *y, uint32_t n_cols, float scale) {
    __shared__ float shared[KG_MAX_WARPS];
    x += (size_t)blockIdx.x * n_cols;
    y += (size_t)blockIdx.x * n_cols;
    float largest = kg_max::NEUTRAL, sum = 0;
    kg_each_vector<N>(x, n_cols,
                      [&](float(&v)[N], size_t) { largest = kg_max::of(largest, kg_thread_reduce<kg_max>(v)); });
    largest = kg_block_reduce<kg_max>(largest, shared);
    kg_each_vector<N>(x, n_cols, [&](float(&v)[N], size_t) {
        to_weights(v, largest, scale);
        sum += kg_thread_reduce<kg_sum>(v);
    });
    sum = kg_block_reduce<kg_sum>(sum, shared);
    const float share = sum == 0.0f ? 0.0f : __fdiv_rn(1.0f, sum);
    kg_each_vector<N>(x, n_cols, [&](float(&v)[N], size_t at) {
        to_weights(v, largest, scale);
#pragma unroll
        for (int e = 0; e < N; e++) v[e] *= share;
        kg_store_some<N>(y + at, v);
    });
}

extern "C" enum kg_status kg_cuda_softmax(struct kg_backend *backend, const struct kg_softmax_args *args,
                                          struct kg_error *err) {
    const enum kg_status status = kg_softmax_check(args, err);
    if (status) return status;
    const auto launch = [&](auto t, auto n) {
        using T = decltype(t);
        softmax_kernel<T, n><<<args->n_rows, kg_row_threads(args->n_cols / n), 0, kg_cuda_of(backend)->stream>>>(
            (const T *)args->x, (T *)args->y, args->n_cols, args->scale);
        return kg_cuda_launched(err, "softmax");
    };
    return kg_for_rows("softmax", args->activations, args->n_rows, args->n_cols, { args->x, args->y }, err, launch);
}
