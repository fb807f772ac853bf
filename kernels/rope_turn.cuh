/* The angle of rope as all kernels that turn have it: position * scale * base^(-2i / n_rot) / factor_i in double (exact to
 * 1e-11 at position 131072), cosine and sine rounded once to float32. */
#ifndef KIGO_KERNELS_ROPE_TURN_CUH
#define KIGO_KERNELS_ROPE_TURN_CUH

#include <cstdint>

/* (cosine, sine) of pair i < n_rot / 2; factors (n_rot / 2) may be NULL. */
static __device__ __forceinline__ float2 kg_rope_turn(double base, double scale, const float *factors, uint32_t n_rot,
                                                      uint32_t position, uint32_t i) {
    const double frequency = pow(base, -2.0 * (double)i / (double)n_rot);
    const double factor = factors ? (double)factors[i] : 1.0;
    double sine, cosine;
    sincos((double)position * scale * frequency / factor, &sine, &cosine);
    return make_float2((float)cosine, (float)sine);
}

#endif
