/* swiglu of one element, as all kernels that gate have it (contract in ops/swiglu.h).
 *
 * Float32 with the full-precision expf and division: exp(-alpha g) is infinite below -88.7 / alpha, where the quotient
 * becomes -0 and the true value is under |g (u + up_offset)| 2^-128. Clamped by comparisons, which leave a NaN as it
 * is. */
#ifndef KIGO_KERNELS_BLOCK_SWIGLU_CUH
#define KIGO_KERNELS_BLOCK_SWIGLU_CUH

#include "kernels/cuda_backend.h"
#include <cmath>

struct kg_swiglu_op {
    float limit, alpha, up_offset; /* limit: infinite for none */
    __device__ __forceinline__ float operator()(float gate, float up) const {
        if (gate > limit) gate = limit;
        if (up > limit) up = limit;
        if (up < -limit) up = -limit;
        return __fdiv_rn(gate, 1.0f + expf(-alpha * gate)) * (up + up_offset);
    }
};

/* The same with the cube of gelu's tanh form, so g and z = g + cubic g^3 have one sign: exp(-alpha z) is infinite far
 * below 0, where the quotient becomes -0 as above. No limit, no offset: the contract's others have no cube. */
struct kg_geglu_op {
    float alpha, cubic, up_offset;
    __device__ __forceinline__ float operator()(float gate, float up) const {
        const float z = fmaf(cubic * gate * gate, gate, gate);
        return __fdiv_rn(gate, 1.0f + expf(-alpha * z)) * (up + up_offset);
    }
};

static inline struct kg_swiglu_op kg_swiglu_op_of(float limit, float alpha, float up_offset) {
    return { limit > 0 ? limit : INFINITY, alpha, up_offset };
}

#endif
