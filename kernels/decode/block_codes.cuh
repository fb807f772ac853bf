/* Block formats as operands of a tensor core: rows of W as they lie in a file, decoded in registers. One row of x, so
 * seven of the eight columns of the right operand would be unused.
 *
 * The instruction multiplies 16 rows by 16 columns; lane (g, t), g = lane / 4 and t = lane % 4, gives rows g and g + 8
 * at columns 2t, 2t + 1, 2t + 8, 2t + 9. Here these are four codes of a sub-block of the lane's own, and the right
 * operand is zero but for its x in column 2t. So column 2t of the result, which the same lane holds, is the product of
 * the lane's sub-block of two rows, and it applies their scales. A lane has two sub-blocks, low and high, with sums of
 * their own: sum_i x[i] W[i] = sum over sub-blocks of scale (sum code x) - offset (sum x)
 *
 * Codes are unsigned integers. As the low bits of a float16 they denote code 2^-24, a subnormal, exactly: a code that
 * stands in a byte costs a mask. Codes of high sub-blocks may stand 4 bits higher (HIGH_UNIT). A word of four codes
 * gives the pairs (0, 2) and (1, 3), so x lies in that order: kg_x_order.
 *
 * Formats: docs of src/format/dtype_<name>.c. 256 columns are a chunk: one block of K-quants, eight of the others. */
#ifndef KIGO_KERNELS_DECODE_BLOCK_CODES_CUH
#define KIGO_KERNELS_DECODE_BLOCK_CODES_CUH

#include "kernels/block/dequant.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/ptx/mma.cuh"

namespace kg_block_codes {

enum {
    CHUNK_COLS = 256,
    GROUP_COLS = 16, /* of which the sum of x is kept */
    GROUP_BYTES = GROUP_COLS * sizeof(__half),
    X_SUB_COLS = 32,  /* of x, */
    X_SUB_BYTES = 80, /* which lie so far apart: no bank conflicts */
    X_CHUNK_BYTES = CHUNK_COLS / X_SUB_COLS * X_SUB_BYTES,
};

/* Of 256 columns. */
static __host__ __device__ constexpr uint32_t chunk_bytes(enum kg_dtype dtype) {
    switch (dtype) {
    case KG_DTYPE_Q4_0: return 8 * 18;
    case KG_DTYPE_Q5_0: return 8 * 22;
    case KG_DTYPE_Q8_0: return 8 * 34;
    case KG_DTYPE_Q4_K: return 144;
    case KG_DTYPE_Q5_K: return 176;
    case KG_DTYPE_Q6_K: return 210;
    default: return 0;
    }
}

/* Byte in shared memory of element i of x, a multiple of 8. */
static __device__ __forceinline__ uint32_t x_at(uint32_t i) {
    return i / X_SUB_COLS * X_SUB_BYTES + i % X_SUB_COLS * (uint32_t)sizeof(__half);
}

/* Eight elements of x in the order of the codes' pairs. */
static __device__ __forceinline__ uint4 x_order(const float (&x)[8]) {
    return make_uint4(kg_pack_halves(x[0], x[2]), kg_pack_halves(x[1], x[3]), kg_pack_halves(x[4], x[6]),
                      kg_pack_halves(x[5], x[7]));
}

constexpr float CODE_UNIT = 16777216.0f; /* 1 / 2^-24 */

/* How a lane's two sub-blocks of a row count: sums of codes, and of x. */
struct scales {
    float low, high, low_offset, high_offset;
};

/* A lane's codes of a row's chunk, 32 of each of its two sub-blocks. low(i, p), high(i, p): those of word i (0 to 7),
 * pair p (0, 1), in the low bits of two halves. */
template <enum kg_dtype D> struct codes;

template <> struct codes<KG_DTYPE_Q4_K> {
    static constexpr float HIGH_UNIT = 16;
    uint4 head, words[2];
    __device__ __forceinline__ codes(const unsigned char *chunk, uint32_t t) {
        head = *reinterpret_cast<const uint4 *>(chunk);
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) words[i] = *reinterpret_cast<const uint4 *>(chunk + 16 + 32 * t + 16 * i);
    }
    __device__ __forceinline__ unsigned word(int i) const {
        const uint4 &w = words[i / 4];
        return i % 4 == 0 ? w.x : i % 4 == 1 ? w.y : i % 4 == 2 ? w.z : w.w;
    }
    __device__ __forceinline__ unsigned low(int i, int p) const {
        return word(i) >> 8 * p & 0x000F000Fu;
    }
    __device__ __forceinline__ unsigned high(int i, int p) const {
        return word(i) >> 8 * p & 0x00F000F0u;
    }
    /* Steps and minima of sub-blocks 2t, 2t + 1, from 12 bytes: the first four of both have 6 bits of a byte, the
     * others 4 bits of the last four bytes and 2 of the first eight. */
    static __device__ __forceinline__ scales scales_of(const uint4 &head, uint32_t t, float high_unit) {
        const uint32_t shift = t % 2 * 16, first = head.y >> shift, second = head.z >> shift, third = head.w >> shift;
        const bool upper = t >= 2;
        const uint32_t step = upper ? (third & 0x0F0F) | (first >> 2 & 0x3030) : first & 0x3F3F,
                       min = upper ? (third >> 4 & 0x0F0F) | (second >> 2 & 0x3030) : second & 0x3F3F;
        const __half2 both = *reinterpret_cast<const __half2 *>(&head.x);
        const float d = __low2float(both), d_min = __high2float(both), d_code = d * CODE_UNIT;
        return { d_code * (float)(step & 0xFF), d_code * (1 / high_unit) * (float)(step >> 8 & 0xFF),
                 d_min * (float)(min & 0xFF), d_min * (float)(min >> 8 & 0xFF) };
    }
    __device__ __forceinline__ scales factors(uint32_t t, uint32_t) const {
        return scales_of(head, t, HIGH_UNIT);
    }
};

