/* PTX of approximate arithmetic and of conversions (PTX ISA, "Floating Point Instructions", "Half Precision Floating
 * Point Instructions", "cvt"), one instruction a wrapper. Not volatile: the compiler may move and merge them. */
#ifndef KIGO_KERNELS_PTX_MATH_CUH
#define KIGO_KERNELS_PTX_MATH_CUH

#include "kernels/ptx/compiler.cuh"

/* 2^x with a relative error of 2^-22; 0 below the normal numbers. */
static __device__ __forceinline__ float kg_exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 / x within 1 ulp, without a branch; infinity for what is below the normal numbers. */
static __device__ __forceinline__ float kg_reciprocal_fast(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Two floats rounded to halves, `low` in the low half: one instruction, which the compiler does not take apart (as it
 * may kg_pack_halves of precision.cuh). */
static __device__ __forceinline__ uint32_t kg_convert_to_halves(float low, float high) {
    uint32_t packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

/* Four E4M3 as four halves: every E4M3 number is one (sm_89). */
static __device__ __forceinline__ uint2 kg_halves_of_e4m3(uint32_t x) {
    uint2 y = make_uint2(0, 0);
    if constexpr (KG_ARCH >= 890)
        asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\n"
            "cvt.rn.f16x2.e4m3x2 %0, low;\ncvt.rn.f16x2.e4m3x2 %1, high;\n}"
            : "=r"(y.x), "=r"(y.y)
            : "r"(x));
    return y;
}

/* Two int8 of a word as two halves, exactly: as bytes of 128 + x they are the mantissas of 1024 + 128 + x. PAIR: 0x4140
 * for the word's low two, 0x4342 for its high two. */
template <unsigned PAIR> static __device__ __forceinline__ uint32_t kg_halves_of_s8(uint32_t x) {
    uint32_t biased, y;
    asm("prmt.b32 %0, %1, 0x64646464, %2;" : "=r"(biased) : "r"(x ^ 0x80808080), "n"(PAIR));
    asm("sub.f16x2 %0, %1, %2;" : "=r"(y) : "r"(biased), "r"(0x64806480)); /* 1152 */
    return y;
}

#endif
