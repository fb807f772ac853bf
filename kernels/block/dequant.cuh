/* Decoding of weight rows in registers, eight elements at a time: the formats of src/model/dtype_<name>.c, which give
 * the layouts, with the same float32 arithmetic, so that an element is the same bits as there.
 *
 * A row starts where a weight's memory does (256-byte aligned) or whole rows later, so block formats of an even number
 * of bytes are read by 16-bit words, Q4_K and Q5_K by 64-bit words, MXFP4 by bytes. */
#ifndef KIGO_KERNELS_BLOCK_DEQUANT_CUH
#define KIGO_KERNELS_BLOCK_DEQUANT_CUH

#include "kernels/cuda_backend.h"
#include "kernels/mxfp4/layout.cuh"
#include <type_traits>

namespace kg_dequant {

enum { CHUNK = 8 }; /* elements decoded at once: a divisor of every block */

struct bytes8 {
    uint32_t low, high;
    __device__ __forceinline__ uint32_t operator[](int j) const {
        return ((j < 4 ? low : high) >> (8 * (j & 3))) & 0xFF;
    }
};

__device__ __forceinline__ uint32_t load_u16(const uint8_t *p) {
    return *reinterpret_cast<const uint16_t *>(p);
}

__device__ __forceinline__ uint32_t load_u32(const uint8_t *p) {
    return load_u16(p) | load_u16(p + 2) << 16;
}

__device__ __forceinline__ float load_f16(const uint8_t *p) {
    return __half2float(*reinterpret_cast<const __half *>(p));
}

/* 8 bytes at an even address, at a multiple of 8, anywhere. */
__device__ __forceinline__ bytes8 load_8_even(const uint8_t *p) {
    return { load_u32(p), load_u32(p + 4) };
}

__device__ __forceinline__ bytes8 load_8_aligned(const uint8_t *p) {
    const uint2 v = *reinterpret_cast<const uint2 *>(p);
    return { v.x, v.y };
}

__device__ __forceinline__ bytes8 load_8_any(const uint8_t *p) {
    bytes8 v = { 0, 0 };
#pragma unroll
    for (int j = 0; j < 4; j++) {
        v.low |= (uint32_t)p[j] << (8 * j);
        v.high |= (uint32_t)p[4 + j] << (8 * j);
    }
    return v;
}

/* Scale and min of group g of the 12 bytes of Q4_K and Q5_K. */
__device__ __forceinline__ void k_scale(const uint8_t *bytes, uint32_t g, uint32_t *scale, uint32_t *min) {
    if (g < 4) {
        *scale = bytes[g] & 0x3Fu;
        *min = bytes[g + 4] & 0x3Fu;
    } else {
        *scale = (bytes[g + 4] & 0xFu) | (uint32_t)(bytes[g - 4] >> 6) << 4;
        *min = (uint32_t)(bytes[g + 4] >> 4) | (uint32_t)(bytes[g] >> 6) << 4;
    }
}

/* 2^(e-127); 255 is NaN. */
__device__ __forceinline__ float e8m0(uint32_t e) {
    if (e == 0) return __uint_as_float(0x00400000u);
    return __uint_as_float(e == 255 ? 0x7FC00000u : e << 23);
}

/* A sign, two bits of exponent, one of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4, 6. */
__device__ __forceinline__ float e2m1(uint32_t code) {
    const uint32_t magnitude = code & 7, exponent = magnitude >> 1, mantissa = magnitude & 1;
    const uint32_t normal = (exponent + 126) << 23 | mantissa << 22, subnormal = mantissa * 0x3F000000u;
    return __uint_as_float((exponent ? normal : subnormal) | (code & 8) << 28);
}

__device__ __forceinline__ void floats_of_halves(const uint4 &v, float w[CHUNK]) {
    const uint32_t words[4] = { v.x, v.y, v.z, v.w };
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 pair = __half22float2(*reinterpret_cast<const __half2 *>(&words[j]));
        w[2 * j] = pair.x;
        w[2 * j + 1] = pair.y;
    }
}

/* Below: decode_8 of a format. */

