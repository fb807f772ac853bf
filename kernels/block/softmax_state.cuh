/* Softmax in float32, with the full-precision expf: weights, sinks, and the online softmax of one query row, as the
 * decode kernels have it: what a lane knows of the keys it has seen, and how two such states become one. */
#ifndef KIGO_KERNELS_BLOCK_SOFTMAX_STATE_CUH
#define KIGO_KERNELS_BLOCK_SOFTMAX_STATE_CUH

#include "kernels/block/precision.cuh"
#include <math_constants.h>

/* exp(score - largest), 0 for a key that is not seen (a score of -inf) even where no key has been seen yet. */
static __device__ __forceinline__ float kg_softmax_weight(float score, float largest) {
    return score == -CUDART_INF_F ? 0.0f : expf(score - largest);
}

/* What the weights so far, relative to the largest score, become where the head has a sink: the sum with it, relative
 * to the larger of the two, and by what the weighted values shrink. */
struct kg_with_sink {
    float weight, shrink;
};

static __device__ __forceinline__ kg_with_sink kg_add_sink(const float *sinks, uint32_t head, float largest,
                                                           float weight) {
    if (!sinks) return { weight, 1.0f };
    const float sink = sinks[head], larger = fmaxf(largest, sink);
    const float shrink = kg_softmax_weight(largest, larger);
    return { fmaf(weight, shrink, kg_softmax_weight(sink, larger)), shrink };
}

/* Running maximum, sum of weights and weighted values of one query head: the DIMS dims of a lane. */
template <int DIMS> struct softmax_of_dims { float largest, weight, value[DIMS]; };
using softmax_state = softmax_of_dims<KG_VECTOR>;

template <int DIMS> static __device__ __forceinline__ void clear(softmax_of_dims<DIMS> &s) {
    s.largest = -CUDART_INF_F;
    s.weight = 0;
#pragma unroll
    for (int d = 0; d < DIMS; d++) s.value[d] = 0;
}

/* Adds UNROLL keys: their scores, and the lane's dims of their values. */
template <int UNROLL, int DIMS>
static __device__ __forceinline__ void add_keys(softmax_of_dims<DIMS> &s, const float (&score)[UNROLL],
                                                const float (&v)[UNROLL][DIMS]) {
    float largest = s.largest;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) largest = fmaxf(largest, score[u]);
    const float shrink = kg_softmax_weight(s.largest, largest);
    s.largest = largest;
    s.weight *= shrink;
#pragma unroll
    for (int d = 0; d < DIMS; d++) s.value[d] *= shrink;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const float p = kg_softmax_weight(score[u], largest);
        s.weight += p;
#pragma unroll
        for (int d = 0; d < DIMS; d++) s.value[d] = fmaf(p, v[u][d], s.value[d]);
    }
}

/* Merges with the lane `apart` away. */
template <int DIMS> static __device__ __forceinline__ void merge_lanes(softmax_of_dims<DIMS> &s, int apart) {
    const float other_largest = __shfl_xor_sync(0xFFFFFFFF, s.largest, apart);
    const float other_weight = __shfl_xor_sync(0xFFFFFFFF, s.weight, apart);
    const float largest = fmaxf(s.largest, other_largest);
    const float own = kg_softmax_weight(s.largest, largest), other = kg_softmax_weight(other_largest, largest);
    s.largest = largest;
    s.weight = s.weight * own + other_weight * other;
#pragma unroll
    for (int d = 0; d < DIMS; d++)
        s.value[d] = s.value[d] * own + __shfl_xor_sync(0xFFFFFFFF, s.value[d], apart) * other;
}

#endif
