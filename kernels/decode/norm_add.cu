/* What a decode step adds to the residual stream where a layer's outputs are normalised first, in one launch:
 *
 *     y[i] = y[i] + x[i] / sqrt(mean_j x[j]^2 + eps) * weight[i]
 *
 * (contracts in ops/rmsnorm.h, add.h). x, y (n) of T, weight float32. One block; thread t has vectors t, t + threads,
 * ... of 8 elements. Squares are summed as ops/rmsnorm.cu sums them, and the normalised row is rounded to T before it
 * is added, so that the bits are those of the two operations. */
#include "kernels/block/precision.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/block/rmsnorm.cuh"
#include "kernels/decode/launches.h"
#include "kernels/preload.h"
#include "kernels/ptx/dependent.cuh"

KG_PRELOADED(decode_norm_add, KG_NEXT_TOKENS)

constexpr int MAX_THREADS = KG_WARP * KG_MAX_WARPS;

template <typename T>
static __global__ void __launch_bounds__(MAX_THREADS) norm_add_kernel(const struct kg_step_norm_add p) {
    __shared__ float shared[KG_MAX_WARPS];
    const T *x = static_cast<const T *>(p.x);
    T *y = static_cast<T *>(p.y);
    float sum = 0;
    kg_dependents_start();
    kg_dependency_wait(); /* x and y are in memory, and y's readers are done */
    kg_each_vector<KG_VECTOR>(x, p.n, [&](float(&v)[KG_VECTOR], size_t) {
#pragma unroll
        for (int e = 0; e < KG_VECTOR; e++) v[e] *= v[e];
        sum += kg_thread_reduce<kg_sum>(v);
    });
    const float inverse_rms = kg_inverse_rms(kg_block_reduce<kg_sum>(sum, shared), p.n, p.eps);
    kg_each_vector<KG_VECTOR>(x, p.n, [&](float(&v)[KG_VECTOR], size_t at) {
        float w[KG_VECTOR], old[KG_VECTOR];
        kg_load_vector(p.weight + at, w);
        kg_load_vector(y + at, old);
        kg_normalise(v, inverse_rms, w);
#pragma unroll
        for (int e = 0; e < KG_VECTOR; e++) {
            T rounded;
            kg_store(&rounded, v[e]);
            v[e] = old[e] + kg_load(&rounded);
        }
        kg_store_vector(y + at, v);
    });
}

bool kg_step_norm_add_fits(const struct kg_step_norm_add *p) {
    return p->n % KG_VECTOR == 0 && kg_vector_aligned(p->x) && kg_vector_aligned(p->y) && kg_vector_aligned(p->weight);
}

enum kg_status kg_step_add_norm(const struct kg_cuda_backend *cuda, const struct kg_step_norm_add *p,
                                struct kg_error *err) {
    return kg_launch_dependent(cuda,
                               p->precision == KG_PRECISION_F16 ? norm_add_kernel<__half> : norm_add_kernel<float>,
                               dim3(1), kg_row_threads(p->n / KG_VECTOR), *p, "decode step: norm and add", err);
}
