/* A row's experts, as all kernels that route choose them.
 *
 * The warp's lanes look at experts lane, lane + 32, ... k times for the first of those that come after the one found
 * before, by logit, then by number: an order that needs no list of those taken. Largest logits first, so that
 * exponentials are at most 1; their sum is float32, lane by lane in order, then by a butterfly. A NaN counts as -inf in
 * the order; it or an infinity makes the row's weights NaN. */
#ifndef KIGO_KERNELS_BLOCK_ROUTER_CUH
#define KIGO_KERNELS_BLOCK_ROUTER_CUH

#include "kernels/block/reduce.cuh"
#include <cstdint>
#include <math_constants.h>

struct kg_candidate {
    float logit;
    uint32_t expert;
};

/* Whether a comes before b; an expert is before none that is itself. */
static __device__ __forceinline__ bool kg_is_before(const kg_candidate &a, const kg_candidate &b) {
    return a.logit > b.logit || (a.logit == b.logit && a.expert < b.expert);
}

/* The first of the row after `last`; of all, if there is none yet. Every lane gets it. */
static __device__ __forceinline__ kg_candidate kg_first_after(const float *logits, uint32_t n_experts, bool has_last,
                                                              const kg_candidate &last) {
    kg_candidate best = { -CUDART_INF_F, UINT32_MAX };
    for (uint32_t e = threadIdx.x % KG_WARP; e < n_experts; e += KG_WARP) {
        const kg_candidate c = { isnan(logits[e]) ? -CUDART_INF_F : logits[e], e };
        if ((!has_last || kg_is_before(last, c)) && kg_is_before(c, best)) best = c;
    }
#pragma unroll
    for (int apart = KG_WARP / 2; apart > 0; apart /= 2) {
        const kg_candidate other = { __shfl_xor_sync(0xFFFFFFFF, best.logit, apart),
                                     __shfl_xor_sync(0xFFFFFFFF, best.expert, apart) };
        if (kg_is_before(other, best)) best = other;
    }
    return best;
}

/* Of a number that is no NaN: in the order of its floats, from 2^23 - 1 (-inf) on. */
static __device__ __forceinline__ uint32_t kg_order_of(float x) {
    const uint32_t bits = __float_as_uint(x + 0.0f); /* -0 is 0 */
    return bits >> 31 ? ~bits : bits | 1u << 31;
}

/* The same where a lane has an expert. */
static __device__ __forceinline__ void kg_route_few(const float *logits, uint32_t n_experts, uint32_t n_used,
                                                    int32_t *ids, float *weights) {
    const uint32_t lane = threadIdx.x % KG_WARP;
    const bool there = lane < n_experts;
    const float logit = there ? logits[lane] : -CUDART_INF_F, ordered = isnan(logit) ? -CUDART_INF_F : logit;
    const bool finite = __all_sync(0xFFFFFFFF, !there || isfinite(logit));
    uint32_t left = there ? kg_order_of(ordered) : 0, expert = 0; /* 0: not there, or taken */
    for (uint32_t j = 0; j < n_used; j++) {                       /* lane j gets the jth */
        const uint32_t most = __reduce_max_sync(0xFFFFFFFF, left);
        const uint32_t found = (uint32_t)__ffs((int)__ballot_sync(0xFFFFFFFF, left == most)) - 1;
        if (lane == j) expert = found;
        if (lane == found) left = 0;
    }
    const float chosen = __shfl_sync(0xFFFFFFFF, ordered, (int)expert);
    const float largest = __shfl_sync(0xFFFFFFFF, chosen, 0), power = lane < n_used ? expf(chosen - largest) : 0.0f;
    const float sum = kg_warp_reduce<kg_sum>(power);
    if (lane >= n_used) return;
    ids[lane] = (int32_t)expert;
    weights[lane] = finite ? __fdiv_rn(power, sum) : CUDART_NAN_F;
}

/* The experts of a row's logits, and their weights: a whole warp. */
static __device__ __forceinline__ void kg_route_row(const float *logits, uint32_t n_experts, uint32_t n_used,
                                                    int32_t *ids, float *weights) {
    if (n_experts <= KG_WARP) return kg_route_few(logits, n_experts, n_used, ids, weights);
    const uint32_t lane = threadIdx.x % KG_WARP;
    bool finite = true;
    for (uint32_t e = lane; e < n_experts; e += KG_WARP) finite = finite && isfinite(logits[e]);
    finite = __all_sync(0xFFFFFFFF, finite);

    kg_candidate last = {};
    float largest = 0;
    for (uint32_t j = 0; j < n_used; j++) {
        last = kg_first_after(logits, n_experts, j > 0, last);
        if (j == 0) largest = last.logit;
        if (lane == 0) ids[j] = (int32_t)last.expert;
    }
    __syncwarp(); /* the ids are written */
    float sum = 0;
    for (uint32_t j = lane; j < n_used; j += KG_WARP) sum += expf(logits[ids[j]] - largest);
    sum = kg_warp_reduce<kg_sum>(sum);
    for (uint32_t j = lane; j < n_used; j += KG_WARP)
        weights[j] = finite ? __fdiv_rn(expf(logits[ids[j]] - largest), sum) : CUDART_NAN_F;
}

#endif
