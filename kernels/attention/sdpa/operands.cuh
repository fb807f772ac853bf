/* E4M3 and int8 as f16 for the sdpa variants by mma.sync, and split's exponentials and scale of the scores.
 *
 * Scores stay as the products q . k give them; their scale, times log2 e and the scales of q and k, is a factor c > 0
 * of the exponent: a weight is 2^(c s - c m). A negative scale flips the signs of q instead; one of 0 is the smallest
 * c. */
#ifndef KIGO_KERNELS_ATTENTION_SDPA_OPERANDS_CUH
#define KIGO_KERNELS_ATTENTION_SDPA_OPERANDS_CUH

#include "kernels/ptx/math.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/attention/sdpa/call.h"
#include <cfloat>
#include <cuda_fp8.h>
#include <math_constants.h>

namespace kg_sdpa_mma {

using kg_sdpa::refuses_operands;

constexpr float LOG2_E = 1.4426950408889634f;

/* Two numbers of the low or the high half of a word, E4M3 (T = uint8_t) or int8, exactly, as f16: the lower byte in the
 * lower half. */
template <typename T> __device__ __forceinline__ unsigned halves_of_low(unsigned word) {
    if constexpr (std::is_same_v<T, int8_t>) return kg_halves_of_s8<0x4140>(word);
    const __half2_raw pair = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)(word & 0xFFFF), __NV_E4M3);
    return (unsigned)pair.x | (unsigned)pair.y << 16;
}

template <typename T> __device__ __forceinline__ unsigned halves_of_high(unsigned word) {
    if constexpr (std::is_same_v<T, int8_t>) return kg_halves_of_s8<0x4342>(word);
    return halves_of_low<T>(word >> 16);
}

/* The exponent of the largest score, finite even where nothing has been seen (-inf). */
__device__ __forceinline__ float top_exponent(float largest_score, float c) {
    return fminf(fmaxf(largest_score * c, -FLT_MAX), FLT_MAX);
}

/* From here on an exponent costs the fused product c s - exponent too many bits: scores are shifted by the largest
 * first, which is subtracted exactly. */
constexpr float LARGE_EXPONENT = 4096;

/* What to subtract from c s, and, where that is no fused product (`shifts`), what from s before. */
struct exponent_shift {
    float exponent, score;
    bool shifts;
    __device__ __forceinline__ exponent_shift(float largest_score, float top)
        : exponent(top), score(largest_score), shifts(fabsf(top) > LARGE_EXPONENT && largest_score >= -FLT_MAX) {
        if (shifts) exponent = 0;
    }
};

/* What a row's summed values are multiplied with: 1 / its sum of weights and the sink's (-inf: none); 0 if it saw no
 * key. exponent: what its weights are relative to; sink: times log2 e. */
__device__ __forceinline__ float share_of_sum(float exponent, float weight, float sink) {
    const float top = fmaxf(exponent, sink), shrink = kg_exp2_fast(exponent - top);
    return weight > 0 ? __fdividef(shrink, fmaf(weight, shrink, kg_exp2_fast(sink - top))) : 0;
}

/* What of scale is in c, and what to exclusive-or pairs of halves of q with. */
__device__ __forceinline__ float exponent_factor(float scale) {
    return fmaxf(fabsf(scale) * LOG2_E, FLT_MIN);
}

__device__ __forceinline__ unsigned sign_flip(float scale) {
    return scale < 0 ? 0x80008000u : 0;
}

/* Keys [begin, end) that a query at this position sees; empty where begin >= end. Positions may be negative. */
struct key_range {
    int begin, end;
};

__device__ __forceinline__ key_range keys_seen(const struct kg_sdpa_args &p, int position) {
    key_range seen = { 0, (int)p.n_keys };
    if (!p.causal) return seen;
    seen.end = min(position + 1, (int)p.n_keys);
    if (p.window > 0 && position >= 0 && (uint32_t)position >= p.window) seen.begin = position + 1 - (int)p.window;
    return seen;
}

} // namespace kg_sdpa_mma

#endif
