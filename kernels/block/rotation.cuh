/* The rotation of rope, the same in all kernels. Angle of pair i at a position, in double:
 *
 *     position * scale * base^(-2i / n_rot) / factor_i,    base^(-2i / n_rot) = 2^(log2_ratio i)
 *
 * Of a base above 1, without scale and factors, it is exact to 4e-11 at position 131072:
 *
 *   - log2_ratio i is rounded three times: the logarithm, the division, the product. Each adds 2^-53 of an exponent -x,
 *     so ln(2) 2^-53 x of a frequency 2^-x; x 2^-x is at most 1 / (e ln(2)). Together 3 * 131072 * 2^-53 / e = 1.6e-11.
 *   - exp2 is exact to the last place, 2^-53 of a frequency below 1: 131072 * 2^-53 = 1.5e-11. Pair 0's is exactly 1.
 *   - The product with the position is rounded: 131072 * 2^-54 = 0.7e-11.
 *
 * Its cosine and sine, times the magnitude, are rounded once to float32. */
#ifndef KIGO_KERNELS_BLOCK_ROTATION_CUH
#define KIGO_KERNELS_BLOCK_ROTATION_CUH

extern "C" {
#include "ops/rope.h"
}
#include <cmath>
#include <cstdint>

struct kg_rope_angles {
    double log2_ratio; /* of a pair's frequency to that of the pair before it */
    double scale, magnitude;
    const float *factors; /* (n_rot / 2), NULL for none */
    uint32_t n_rot;
};

/* The angles of a rope whose factors, in device memory, are these. */
static inline struct kg_rope_angles kg_rope_angles_of(const struct kg_rope_args *rope, const float *factors) {
    return { -2.0 * log2((double)rope->freq_base) / rope->n_rot, (double)rope->freq_scale, (double)rope->magnitude,
             factors, rope->n_rot };
}

/* (cosine, sine) of pair i < n_rot / 2. The exponent is rounded before exp2 sees it, whatever the compiler fuses. */
static __device__ __forceinline__ float2 kg_cos_sin(const struct kg_rope_angles &t, uint32_t position, uint32_t i) {
    double angle = (double)position * t.scale * exp2(__dmul_rn(t.log2_ratio, (double)i)), sine, cosine;
    if (t.factors) angle /= (double)t.factors[i];
    sincos(angle, &sine, &cosine);
    return make_float2((float)(cosine * t.magnitude), (float)(sine * t.magnitude));
}

#endif