template <> struct codes<KG_DTYPE_Q5_K> {
    static constexpr float HIGH_UNIT = 16;
    uint4 head, words[2], fifths[2];
    uint32_t shift;
    __device__ __forceinline__ codes(const unsigned char *chunk, uint32_t t) : shift(2 * t) {
        head = *reinterpret_cast<const uint4 *>(chunk);
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            fifths[i] = *reinterpret_cast<const uint4 *>(chunk + 16 + 16 * i);
            words[i] = *reinterpret_cast<const uint4 *>(chunk + 48 + 32 * t + 16 * i);
        }
    }
    static __device__ __forceinline__ unsigned word(const uint4 (&of)[2], int i) {
        const uint4 &w = of[i / 4];
        return i % 4 == 0 ? w.x : i % 4 == 1 ? w.y : i % 4 == 2 ? w.z : w.w;
    }
    __device__ __forceinline__ unsigned low(int i, int p) const {
        const unsigned fifth = word(fifths, i) >> shift;
        return (word(words, i) >> 8 * p & 0x000F000Fu) | ((p ? fifth >> 4 : fifth << 4) & 0x00100010u);
    }
    __device__ __forceinline__ unsigned high(int i, int p) const {
        const unsigned fifth = word(fifths, i) >> shift; /* its second bit */
        return (word(words, i) >> 8 * p & 0x00F000F0u) | ((p ? fifth >> 1 : fifth << 7) & 0x01000100u);
    }
    __device__ __forceinline__ scales factors(uint32_t t, uint32_t) const {
        return codes<KG_DTYPE_Q4_K>::scales_of(head, t, HIGH_UNIT);
    }
};

/* Formats of blocks of 32 with one step: a lane has blocks 2t and 2t + 1. Those past the row's n_blocks count for
 * nothing. */
static __device__ __forceinline__ scales scales_of_blocks(const float (&d)[2], uint32_t t, uint32_t n_blocks,
                                                          float zero) {
    const float low = 2 * t < n_blocks ? d[0] : 0, high = 2 * t + 1 < n_blocks ? d[1] : 0;
    return { low * CODE_UNIT, high * CODE_UNIT, low * zero, high * zero };
}

