/* rmsnorm: y[r][i] = x[r][i] / sqrt(mean_j x[r][j]^2 + eps) * weight[i] (contract in ops/rmsnorm.h).
 *
 * x (n_rows, n_cols) of X, y of T, weight (n_cols) float32. One block a row; thread t takes vectors t, t + threads, ...
 * of 8 elements (of 1 where the row is no whole vectors or a pointer is not aligned), reads them again for the result,
 * and writes only what it has read itself, so y may be x. Squares are summed in float32: a tree within a vector, the
 * thread's few vectors in order, a butterfly over the block. Root and quotient are rounded correctly. */
#include "kernels/ptx/dependent.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/block/rmsnorm.cuh"

constexpr int MAX_THREADS = KG_WARP * KG_MAX_WARPS;

template <int N> static __device__ __forceinline__ float sum_squares(const float (&x)[N]) {
    float square[N];
#pragma unroll
    for (int i = 0; i < N; i++) square[i] = x[i] * x[i];
    return kg_thread_reduce<kg_sum>(square);
}

template <typename X, typename T, int N>
static __global__ void __launch_bounds__(MAX_THREADS) rmsnorm_kernel(const struct kg_rmsnorm_args p) {
    __shared__ float shared[KG_MAX_WARPS];
    const X *x = static_cast<const X *>(p.x);
    T *y = static_cast<T *>(p.y);
    const uint32_t n_cols = p.n_cols;
    kg_dependents_start();
    kg_dependency_wait(); /* x is visible; nothing reads y any more */
    const size_t row = (size_t)blockIdx.x * n_cols;
    const uint32_t n_vectors = n_cols / N;
    float v[N], sum = 0;
    for (uint32_t i = threadIdx.x; i < n_vectors; i += blockDim.x) {
        kg_load_some<N>(x + row + (size_t)i * N, v);
        sum += sum_squares(v);
    }
    const float inverse_rms = kg_inverse_rms(kg_block_reduce<kg_sum>(sum, shared), n_cols, p.eps);
    for (uint32_t i = threadIdx.x; i < n_vectors; i += blockDim.x) {
        float w[N];
        kg_load_some<N>(x + row + (size_t)i * N, v);
        kg_load_some<N>(p.weight + (size_t)i * N, w);
        kg_normalise(v, inverse_rms, w);
        kg_store_some<N>(y + row + (size_t)i * N, v);
    }
}

extern "C" enum kg_status kg_cuda_rmsnorm(struct kg_backend *backend, const struct kg_rmsnorm_args *args,
                                          struct kg_error *err) {
    const enum kg_status status = kg_rmsnorm_check(args, err);
    if (status) return status;
    const auto launch = [&](auto t, auto n) {
        using T = decltype(t);
        return kg_launch_dependent(kg_cuda_of(backend),
                                   args->wide_input ? rmsnorm_kernel<float, T, n> : rmsnorm_kernel<T, T, n>,
                                   dim3(args->n_rows), kg_row_threads(args->n_cols / n), *args, "rmsnorm", err);
    };
    return kg_for_rows("rmsnorm", args->activations, args->n_rows, args->n_cols, { args->x, args->y, args->weight },
                       err, launch);
}
