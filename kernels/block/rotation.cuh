/* The rotation of rope, the same in all kernels. Angle of pair i at a position, in double (exact to 1e-11 at position
 * 131072):
 *
 *     position * scale * base^(-2i / n_rot) / factor_i
 *
 * Its cosine and sine, times the magnitude, are rounded once to float32. */
#ifndef KIGO_KERNELS_BLOCK_ROTATION_CUH
#define KIGO_KERNELS_BLOCK_ROTATION_CUH

#include <cstdint>

struct kg_rope_angles {
    double base, scale, magnitude;
    const float *factors; /* (n_rot / 2), NULL for none */
    uint32_t n_rot;
};

/* (cosine, sine) of pair i < n_rot / 2. */
static __device__ __forceinline__ float2 kg_cos_sin(const struct kg_rope_angles &t, uint32_t position, uint32_t i) {
    const double frequency = pow(t.base, -2.0 * (double)i / (double)t.n_rot);
    const double factor = t.factors ? (double)t.factors[i] : 1.0;
    double sine, cosine;
    sincos((double)position * t.scale * frequency / factor, &sine, &cosine);
    return make_float2((float)(cosine * t.magnitude), (float)(sine * t.magnitude));
}

#endif
