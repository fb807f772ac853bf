/* Partial results of attention over a part of the keys, and how they are merged: an item is 4 dims of a row, relative
 * to 2^exponent, with the sum of the weights that made it.
 *
 *     value = sum_i value_i 2^(exponent_i - top),   weight = sum_i weight_i 2^(exponent_i - top),   top = max_i
 * exponent_i
 */
#ifndef KIGO_KERNELS_ATTENTION_SDPA_PARTIAL_CUH
#define KIGO_KERNELS_ATTENTION_SDPA_PARTIAL_CUH

#include "kernels/attention/sdpa/operands.cuh"
#include "kernels/ptx/memory.cuh"

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

/* Merges what n (a power of 2, at most 16) neighbouring lanes have; every lane of the warp is here. */
__device__ __forceinline__ void merge_lanes(partial &x, uint32_t n) {
    constexpr uint32_t MOST = 16; /* unrolled: the shuffles of a step overlap */
    const float own = x.weight.x;
#pragma unroll
    for (uint32_t apart = 1; apart < MOST; apart *= 2) {
        if (apart >= n) break;
        x.weight.x = fmaxf(x.weight.x, __shfl_xor_sync(0xFFFFFFFF, x.weight.x, apart));
    }
    scale(x, kg_exp2_fast(own - x.weight.x));
#pragma unroll
    for (uint32_t apart = 1; apart < MOST; apart *= 2) {
        if (apart >= n) break;
        partial y;
        y.value.x = __shfl_xor_sync(0xFFFFFFFF, x.value.x, apart);
        y.value.y = __shfl_xor_sync(0xFFFFFFFF, x.value.y, apart);
        y.value.z = __shfl_xor_sync(0xFFFFFFFF, x.value.z, apart);
        y.value.w = __shfl_xor_sync(0xFFFFFFFF, x.value.w, apart);
        y.weight.y = __shfl_xor_sync(0xFFFFFFFF, x.weight.y, apart);
        add(x, y, 1);
    }
}

/* Items of the parts (clusters, or blocks without one) of a group in transit through memory to the part that sums
 * them.
 *
 * Nothing but the numbers says that they have come: a word that is 0 has not, numbers are stored with their bits
 * inverted, and the one of which that is 0, a NaN, as another NaN. So an item takes one store and one load, where a
 * counter takes a fence, an atomic addition and another fence before the load. The words are 0 again once they are
 * read. */
struct part_items {
    static constexpr uint32_t AT_ONCE = 8; /* parts that are waited for together */
    float4 *values;
    float2 *weights;
    uint32_t n_items; /* of a part */

    __device__ __forceinline__ void store(uint32_t part, uint32_t item, const partial &x) const {
        const uint32_t at = part * n_items + item;
        kg_store_relaxed((uint4 *)values + at,
                         make_uint4(sent(x.value.x), sent(x.value.y), sent(x.value.z), sent(x.value.w)));
        kg_store_relaxed((uint2 *)weights + at, make_uint2(sent(x.weight.x), sent(x.weight.y)));
    }

    /* own and parts 0 to n_parts - 1, in this order; waits for those that have not come. */
    __device__ __forceinline__ partial sum(partial x, uint32_t n_parts, uint32_t item) const {
        for (uint32_t first = 0; first < n_parts; first += AT_ONCE) {
            words y[AT_ONCE];
            bool all_come;
            do {
                all_come = true;
#pragma unroll
                for (uint32_t i = 0; i < AT_ONCE; i++) /* the last one again where there are fewer */
                    y[i] = load(min(first + i, n_parts - 1), item);
#pragma unroll
                for (uint32_t i = 0; i < AT_ONCE; i++)
#pragma unroll
                    for (int e = 0; e < 6; e++) all_come = all_come && y[i].word[e] != 0;
            } while (!all_come);
            float top = x.weight.x;
#pragma unroll
            for (uint32_t i = 0; i < AT_ONCE; i++) top = fmaxf(top, received(y[i]).weight.x);
            scale(x, kg_exp2_fast(x.weight.x - top));
            x.weight.x = top;
#pragma unroll
            for (uint32_t i = 0; i < AT_ONCE; i++) {
                if (first + i >= n_parts) continue;
                const uint32_t at = (first + i) * n_items + item;
                __stcg(values + at, make_float4(0, 0, 0, 0));
                __stcg(weights + at, make_float2(0, 0));
                const partial part = received(y[i]);
                add(x, part, kg_exp2_fast(part.weight.x - top));
            }
        }
        return x;
    }

  private:
    struct words {
        unsigned word[6];
    };

    static __device__ __forceinline__ unsigned sent(float x) {
        const unsigned bits = ~__float_as_uint(x);
        return bits ? bits : 0x80000000u;
    }

    static __device__ __forceinline__ partial received(const words &y) {
        return { make_float4(__uint_as_float(~y.word[0]), __uint_as_float(~y.word[1]), __uint_as_float(~y.word[2]),
                             __uint_as_float(~y.word[3])),
                 make_float2(__uint_as_float(~y.word[4]), __uint_as_float(~y.word[5])) };
    }

    __device__ __forceinline__ words load(uint32_t part, uint32_t item) const {
        const uint32_t at = part * n_items + item;
        const uint4 value = kg_load_relaxed((const uint4 *)values + at);
        const uint2 weight = kg_load_relaxed((const uint2 *)weights + at);
        return { { value.x, value.y, value.z, value.w, weight.x, weight.y } };
    }
};

} // namespace kg_sdpa_mma

#endif