template <> struct codes<KG_DTYPE_Q8_0> {
    unsigned words[2][8];
    float d[2];
    __device__ __forceinline__ codes(const unsigned char *chunk, uint32_t t) {
#pragma unroll
        for (int b = 0; b < 2; b++) {
            const unsigned char *block = chunk + (2 * t + b) * 34;
            d[b] = kg_dequant::load_f16(block);
#pragma unroll
            for (int i = 0; i < 8; i++) words[b][i] = kg_dequant::load_u32(block + 2 + 4 * i) ^ 0x80808080u;
        }
    }
    __device__ __forceinline__ unsigned low(int i, int p) const {
        return words[0][i] >> 8 * p & 0x00FF00FFu;
    }
    __device__ __forceinline__ unsigned high(int i, int p) const {
        return words[1][i] >> 8 * p & 0x00FF00FFu;
    }
    __device__ __forceinline__ scales factors(uint32_t t, uint32_t n_blocks) const {
        return scales_of_blocks(d, t, n_blocks, 128);
    }
};

template <> struct codes<KG_DTYPE_Q4_0> {
    unsigned words[2][4];
    float d[2];
    __device__ __forceinline__ codes(const unsigned char *chunk, uint32_t t) {
#pragma unroll
        for (int b = 0; b < 2; b++) {
            const unsigned char *block = chunk + (2 * t + b) * 18;
            d[b] = kg_dequant::load_f16(block);
#pragma unroll
            for (int i = 0; i < 4; i++) words[b][i] = kg_dequant::load_u32(block + 2 + 4 * i);
        }
    }
    __device__ __forceinline__ unsigned of(int b, int i, int p) const {
        return words[b][i % 4] >> (8 * p + 4 * (i / 4)) & 0x000F000Fu;
    }
    __device__ __forceinline__ unsigned low(int i, int p) const {
        return of(0, i, p);
    }
    __device__ __forceinline__ unsigned high(int i, int p) const {
        return of(1, i, p);
    }
    __device__ __forceinline__ scales factors(uint32_t t, uint32_t n_blocks) const {
        return scales_of_blocks(d, t, n_blocks, 8);
    }
};

template <> struct codes<KG_DTYPE_Q5_0> {
    unsigned words[2][4], fifths[2];
    float d[2];
    __device__ __forceinline__ codes(const unsigned char *chunk, uint32_t t) {
#pragma unroll
        for (int b = 0; b < 2; b++) {
            const unsigned char *block = chunk + (2 * t + b) * 22;
            d[b] = kg_dequant::load_f16(block);
            fifths[b] = kg_dequant::load_u32(block + 2);
#pragma unroll
            for (int i = 0; i < 4; i++) words[b][i] = kg_dequant::load_u32(block + 6 + 4 * i);
        }
    }
    /* Bits 4i + p and 4i + p + 2 of the fifths become bit 4 of either half. */
    __device__ __forceinline__ unsigned of(int b, int i, int p) const {
        const unsigned fifth = fifths[b] >> (4 * i + p);
        return (words[b][i % 4] >> (8 * p + 4 * (i / 4)) & 0x000F000Fu) | (fifth << 4 & 0x10u) |
               (fifth << 18 & 0x100000u);
    }
    __device__ __forceinline__ unsigned low(int i, int p) const {
        return of(0, i, p);
    }
    __device__ __forceinline__ unsigned high(int i, int p) const {
        return of(1, i, p);
    }
    __device__ __forceinline__ scales factors(uint32_t t, uint32_t n_blocks) const {
        return scales_of_blocks(d, t, n_blocks, 16);
    }
};

/* sum += the scaled products of a row with the lane's two sub-blocks, of which the sums of codes times x are given. */
static __device__ __forceinline__ void add_scaled(float &sum, float low, float high, const scales &s, float x_low,
                                                  float x_high) {
    sum += fmaf(low, s.low, high * s.high) - fmaf(x_low, s.low_offset, x_high * s.high_offset);
}

static __device__ __forceinline__ void load_words(unsigned (&to)[16], const unsigned char *from, bool loads) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint4 v = loads ? reinterpret_cast<const uint4 *>(from)[i] : make_uint4(0, 0, 0, 0);
        to[4 * i] = v.x, to[4 * i + 1] = v.y, to[4 * i + 2] = v.z, to[4 * i + 3] = v.w;
    }
}

/* sum[0] and sum[1] += the lane's part of the products of x with a chunk of rows g and g + 8. x: the chunk's columns
 * (x_at); x_sums: of its 16 groups. n_blocks of 32 columns are the row's. All lanes of a warp call it. */
