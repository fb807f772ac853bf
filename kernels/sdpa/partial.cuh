/* Partial results of attention over a part of the keys, and how they are merged: an item is 4 dims of a row, relative to
 * 2^exponent, with the sum of the weights that made it.
 *
 *     value = sum_i value_i 2^(exponent_i - top),   weight = sum_i weight_i 2^(exponent_i - top),   top = max_i exponent_i
 */
#ifndef KIGO_KERNELS_SDPA_PARTIAL_CUH
#define KIGO_KERNELS_SDPA_PARTIAL_CUH

#include "kernels/sdpa/operands.cuh"

namespace kg_sdpa_mma {

/* A partial result of an item. */
struct partial {
    float4 value;
    float2 weight; /* exponent, sum of weights */
};

__device__ __forceinline__ void scale(partial &x, float share) {
    x.value.x *= share, x.value.y *= share, x.value.z *= share, x.value.w *= share;
    x.weight.y *= share;
}

/* Adds y, relative to the same exponent after that. */
__device__ __forceinline__ void add(partial &x, const partial &y, float y_share) {
    x.value.x = fmaf(y.value.x, y_share, x.value.x), x.value.y = fmaf(y.value.y, y_share, x.value.y);
    x.value.z = fmaf(y.value.z, y_share, x.value.z), x.value.w = fmaf(y.value.w, y_share, x.value.w);
    x.weight.y = fmaf(y.weight.y, y_share, x.weight.y);
}

__device__ __forceinline__ partial empty_partial() {
    return { make_float4(0, 0, 0, 0), make_float2(-FLT_MAX, 0) };
}

/* Merges what n (a power of 2) neighbouring lanes have; every lane of the warp is here. */
__device__ __forceinline__ void merge_lanes(partial &x, uint32_t n) {
    const float own = x.weight.x;
    for (uint32_t apart = 1; apart < n; apart *= 2)
        x.weight.x = fmaxf(x.weight.x, __shfl_xor_sync(0xFFFFFFFF, x.weight.x, apart));
    scale(x, exp2_fast(own - x.weight.x));
    for (uint32_t apart = 1; apart < n; apart *= 2) {
        partial y;
        y.value.x = __shfl_xor_sync(0xFFFFFFFF, x.value.x, apart);
        y.value.y = __shfl_xor_sync(0xFFFFFFFF, x.value.y, apart);
        y.value.z = __shfl_xor_sync(0xFFFFFFFF, x.value.z, apart);
        y.value.w = __shfl_xor_sync(0xFFFFFFFF, x.value.w, apart);
        y.weight.y = __shfl_xor_sync(0xFFFFFFFF, x.weight.y, apart);
        add(x, y, 1);
    }
}

/* Items of the parts (clusters, or blocks without one) of a group, in args->workspace. */
struct part_items {
    float4 *values;
    float2 *weights;
    uint32_t n_items; /* of a part */

    __device__ __forceinline__ void store(uint32_t part, uint32_t item, const partial &x) const {
        __stcg(values + part * n_items + item, x.value);
        __stcg(weights + part * n_items + item, x.weight);
    }
    __device__ __forceinline__ partial load(uint32_t part, uint32_t item) const {
        return { __ldcg(values + part * n_items + item), __ldcg(weights + part * n_items + item) };
    }
    /* Every n_lanes-th part from `part` on. */
    __device__ __forceinline__ partial sum(uint32_t part, uint32_t n_lanes, uint32_t n_parts, uint32_t item) const {
        partial x = empty_partial();
#pragma unroll 4
        for (; part < n_parts; part += n_lanes) {
            const partial y = load(part, item);
            const float top = fmaxf(x.weight.x, y.weight.x);
            scale(x, exp2_fast(x.weight.x - top));
            x.weight.x = top;
            add(x, y, exp2_fast(y.weight.x - top));
        }
        return x;
    }
};

/* Whether this block is the last of n_parts to come here; what the others stored before is seen then. */
__device__ __forceinline__ bool comes_last(uint32_t *counter, uint32_t n_parts, bool &last) {
    __threadfence();
    __syncthreads(); /* this block's items are in memory */
    if (threadIdx.x == 0) {
        last = atomicAdd(counter, 1) == n_parts - 1;
        if (last) *counter = 0;
    }
    __syncthreads(); /* whether it is the last */
    __threadfence();
    return last;
}

} // namespace kg_sdpa_mma

#endif
