/* The online softmax of one query row, as the decode kernels have it: what a lane knows of the keys it has seen, and
 * how two such states become one. Float32, with the full-precision expf. */
#ifndef KIGO_KERNELS_BLOCK_SOFTMAX_STATE_CUH
#define KIGO_KERNELS_BLOCK_SOFTMAX_STATE_CUH

#include "kernels/attention/attention.cuh"

/* Running maximum, sum of weights and weighted values of one query head: the 8 dims of a lane. */
struct softmax_state {
    float largest, weight, value[KG_VECTOR];
};

static __device__ __forceinline__ void clear(softmax_state &s) {
    s.largest = -CUDART_INF_F;
    s.weight = 0;
#pragma unroll
    for (int d = 0; d < KG_VECTOR; d++) s.value[d] = 0;
}

/* Adds UNROLL keys: their scores, and the lane's dims of their values. */
template <int UNROLL>
static __device__ __forceinline__ void add_keys(softmax_state &s, const float (&score)[UNROLL],
                                                const float (&v)[UNROLL][KG_VECTOR]) {
    float largest = s.largest;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) largest = fmaxf(largest, score[u]);
    const float shrink = kg_softmax_weight(s.largest, largest);
    s.largest = largest;
    s.weight *= shrink;
#pragma unroll
    for (int d = 0; d < KG_VECTOR; d++) s.value[d] *= shrink;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const float p = kg_softmax_weight(score[u], largest);
        s.weight += p;
#pragma unroll
        for (int d = 0; d < KG_VECTOR; d++) s.value[d] = fmaf(p, v[u][d], s.value[d]);
    }
}

/* Merges with the lane `apart` away. */
static __device__ __forceinline__ void merge_lanes(softmax_state &s, int apart) {
    const float other_largest = __shfl_xor_sync(0xFFFFFFFF, s.largest, apart);
    const float other_weight = __shfl_xor_sync(0xFFFFFFFF, s.weight, apart);
    const float largest = fmaxf(s.largest, other_largest);
    const float own = kg_softmax_weight(s.largest, largest), other = kg_softmax_weight(other_largest, largest);
    s.largest = largest;
    s.weight = s.weight * own + other_weight * other;
#pragma unroll
    for (int d = 0; d < KG_VECTOR; d++)
        s.value[d] = s.value[d] * own + __shfl_xor_sync(0xFFFFFFFF, s.value[d], apart) * other;
}

#endif