template <enum kg_dtype D>
static __device__ __forceinline__ void add_chunk(float (&sum)[2], const unsigned char *const (&rows)[2],
                                                 const unsigned char *x, const float *x_sums, uint32_t n_blocks) {
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    unsigned low_x[16], high_x[16];
    load_words(low_x, x + 2 * t * X_SUB_BYTES, g == 2 * t);
    load_words(high_x, x + (2 * t + 1) * X_SUB_BYTES, g == 2 * t);
    const codes<D> of[2] = { { rows[0], t }, { rows[1], t } };
    float low[4] = {}, high[4] = {};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        kg_mma_16x8x16_free(low, of[0].low(i, 0), of[1].low(i, 0), of[0].low(i, 1), of[1].low(i, 1), low_x[2 * i],
                            low_x[2 * i + 1]);
        kg_mma_16x8x16_free(high, of[0].high(i, 0), of[1].high(i, 0), of[0].high(i, 1), of[1].high(i, 1), high_x[2 * i],
                            high_x[2 * i + 1]);
    }
    const float4 sums = *reinterpret_cast<const float4 *>(x_sums + 4 * t);
#pragma unroll
    for (int r = 0; r < 2; r++)
        add_scaled(sum[r], low[2 * r], high[2 * r], of[r].factors(t, n_blocks), sums.x + sums.y, sums.z + sums.w);
}

/* Q6_K has sub-blocks of 16, eight in a half of the chunk: a lane has sub-blocks t and t + 4 of either half. Lanes take
 * their four words in an order that begins at t: in the same order they would lie in the same banks. */
template <>
__device__ __forceinline__ void add_chunk<KG_DTYPE_Q6_K>(float (&sum)[2], const unsigned char *const (&rows)[2],
                                                         const unsigned char *x, const float *x_sums, uint32_t) {
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, shift = t / 2 * 2;
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        const unsigned char *low_from = x + (4 * half + t / 2) * X_SUB_BYTES + t % 2 * GROUP_BYTES,
                            *high_from = low_from + 2 * X_SUB_BYTES;
        float low[4] = {}, high[4] = {};
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t w = (i + t) % 4;
            const bool has_x = g == 2 * t;
            const uint2 none = make_uint2(0, 0), low_x = has_x ? reinterpret_cast<const uint2 *>(low_from)[w] : none,
                        high_x = has_x ? reinterpret_cast<const uint2 *>(high_from)[w] : none;
            unsigned a_low[2][2], a_high[2][2]; /* (pair, row) */
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const unsigned nibbles = kg_dequant::load_u32(rows[r] + 64 * half + 16 * t + 4 * w),
                               pairs = kg_dequant::load_u32(rows[r] + 128 + 32 * half + 16 * (t % 2) + 4 * w) >> shift;
                const unsigned second = nibbles >> 8, first_bits = pairs << 4, second_bits = pairs >> 4;
                a_low[0][r] = (nibbles & 0x000F000Fu) | (first_bits & 0x00300030u);
                a_low[1][r] = (second & 0x000F000Fu) | (second_bits & 0x00300030u);
                a_high[0][r] = (nibbles & 0x00F000F0u) | (first_bits & 0x03000300u);
                a_high[1][r] = (second & 0x00F000F0u) | (second_bits & 0x03000300u);
            }
            kg_mma_16x8x16_free(low, a_low[0][0], a_low[0][1], a_low[1][0], a_low[1][1], low_x.x, low_x.y);
            kg_mma_16x8x16_free(high, a_high[0][0], a_high[0][1], a_high[1][0], a_high[1][1], high_x.x, high_x.y);
        }
        const float x_low = x_sums[8 * half + t], x_high = x_sums[8 * half + 4 + t];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float d = kg_dequant::load_f16(rows[r] + 208);
            const signed char *steps = reinterpret_cast<const signed char *>(rows[r] + 192 + 8 * half + t);
            const float step_low = d * (float)steps[0], step_high = d * (float)steps[4];
            const scales s = { step_low * CODE_UNIT, step_high * (CODE_UNIT / 16), step_low * 32, step_high * 32 };
            add_scaled(sum[r], low[2 * r], high[2 * r], s, x_low, x_high);
        }
    }
}

} // namespace kg_block_codes

#endif
