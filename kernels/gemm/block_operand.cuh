/* Rows of block formats as left operands of wgmma (ptx/wgmma.cuh), decoded in registers from shared memory, where they
 * lie as in a file: Q4_0, Q5_0, Q8_0, Q4_K, Q5_K, Q6_K.
 *
 * A chunk is 256 columns: one block of K-quants, eight of the others. A tile is 64 of them, four slices of 16. Lane
 * (g, t), g = lane / 4 and t = lane % 4, has rows g and g + 8 of its warp's 16, and of a slice columns 2 t, 2 t + 1,
 * 2 t + 8, 2 t + 9: two 16-bit words where codes are bytes, or nibbles of two slices.
 *
 * Numerics: an element is computed in float32, but for Q4_0, Q5_0 and Q8_0, and rounded to float16. A code c stands in
 * the mantissa of 1 + c / 128 (Q4_K, Q5_K, Q6_K), so that one float32 fma gives scale c, minus a minimum where there is
 * one: 128 scale (1 + c / 128) + zero, zero = -(128 scale + minimum), which is rounded to 2^-24 of itself. Or it stands
 * in that of the float16 1024 + c, from which a subtraction makes c exactly, and a product with the block's float16
 * scale rounds once.
 *
 * Formats: src/format/dtype_<name>.c. */
#ifndef KIGO_KERNELS_GEMM_BLOCK_OPERAND_CUH
#define KIGO_KERNELS_GEMM_BLOCK_OPERAND_CUH

#include "kernels/ptx/memory.cuh"
#include <cuda_fp16.h>

extern "C" {
#include "format/dtype.h"
}

