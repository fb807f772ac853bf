/* experts_combine: y[r] = residual[r] + sum_j weights[r][j] x[r n_used + j] (contract in ops/experts_combine.h).
 *
 * x (n_rows, n_used, n_cols), residual and y (n_rows, n_cols) of T, weights (n_rows, n_used) float32. Grid (pieces of a
 * row, rows); a thread has a vector of 8 columns (or one, where rows are no whole vectors), which it alone reads and
 * writes, so y may be the residual. Float32 sums, the experts in order, the residual first, then one rounding. */
#include "kernels/ptx/dependent.cuh"
#include "kernels/block/precision.cuh"

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
    for (uint32_t j = 0; j < p.n_used; j++) {
        kg_load_some<N>(x + (size_t)j * p.n_cols, v);
#pragma unroll
        for (int i = 0; i < N; i++) sum[i] = fmaf(weights[j], v[i], sum[i]);
    }
    kg_store_some<N>(static_cast<T *>(p.y) + row * p.n_cols + at, sum);
}

template <typename T>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_experts_combine_args *args,
                             struct kg_error *err) {
    const bool whole = kg_rows_vector_aligned(args->x, args->n_cols) && kg_vector_aligned(args->y) &&
                       kg_vector_aligned(args->residual);
    const dim3 grid(args->n_rows, kg_blocks_for(args->n_cols, THREADS * (whole ? KG_VECTOR : 1)));
    return kg_launch_dependent(cuda, whole ? experts_combine_kernel<T, KG_VECTOR> : experts_combine_kernel<T, 1>, grid,
                               THREADS, *args, "experts_combine", err);
}

extern "C" enum kg_status kg_cuda_experts_combine(struct kg_backend *backend,
                                                  const struct kg_experts_combine_args *args, struct kg_error *err) {
    enum kg_status status = kg_experts_combine_check(args, err);
    if (!status) status = kg_cuda_require_float("experts_combine", "activations", args->activations, err);
    if (status || args->n_rows == 0) return status;
    const struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    return args->activations == KG_PRECISION_F16 ? launch<__half>(cuda, args, err) : launch<float>(cuda, args, err);
}
