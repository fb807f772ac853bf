/* rmsnorm: y[r][i] = x[r][i] / sqrt(mean_j x[r][j]^2 + eps) * weight[i] (contract in ops/rmsnorm.h).
 *
 * x (n_rows, n_cols) of X, y of T, y may be x, weight (n_cols) float32. A block a row (kg_for_rows, kg_each_vector).
 * Squares are summed in float32: a tree within a vector, the thread's few vectors in order, a butterfly over the block.
 * Root and quotient are rounded correctly. */
#include "kernels/ptx/dependent.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/block/rmsnorm.cuh"
#include "kernels/preload.h"

KG_PRELOADED(ops_rmsnorm, KG_FIRST_TOKEN)

constexpr int MAX_THREADS = KG_WARP * KG_MAX_WARPS;

template <typename X, typename T, int N>
static __global__ void __launch_bounds__(MAX_THREADS) rmsnorm_kernel(const struct kg_rmsnorm_args p) {
    __shared__ float shared[KG_MAX_WARPS];
    const X *x = static_cast<const X *>(p.x) + (size_t)blockIdx.x * p.n_cols;
    T *y = static_cast<T *>(p.y) + (size_t)blockIdx.x * p.n_cols;
    kg_dependents_start();
    kg_dependency_wait(); /* x is visible; nothing reads y any more */
    float sum = 0;
    kg_each_vector<N>(x, p.n_cols, [&](float(&v)[N], size_t) {
#pragma unroll
        for (int e = 0; e < N; e++) v[e] *= v[e];
        sum += kg_thread_reduce<kg_sum>(v);
    });
    const float inverse_rms = kg_inverse_rms(kg_block_reduce<kg_sum>(sum, shared), p.n_cols, p.eps);
    kg_each_vector<N>(x, p.n_cols, [&](float(&v)[N], size_t at) {
        float w[N];
        kg_load_some<N>(p.weight + at, w);
        kg_normalise(v, inverse_rms, w);
        kg_store_some<N>(y + at, v);
    });
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