namespace kg_block_gemm {

enum { CHUNK_COLS = 256, TILE_COLS = 64, CHUNK_TILES = CHUNK_COLS / TILE_COLS, SLICES = TILE_COLS / 16 };

/* Bytes of 256 columns. */
static __host__ __device__ constexpr uint32_t chunk_bytes(enum kg_dtype dtype) {
    switch (dtype) {
#define KG_CHUNK_BYTES(name, gguf_id, text, block_elems, block_bytes)                                                  \
    case KG_DTYPE_##name: return CHUNK_COLS / (block_elems) * (block_bytes);
        KG_DTYPE_LIST(KG_CHUNK_BYTES)
#undef KG_CHUNK_BYTES
    case KG_DTYPE_COUNT: break;
    }
    return 0;
}

/* Two 16-bit words, the second 8 bytes behind the first. */
static __device__ __forceinline__ uint32_t words_at(unsigned address) {
    return (uint32_t)kg_load_shared<uint16_t>(address) | (uint32_t)kg_load_shared<uint16_t>(address + 8) << 16;
}

static __device__ __forceinline__ unsigned bits_of(__half2 v) {
    return *reinterpret_cast<const unsigned *>(&v);
}
static __device__ __forceinline__ __half2 halves_of(unsigned bits) {
    return *reinterpret_cast<const __half2 *>(&bits);
}

/* (code - ZERO) d for four codes, a byte each. */
template <int ZERO>
static __device__ __forceinline__ void times_half(uint32_t codes, __half2 d, unsigned &first, unsigned &second) {
    const __half2 zero = __half2half2(__ushort_as_half(0x6400 + ZERO)); /* 1024 + ZERO */
    first = bits_of(__hmul2_rn(__hsub2_rn(halves_of(__byte_perm(codes, 0x64646464u, 0x4140)), zero), d));
    second = bits_of(__hmul2_rn(__hsub2_rn(halves_of(__byte_perm(codes, 0x64646464u, 0x4342)), zero), d));
}

/* code step - low for four codes of at most 7 bits, a byte each, by step_128 = 128 step and zero = -step_128 - low. */
static __device__ __forceinline__ void times_float(uint32_t codes, float step_128, float zero, unsigned &first,
                                                   unsigned &second) {
    const uint32_t mantissas = codes | 0x80808080u;
    float v[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        v[i] = fmaf(__uint_as_float(__byte_perm(mantissas, 0x3F000000u, 0x7044 + (i << 8))), step_128, zero);
    first = bits_of(__floats2half2_rn(v[0], v[1]));
    second = bits_of(__floats2half2_rn(v[2], v[3]));
}

/* A lane's part of a chunk of one row. The constructor reads what tiles share; load<T> reads tile T; get<S> gives slice
 * S of the loaded tile: columns 2 t, 2 t + 1, and 2 t + 8, 2 t + 9. `chunk` is the address of its bytes, even. */
template <enum kg_dtype D> struct lane_row;

template <int ZERO, uint32_t CODES> struct row_of_nibbles {
    static constexpr bool FIFTH = ZERO == 16;
    unsigned chunk;
    uint32_t t, words[2], fifths[4];
    __half2 d[2];
    __device__ __forceinline__ row_of_nibbles(unsigned chunk_, uint32_t t_) : chunk(chunk_), t(t_) {
    }
    template <int T> __device__ __forceinline__ void load() {
#pragma unroll
        for (int b = 0; b < 2; b++) {
            const unsigned block = chunk + (2 * T + b) * (CODES + 16);
            d[b] = __half2half2(__ushort_as_half(kg_load_shared<uint16_t>(block)));
            words[b] = words_at(block + CODES + 2 * t);
            if (FIFTH) {
                fifths[2 * b] = kg_load_shared<uint16_t>(block + 2);
                fifths[2 * b + 1] = kg_load_shared<uint16_t>(block + 4);
            }
        }
    }
    template <int S> __device__ __forceinline__ void get(unsigned &first, unsigned &second) const {
        uint32_t codes = words[S / 2] >> S % 2 * 4 & 0x0F0F0F0Fu;
        if (FIFTH) { /* bits 0, 1, 8, 9 to bits 4, 12, 20, 28 */
            const uint32_t bits = fifths[S] >> 2 * t;
            codes |= ((bits & 0x101) * (1u << 4 | 1u << 12) & 0x00100010u) |
                     ((bits & 0x202) * (1u << 11 | 1u << 19) & 0x10001000u);
        }
        times_half<ZERO>(codes, d[S / 2], first, second);
    }
};
template <> struct lane_row<KG_DTYPE_Q4_0> : row_of_nibbles<8, 2> { using row_of_nibbles::row_of_nibbles; };
template <> struct lane_row<KG_DTYPE_Q5_0> : row_of_nibbles<16, 6> { using row_of_nibbles::row_of_nibbles; };

template <> struct lane_row<KG_DTYPE_Q8_0> {
    unsigned chunk;
    uint32_t t, words[SLICES];
    __half2 d[2];
    __device__ __forceinline__ lane_row(unsigned chunk_, uint32_t t_) : chunk(chunk_), t(t_) {
    }
    template <int T> __device__ __forceinline__ void load() {
#pragma unroll
        for (int b = 0; b < 2; b++) {
            const unsigned block = chunk + (2 * T + b) * 34;
            d[b] = __half2half2(__ushort_as_half(kg_load_shared<uint16_t>(block)));
            words[2 * b] = words_at(block + 2 + 2 * t);
            words[2 * b + 1] = words_at(block + 18 + 2 * t);
        }
    }
    template <int S> __device__ __forceinline__ void get(unsigned &first, unsigned &second) const {
        times_half<128>(words[S] ^ 0x80808080u, d[S / 2], first, second);
    }
};

/* Step and minimum of sub-blocks 2 t, 2 t + 1 are lane t's to compute; a tile's are fetched from lane T. Both stand in
 * 12 bytes: the first four of each in 6 bits of a byte, the others in 4 bits of the last four bytes and 2 of the first
 * eight. */
template <uint32_t CODES> struct row_of_k_nibbles {
    static constexpr bool FIFTH = CODES == 48;
    unsigned chunk;
    uint32_t t, words[2], fifths[2];
    float steps[2], zeros[2], step[2], zero[2];
    __device__ __forceinline__ row_of_k_nibbles(unsigned chunk_, uint32_t t_) : chunk(chunk_), t(t_) {
        const uint4 head = kg_load_shared<uint4>(chunk);
        const uint32_t shift = t % 2 * 16, first = head.y >> shift, second = head.z >> shift, third = head.w >> shift;
        const bool upper = t >= 2;
        const uint32_t s = upper ? (third & 0x0F0F) | (first >> 2 & 0x3030) : first & 0x3F3F,
                       m = upper ? (third >> 4 & 0x0F0F) | (second >> 2 & 0x3030) : second & 0x3F3F;
        const float d = 128 * __low2float(halves_of(head.x)), d_min = __high2float(halves_of(head.x));
        steps[0] = d * (float)(s & 0xFF), steps[1] = d * (float)(s >> 8);
        zeros[0] = -steps[0] - d_min * (float)(m & 0xFF), zeros[1] = -steps[1] - d_min * (float)(m >> 8);
    }
    template <int T> __device__ __forceinline__ void load() {
#pragma unroll
        for (int s = 0; s < 2; s++) {
            words[s] = words_at(chunk + CODES + 32 * T + 16 * s + 2 * t);
            if (FIFTH) fifths[s] = words_at(chunk + 16 + 16 * s + 2 * t) >> 2 * T;
            step[s] = __shfl_sync(0xFFFFFFFFu, steps[s], T, 4);
            zero[s] = __shfl_sync(0xFFFFFFFFu, zeros[s], T, 4);
        }
    }
    template <int S> __device__ __forceinline__ void get(unsigned &first, unsigned &second) const {
        uint32_t codes = words[S % 2] >> S / 2 * 4 & 0x0F0F0F0Fu;
        if (FIFTH) codes |= (S / 2 ? fifths[S % 2] << 3 : fifths[S % 2] << 4) & 0x10101010u;
        times_float(codes, step[S / 2], zero[S / 2], first, second);
    }
};
template <> struct lane_row<KG_DTYPE_Q4_K> : row_of_k_nibbles<16> { using row_of_k_nibbles::row_of_k_nibbles; };
template <> struct lane_row<KG_DTYPE_Q5_K> : row_of_k_nibbles<48> { using row_of_k_nibbles::row_of_k_nibbles; };

/* Each slice has a scale; lane t computes those of tile t. Quarters of 32 columns of a half: nibbles of 0, 1
 * below those of 2, 3; two bits of each quarter in a byte. */
template <> struct lane_row<KG_DTYPE_Q6_K> {
    unsigned chunk;
    uint32_t t, words[SLICES], pairs[2];
    float steps[SLICES], step[SLICES], zero[SLICES];
    __device__ __forceinline__ lane_row(unsigned chunk_, uint32_t t_) : chunk(chunk_), t(t_) {
        const uint32_t scales = (uint32_t)kg_load_shared<uint16_t>(chunk + 192 + 4 * t) |
                                (uint32_t)kg_load_shared<uint16_t>(chunk + 194 + 4 * t) << 16;
        const float d = 128 * __half2float(__ushort_as_half(kg_load_shared<uint16_t>(chunk + 208)));
#pragma unroll
        for (int s = 0; s < SLICES; s++) steps[s] = d * (float)(int8_t)(scales >> 8 * s);
    }
    template <int T> __device__ __forceinline__ void load() {
#pragma unroll
        for (int s = 0; s < SLICES; s++) {
            words[s] = words_at(chunk + T / 2 * 64 + s * 16 + 2 * t) >> T % 2 * 4;
            step[s] = __shfl_sync(0xFFFFFFFFu, steps[s], T, 4);
            zero[s] = -step[s] * (1 + 32 / 128.0f);
        }
#pragma unroll
        for (int s = 0; s < 2; s++) pairs[s] = words_at(chunk + 128 + T / 2 * 32 + s * 16 + 2 * t) >> T % 2 * 4;
    }
    template <int S> __device__ __forceinline__ void get(unsigned &first, unsigned &second) const {
        const uint32_t two = S / 2 ? pairs[S % 2] << 2 : pairs[S % 2] << 4;
        times_float((words[S] & 0x0F0F0F0Fu) | (two & 0x30303030u), step[S], zero[S], first, second);
    }
};

} // namespace kg_block_gemm

#endif