__device__ __forceinline__ void decode_f32(const uint8_t *__restrict__ row, uint32_t i, float w[CHUNK]) {
    const float4 *p = reinterpret_cast<const float4 *>(row + 4 * (size_t)i);
    const float4 a = __ldg(p), b = __ldg(p + 1);
    w[0] = a.x, w[1] = a.y, w[2] = a.z, w[3] = a.w;
    w[4] = b.x, w[5] = b.y, w[6] = b.z, w[7] = b.w;
}

__device__ __forceinline__ void decode_f16(const uint8_t *__restrict__ row, uint32_t i, float w[CHUNK]) {
    floats_of_halves(__ldg(reinterpret_cast<const uint4 *>(row + 2 * (size_t)i)), w);
}

__device__ __forceinline__ void decode_bf16(const uint8_t *__restrict__ row, uint32_t i, float w[CHUNK]) {
    const uint4 v = __ldg(reinterpret_cast<const uint4 *>(row + 2 * (size_t)i));
    const uint32_t words[4] = { v.x, v.y, v.z, v.w };
#pragma unroll
    for (int j = 0; j < 4; j++) {
        w[2 * j] = __uint_as_float(words[j] << 16);
        w[2 * j + 1] = __uint_as_float(words[j] & 0xFFFF0000u);
    }
}

__device__ __forceinline__ void decode_q8_0(const uint8_t *__restrict__ row, uint32_t i, float w[CHUNK]) {
    const uint8_t *block = row + (size_t)(i / 32) * 34;
    const float d = load_f16(block);
    const bytes8 q = load_8_even(block + 2 + i % 32);
#pragma unroll
    for (int j = 0; j < CHUNK; j++) w[j] = d * (float)(int8_t)q[j];
}

/* Blocks of 32: the scale, a fifth bit of each (Q5_0), nibbles of elements 0-15 below those of 16-31. */
template <bool FIFTH>
__device__ __forceinline__ void decode_q4_0(const uint8_t *__restrict__ row, uint32_t i, float w[CHUNK]) {
    constexpr uint32_t NIBBLES = FIFTH ? 6 : 2;
    const uint8_t *block = row + (size_t)(i / 32) * (NIBBLES + 16);
    const uint32_t at = i % 32, shift = at < 16 ? 0 : 4;
    const float d = load_f16(block);
    const uint32_t fifth = FIFTH ? load_u32(block + 2) >> at : 0;
    const bytes8 q = load_8_even(block + NIBBLES + at % 16);
#pragma unroll
    for (int j = 0; j < CHUNK; j++)
        w[j] = d * (float)((int)((q[j] >> shift & 0xF) | (fifth >> j & 1) << 4) - (FIFTH ? 16 : 8));
}

/* Blocks of 256: step and minimum, 12 bytes of both for each 32, a fifth bit of each (Q5_K), nibbles. */
template <bool FIFTH>
__device__ __forceinline__ void decode_q4_k(const uint8_t *__restrict__ row, uint32_t i, float w[CHUNK]) {
    constexpr uint32_t NIBBLES = FIFTH ? 48 : 16;
    const uint8_t *block = row + (size_t)(i / 256) * (NIBBLES + 128);
    const uint32_t g = i % 256 / 32, shift = g % 2 * 4;
    uint32_t scale, min;
    k_scale(block + 4, g, &scale, &min);
    const float step = load_f16(block) * (float)scale, low = load_f16(block + 2) * (float)min;
    const bytes8 fifth = FIFTH ? load_8_aligned(block + 16 + i % 32) : bytes8{ 0, 0 },
                 q = load_8_aligned(block + NIBBLES + g / 2 * 32 + i % 32);
#pragma unroll
    for (int j = 0; j < CHUNK; j++)
        w[j] = __fsub_rn(__fmul_rn(step, (float)((q[j] >> shift & 0xF) | (fifth[j] >> g & 1) << 4)), low);
}

