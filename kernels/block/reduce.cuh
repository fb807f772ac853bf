/* Sums and maxima over a warp or a block, in an order that depends on the number of threads only: a butterfly over the
 * lanes, then over the warps' results. Every thread gets the result. Float32 rounds log2(threads) times. */
#ifndef KIGO_KERNELS_BLOCK_REDUCE_CUH
#define KIGO_KERNELS_BLOCK_REDUCE_CUH

#include <cuda_runtime.h>
#include <math_constants.h>

constexpr int KG_WARP = 32;
constexpr int KG_MAX_WARPS = 32; /* of a block */

struct kg_sum {
    static constexpr float NEUTRAL = 0.0f;
    static __device__ __forceinline__ float of(float a, float b) {
        return a + b;
    }
};

struct kg_max {
    static constexpr float NEUTRAL = -3.402823466e38f;
    static __device__ __forceinline__ float of(float a, float b) {
        return fmaxf(a, b);
    }
};

/* Over `LANES` neighbouring lanes (a power of two); all 32 lanes of the warp must call. */
template <typename Op, int LANES = KG_WARP> static __device__ __forceinline__ float kg_warp_reduce(float x) {
    static_assert(LANES >= 1 && LANES <= KG_WARP && (LANES & (LANES - 1)) == 0, "lanes are a power of two");
#pragma unroll
    for (int apart = LANES / 2; apart > 0; apart /= 2) x = Op::of(x, __shfl_xor_sync(0xFFFFFFFF, x, apart));
    return x;
}

/* Over the N values (a power of two) of one thread, in place: a tree. */
template <typename Op, int N> static __device__ __forceinline__ float kg_thread_reduce(float (&x)[N]) {
    static_assert(N >= 1 && (N & (N - 1)) == 0, "values are a power of two");
#pragma unroll
    for (int apart = N / 2; apart > 0; apart /= 2)
#pragma unroll
        for (int i = 0; i < apart; i++) x[i] = Op::of(x[i], x[i + apart]);
    return x[0];
}

/* Over a block of a multiple of 32 threads; `shared` holds KG_MAX_WARPS floats and may be used again at once. */
template <typename Op> static __device__ __forceinline__ float kg_block_reduce(float x, float *shared) {
    const unsigned lane = threadIdx.x % KG_WARP, warp = threadIdx.x / KG_WARP, n_warps = blockDim.x / KG_WARP;
    x = kg_warp_reduce<Op>(x);
    __syncthreads(); /* readers of an earlier use of `shared` are done */
    if (lane == 0) shared[warp] = x;
    __syncthreads(); /* every warp's result is visible */
    return kg_warp_reduce<Op>(lane < n_warps ? shared[lane] : Op::NEUTRAL);
}

/* Threads of a block that reduces a row of n items (vectors or elements): no more than there are items, in whole warps.
 */
static inline unsigned kg_row_threads(size_t n_items) {
    constexpr size_t MOST = (size_t)KG_WARP * KG_MAX_WARPS;
    return (unsigned)(n_items < MOST ? (n_items + KG_WARP - 1) / KG_WARP * KG_WARP : MOST);
}

#endif
