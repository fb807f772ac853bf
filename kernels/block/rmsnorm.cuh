/* rmsnorm as the kernels of rows have it: y_i = x_i s w_i, s = 1 / sqrt(sum_j x_j^2 / n + eps).
 *
 * Root and quotients are rounded correctly. How the squares are summed over threads is the kernel's. */
#ifndef KIGO_KERNELS_BLOCK_RMSNORM_CUH
#define KIGO_KERNELS_BLOCK_RMSNORM_CUH

#include <cstdint>
#include <cuda_runtime.h>

/* s from the row's sum of squares. */
static __device__ __forceinline__ float kg_inverse_rms(float squares, uint32_t n, float eps) {
    return __fdiv_rn(1.0f, __fsqrt_rn(__fdiv_rn(squares, (float)n) + eps));
}

/* Adds a thread's squares, one after the other. */
template <int N> static __device__ __forceinline__ void kg_add_squares(float &sum, const float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) sum = fmaf(x[i], x[i], sum);
}

/* x becomes y. */
template <int N>
static __device__ __forceinline__ void kg_normalise(float (&x)[N], float inverse_rms, const float (&weight)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = x[i] * inverse_rms * weight[i];
}

#endif
