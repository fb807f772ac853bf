/* swiglu of one element, as all kernels that gate have it (contract in ops/swiglu.h).
 *
 * Float32 with the full-precision expf and division: exp(-alpha g) is infinite below -88.7 / alpha, where the quotient
 * becomes -0 and the true value is under |g (u + up_offset)| 2^-128. Clamped by comparisons, which leave a NaN as it
 * is. */
#ifndef KIGO_KERNELS_BLOCK_SWIGLU_CUH
#define KIGO_KERNELS_BLOCK_SWIGLU_CUH

#include "kernels/cuda_backend.h"
#include "kernels/ptx/math.cuh"
#include <cmath>

/* g / (1 + exp(-z)). */
struct kg_exact_sigmoid {
    static __device__ __forceinline__ float times(float g, float z) {
        return __fdiv_rn(g, 1.0f + expf(-z));
    }
};

/* The same for a float16 result: no branch, a quarter of the instructions. exp and the reciprocal come from the special
 * function unit, within (|z| + 4) 2^-22 of the true ones; |z| < 40 where float16 has the result, so that is 2^-16, and
 * float16 rounds to 2^-11. Exponents from 126 on give -0. */
struct kg_quick_sigmoid {
    static __device__ __forceinline__ float times(float g, float z) {
        return g * kg_reciprocal_fast(1.0f + kg_exp2_fast(-1.44269504f * z));
    }
};

struct kg_swiglu_op {
    float limit, alpha, up_offset; /* limit: infinite for none */
    template <typename SIGMOID = kg_exact_sigmoid> __device__ __forceinline__ float of(float gate, float up) const {
        if (gate > limit) gate = limit;
        if (up > limit) up = limit;
        if (up < -limit) up = -limit;
        return SIGMOID::times(gate, alpha * gate) * (up + up_offset);
    }
    __device__ __forceinline__ float operator()(float gate, float up) const {
        return of(gate, up);
    }
};

/* The same with the cube of gelu's tanh form, so g and z = g + cubic g^3 have one sign: exp(-alpha z) is infinite far
 * below 0, where the quotient becomes -0 as above. No limit, no offset: the contract's others have no cube. */
struct kg_geglu_op {
    float alpha, cubic, up_offset;
    template <typename SIGMOID = kg_exact_sigmoid> __device__ __forceinline__ float of(float gate, float up) const {
        const float z = fmaf(cubic * gate * gate, gate, gate);
        return SIGMOID::times(gate, alpha * z) * (up + up_offset);
    }
    __device__ __forceinline__ float operator()(float gate, float up) const {
        return of(gate, up);
    }
};

static inline struct kg_swiglu_op kg_swiglu_op_of(float limit, float alpha, float up_offset) {
    return { limit > 0 ? limit : INFINITY, alpha, up_offset };
}

#endif