__device__ __forceinline__ void decode_q6_k(const uint8_t *__restrict__ row, uint32_t i, float w[CHUNK]) {
    const uint8_t *block = row + (size_t)(i / 256) * 210;
    const uint32_t at = i % 256, half = at / 128, quarter = at / 32 % 4, within = at % 32;
    const uint32_t nibble_shift = quarter / 2 * 4, pair_shift = quarter * 2;
    const float step = load_f16(block + 208) * (float)(int8_t)block[192 + at / 16];
    const bytes8 q = load_8_even(block + half * 64 + quarter % 2 * 32 + within);
    const bytes8 pairs = load_8_even(block + 128 + half * 32 + within);
#pragma unroll
    for (int j = 0; j < CHUNK; j++)
        w[j] = step * (float)((int)((q[j] >> nibble_shift & 0xF) | (pairs[j] >> pair_shift & 3) << 4) - 32);
}

__device__ __forceinline__ void decode_mxfp4(const uint8_t *__restrict__ row, uint32_t i, float w[CHUNK]) {
    const uint8_t *block = row + (size_t)(i / 32) * 17;
    const uint32_t at = i % 32, shift = at < 16 ? 0 : 4;
    const float scale = e8m0(block[0]);
    const bytes8 q = load_8_any(block + 1 + at % 16);
#pragma unroll
    for (int j = 0; j < CHUNK; j++) w[j] = e2m1(q[j] >> shift & 0xF) * scale;
}

/* w[0..8) = elements [i, i + 8) of the row; i is a multiple of 8 and the elements exist. F32, F16 and BF16 need
 * row + i on 16 bytes: rows of a multiple of 8 elements. */
template <enum kg_dtype D>
__device__ __forceinline__ void decode_8(const uint8_t *__restrict__ row, uint32_t i, float w[CHUNK]) {
    if constexpr (D == KG_DTYPE_F32) decode_f32(row, i, w);
    else if constexpr (D == KG_DTYPE_F16) decode_f16(row, i, w);
    else if constexpr (D == KG_DTYPE_BF16) decode_bf16(row, i, w);
    else if constexpr (D == KG_DTYPE_Q4_0 || D == KG_DTYPE_Q5_0) decode_q4_0<D == KG_DTYPE_Q5_0>(row, i, w);
    else if constexpr (D == KG_DTYPE_Q8_0) decode_q8_0(row, i, w);
    else if constexpr (D == KG_DTYPE_Q4_K || D == KG_DTYPE_Q5_K) decode_q4_k<D == KG_DTYPE_Q5_K>(row, i, w);
    else if constexpr (D == KG_DTYPE_Q6_K) decode_q6_k(row, i, w);
    else decode_mxfp4(row, i, w);
}

/* Repacked MXFP4 (mxfp4/layout.cuh), in the place of a format. */
constexpr enum kg_dtype MXFP4_REPACKED = KG_DTYPE_COUNT;

/* A row of a weight. */
template <enum kg_dtype D> struct row_type { using type = const uint8_t *; };
struct repacked_row {
    const uint8_t *codes, *scales; /* of its columns of tile 0 */
};
template <> struct row_type<MXFP4_REPACKED> { using type = repacked_row; };

/* Row o of a weight with rows of row_bytes. */
template <enum kg_dtype D>
__device__ __forceinline__ typename row_type<D>::type row_of(const uint8_t *weight, size_t o, size_t row_bytes) {
    if constexpr (D == MXFP4_REPACKED) {
        constexpr size_t TILE_ROW_BYTES = 2 * 17;
        const uint8_t *group = weight + o / kg_mxfp4::GROUP_ROWS * kg_mxfp4::GROUP_ROWS * row_bytes;
        const size_t g = o % 8, upper = o % kg_mxfp4::GROUP_ROWS / 8;
        return { group + g * 4 * kg_mxfp4::LANE_BYTES + upper * 4,
                 group + row_bytes / TILE_ROW_BYTES * kg_mxfp4::CODES_BYTES + g * 4 + upper };
    } else {
        return weight + o * row_bytes;
    }
}

