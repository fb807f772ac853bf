/* Loads and stores of 8 bfloat16 as float32 (precision.cuh). */
#ifndef KIGO_KERNELS_BLOCK_BFLOAT16_CUH
#define KIGO_KERNELS_BLOCK_BFLOAT16_CUH

#include "kernels/block/precision.cuh"
#include <cuda_bf16.h>

/* A bfloat16 is a float32's upper half. */
template <> struct kg_raw_vector<__nv_bfloat16> {
    uint4 bits;
    __device__ __forceinline__ void load(const __nv_bfloat16 *p) {
        bits = *reinterpret_cast<const uint4 *>(p);
    }
    __device__ __forceinline__ void to_floats(float (&x)[KG_VECTOR]) const {
        const unsigned words[4] = { bits.x, bits.y, bits.z, bits.w };
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[2 * i] = __uint_as_float(words[i] << 16);
            x[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
        }
    }
};

static __device__ __forceinline__ void kg_store_vector(__nv_bfloat16 *p, const float (&x)[KG_VECTOR]) {
    alignas(KG_VECTOR_ALIGN_BYTES) __nv_bfloat16 packed[KG_VECTOR];
#pragma unroll
    for (int e = 0; e < KG_VECTOR; e++) packed[e] = __float2bfloat16_rn(x[e]);
    *reinterpret_cast<uint4 *>(p) = *reinterpret_cast<const uint4 *>(packed);
}

#endif
