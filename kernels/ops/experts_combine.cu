/* experts_combine: y[r] = residual[r] + sum_j weights[r][j] x[r n_used + j] (contract in ops/experts_combine.h).
 *
 * x (n_rows, n_used, n_cols), residual and y (n_rows, n_cols) of T, weights (n_rows, n_used) float32. Grid (pieces of a
 * row, rows); a thread has a vector of 8 columns (or one, where rows are no whole vectors), which it alone reads and
 * writes, so y may be the residual. Float32 sums, the experts in order, the residual first, then one rounding. */
#include "kernels/ptx/dependent.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/preload.h"

KG_PRELOADED(ops_experts_combine, KG_SOME_PROMPTS)

constexpr int THREADS = 128;

template <typename T, int N>
static __global__ void __launch_bounds__(THREADS) experts_combine_kernel(const struct kg_experts_combine_args p) {
    const size_t row = blockIdx.x, at = (size_t)(blockIdx.y * THREADS + threadIdx.x) * N;
    kg_dependents_start();
    kg_dependency_wait(); /* x and weights are visible; nothing reads y any more */
    if (at >= p.n_cols) return;
    const T *x = static_cast<const T *>(p.x) + row * p.n_used * p.n_cols + at;
    const float *weights = p.weights + row * p.n_used;
    float sum[N] = {}, v[N];
    if (p.residual) kg_load_some<N>(static_cast<const T *>(p.residual) + row * p.n_cols + at, sum);
#pragma unroll 4 /* loads in flight */
    for (uint32_t j = 0; j < p.n_used; j++) {
        kg_load_some<N>(x + (size_t)j * p.n_cols, v);
#pragma unroll
        for (int i = 0; i < N; i++) sum[i] = fmaf(weights[j], v[i], sum[i]);
    }
    kg_store_some<N>(static_cast<T *>(p.y) + row * p.n_cols + at, sum);
}

extern "C" enum kg_status kg_cuda_experts_combine(struct kg_backend *backend,
                                                  const struct kg_experts_combine_args *args, struct kg_error *err) {
    const enum kg_status status = kg_experts_combine_check(args, err);
    if (status) return status;
    const auto launch = [&](auto t, auto n) {
        return kg_launch_dependent(kg_cuda_of(backend), experts_combine_kernel<decltype(t), n>,
                                   dim3(args->n_rows, kg_blocks_for(args->n_cols, THREADS * n)), THREADS, *args,
                                   "experts_combine", err);
    };
    return kg_for_rows("experts_combine", args->activations, args->n_rows, args->n_cols,
                       { args->x, args->y, args->residual }, err, launch);
}