/* Eight columns are one pair of each of four lanes. */
__device__ __forceinline__ void decode_8_repacked(const repacked_row &row, uint32_t i, float w[CHUNK]) {
    const uint32_t tile = i / kg_mxfp4::TILE_COLS, block = i / 32 % 2, part = i / 8 % 4;
    const float scale = e8m0(row.scales[(size_t)tile * kg_mxfp4::SCALES_BYTES + block * 2]);
    const uint8_t *codes = row.codes + (size_t)tile * kg_mxfp4::CODES_BYTES + block * 8;
#pragma unroll
    for (int t = 0; t < 4; t++) {
        uint32_t pairs[4];
        kg_mxfp4::unpack(*reinterpret_cast<const uint32_t *>(codes + t * kg_mxfp4::LANE_BYTES), pairs);
        const uint32_t pair = part < 2 ? (part == 0 ? pairs[0] : pairs[1]) : (part == 2 ? pairs[2] : pairs[3]);
        const float2 v = __half22float2(*reinterpret_cast<const __half2 *>(&pair));
        w[2 * t] = v.x * (1 / kg_mxfp4::UNPACKED_UNIT) * scale;
        w[2 * t + 1] = v.y * (1 / kg_mxfp4::UNPACKED_UNIT) * scale;
    }
}

/* Formats of blocks of one element, whose rows may have any length. */
template <enum kg_dtype D> struct is_plain {
    static constexpr bool value = D == KG_DTYPE_F32 || D == KG_DTYPE_F16 || D == KG_DTYPE_BF16;
};

/* Element i of a row of a plain format, which may be anywhere. */
template <enum kg_dtype D> __device__ __forceinline__ float decode_1(const uint8_t *__restrict__ row, uint32_t i) {
    static_assert(is_plain<D>::value, "block formats are decoded by eight");
    if (D == KG_DTYPE_F32) return *reinterpret_cast<const float *>(row + 4 * (size_t)i);
    if (D == KG_DTYPE_F16) return load_f16(row + 2 * (size_t)i);
    return __uint_as_float(load_u16(row + 2 * (size_t)i) << 16);
}

/* Elements [i, i + 8) of a row of n, zeros past its end; WHOLE rows may be read by decode_8. */
template <enum kg_dtype D, bool WHOLE>
__device__ __forceinline__ void decode_chunk(typename row_type<D>::type row, uint32_t i, uint32_t n, float w[CHUNK]) {
    (void)n; /* not of whole rows */
    if constexpr (D == MXFP4_REPACKED) {
        decode_8_repacked(row, i, w);
    } else if constexpr (WHOLE) {
        decode_8<D>(row, i, w);
    } else {
#pragma unroll
        for (uint32_t j = 0; j < CHUNK; j++) w[j] = i + j < n ? decode_1<D>(row, i + j) : 0.0f;
    }
}

/* Whether rows of the weight may be read by decode_8. */
static inline bool rows_are_whole(const struct kg_weight *w) {
    return w->n_cols % CHUNK == 0 && (kg_dtype_info(w->dtype)->block_elems > 1 || (uintptr_t)w->data % 16 == 0);
}

/* visit(format, whole), both std::integral_constant: the weight's format (MXFP4_REPACKED if it is repacked), and
 * whether its rows may be read by decode_8. Block formats are read by decode_8 only: then operands, of which `what`
 * names the operation, must be `aligned`. */
template <typename Visit>
static enum kg_status visit_format(const struct kg_weight *w, bool is_repacked, bool aligned, const char *what,
                                   struct kg_error *err, const Visit &visit) {
    const auto of = [&](auto format) -> enum kg_status {
        if (aligned && rows_are_whole(w)) return visit(format, std::true_type());
        if constexpr (is_plain<decltype(format)::value>::value) return visit(format, std::false_type());
        return kg_fail(err, KG_ERR_USAGE, "%s: an operand is not on 16 bytes", what);
    };
    if (is_repacked) return of(std::integral_constant<enum kg_dtype, MXFP4_REPACKED>());
    switch (w->dtype) {
#define FORMAT_CASE(name, gguf_id, text, block_elems, block_bytes)                                                     \
    case KG_DTYPE_##name: return of(std::integral_constant<enum kg_dtype, KG_DTYPE_##name>());
        KG_DTYPE_LIST(FORMAT_CASE)
#undef FORMAT_CASE
    case KG_DTYPE_COUNT: break;
    }
    return kg_fail(err, KG_ERR_USAGE, "%s: %d is no weight format", what, (int)w->dtype);
}

} // namespace kg_dequant

#endif
