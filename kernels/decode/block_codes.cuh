/* Block formats as operands of a tensor core of integers: rows of W as they lie in a file, decoded in registers. One
 * row of x (digits.cuh), so seven of the eight columns of the right operand would be unused.
 *
 * The instruction multiplies 16 rows by 32 columns; lane (g, t), g = lane / 4 and t = lane % 4, gives eight codes of
 * rows g and g + 8. Here these are of a sub-block of the lane's own, and the right operand is zero but for that
 * sub-block's upper digits in column 2t and its lower ones in 2t + 1. So columns 2t and 2t + 1 of the result, which the
 * same lane holds, are the products of the lane's sub-block of two rows, and it applies their scales. A lane has two
 * sub-blocks, low and high, with separate sums:
 * sum_i x[i] W[i] = sum over sub-blocks of scale step (sum code v) - offset (sum x)
 *
 * Codes are bytes: those of a nibble cost a mask for four. Codes of high sub-blocks may stand 4 bits higher
 * (HIGH_UNIT).
 *
 * Formats: docs of src/format/dtype_<name>.c. 256 columns are a chunk: one block of K-quants, eight of the others. */
#ifndef KIGO_KERNELS_DECODE_BLOCK_CODES_CUH
#define KIGO_KERNELS_DECODE_BLOCK_CODES_CUH

#include "kernels/block/dequant.cuh"
#include "kernels/decode/digits.cuh"
#include "kernels/ptx/mma.cuh"

namespace kg_block_codes {

using namespace kg_digits;

enum {
    CHUNK_COLS = 256,
    CHUNK_STEPS = CHUNK_COLS / STEP_COLS,
    CHUNK_GROUPS = CHUNK_COLS / GROUP_COLS,
    X_CHUNK_BYTES = CHUNK_STEPS * STEP_BYTES,
};

/* x in shared memory. */
struct operand {
    const unsigned char *digits;
    const float *steps, *sums; /* of 32 columns; of x in 16 columns */
    __device__ __forceinline__ operand from(uint32_t chunk) const {
        return { digits + chunk * X_CHUNK_BYTES, steps + chunk * CHUNK_STEPS, sums + chunk * CHUNK_GROUPS };
    }
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

/* How a lane's two sub-blocks of a row count: sums of codes times x, and of x. */
struct scales {
    float low, high, low_offset, high_offset;
};

/* A lane's codes of a row's chunk, 32 of each of its two sub-blocks. low(i), high(i): the i'th four of them (0 to 7),
 * bytes of type `type`. */
template <enum kg_dtype D> struct codes;

/* Whether a code counts as its number less an offset, so that sums of x are needed. */
template <enum kg_dtype D> constexpr bool HAS_OFFSETS = D != KG_DTYPE_Q8_0;

template <> struct codes<KG_DTYPE_Q4_K> {
    using type = uint8_t;
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
    __device__ __forceinline__ unsigned low(int i) const {
        return word(i) & 0x0F0F0F0Fu;
    }
    __device__ __forceinline__ unsigned high(int i) const {
        return word(i) & 0xF0F0F0F0u;
    }
    /* Steps and minima of sub-blocks 2t, 2t + 1, from 12 bytes: the first four of both have 6 bits of a byte, the
     * others 4 bits of the last four bytes and 2 of the first eight. */
    static __device__ __forceinline__ scales scales_of(const uint4 &head, uint32_t t, float high_unit) {
        const uint32_t shift = t % 2 * 16, first = head.y >> shift, second = head.z >> shift, third = head.w >> shift;
        const bool upper = t >= 2;
        const uint32_t step = upper ? (third & 0x0F0F) | (first >> 2 & 0x3030) : first & 0x3F3F,
                       min = upper ? (third >> 4 & 0x0F0F) | (second >> 2 & 0x3030) : second & 0x3F3F;
        const __half2 both = *reinterpret_cast<const __half2 *>(&head.x);
        const float d = __low2float(both), d_min = __high2float(both);
        return { d * (float)(step & 0xFF), d * (1 / high_unit) * (float)(step >> 8 & 0xFF), d_min * (float)(min & 0xFF),
                 d_min * (float)(min >> 8 & 0xFF) };
    }
    __device__ __forceinline__ scales factors(uint32_t t, uint32_t) const {
        return scales_of(head, t, HIGH_UNIT);
    }
};

template <> struct codes<KG_DTYPE_Q5_K> {
    using type = uint8_t;
    static constexpr float HIGH_UNIT = 1;
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
    __device__ __forceinline__ unsigned low(int i) const {
        return (word(words, i) & 0x0F0F0F0Fu) | (word(fifths, i) >> shift << 4 & 0x10101010u);
    }
    __device__ __forceinline__ unsigned high(int i) const { /* the fifths' second bit */
        return (word(words, i) >> 4 & 0x0F0F0F0Fu) | (word(fifths, i) >> shift << 3 & 0x10101010u);
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
    return { low, high, low * zero, high * zero };
}

/* N words at an even address, of the aligned words that hold them: up to 2 bytes before and behind are read. */
template <int N> static __device__ __forceinline__ void load_even(unsigned (&to)[N], const unsigned char *from) {
    const uint32_t odd = reinterpret_cast<uintptr_t>(from) / 2 % 2, selector = odd ? 0x5432 : 0x3210;
    const unsigned *at = reinterpret_cast<const unsigned *>(from - 2 * odd);
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = at[i];
    const unsigned last = at[N - 1 + odd];
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = __byte_perm(to[i], i + 1 < N ? to[i + 1] : last, selector);
}

template <> struct codes<KG_DTYPE_Q8_0> {
    using type = int8_t;
    unsigned words[2][8];
    float d[2];
    __device__ __forceinline__ codes(const unsigned char *chunk, uint32_t t) {
#pragma unroll
        for (int b = 0; b < 2; b++) {
            const unsigned char *block = chunk + (2 * t + b) * 34;
            d[b] = kg_dequant::load_f16(block);
            load_even(words[b], block + 2);
        }
    }
    __device__ __forceinline__ unsigned low(int i) const {
        return words[0][i];
    }
    __device__ __forceinline__ unsigned high(int i) const {
        return words[1][i];
    }
    __device__ __forceinline__ scales factors(uint32_t t, uint32_t n_blocks) const {
        return scales_of_blocks(d, t, n_blocks, 0);
    }
};

template <> struct codes<KG_DTYPE_Q4_0> {
    using type = uint8_t;
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
    __device__ __forceinline__ unsigned of(int b, int i) const {
        return words[b][i % 4] >> 4 * (i / 4) & 0x0F0F0F0Fu;
    }
    __device__ __forceinline__ unsigned low(int i) const {
        return of(0, i);
    }
    __device__ __forceinline__ unsigned high(int i) const {
        return of(1, i);
    }
    __device__ __forceinline__ scales factors(uint32_t t, uint32_t n_blocks) const {
        return scales_of_blocks(d, t, n_blocks, 8);
    }
};

template <> struct codes<KG_DTYPE_Q5_0> {
    using type = uint8_t;
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
    /* Bit 4i + j of the fifths becomes bit 4 of byte j: a sum of shifts by 7j + 4. */
    __device__ __forceinline__ unsigned of(int b, int i) const {
        constexpr unsigned SPREAD = 1u << 4 | 1u << 11 | 1u << 18 | 1u << 25;
        return (words[b][i % 4] >> 4 * (i / 4) & 0x0F0F0F0Fu) | ((fifths[b] >> 4 * i & 0xF) * SPREAD & 0x10101010u);
    }
    __device__ __forceinline__ unsigned low(int i) const {
        return of(0, i);
    }
    __device__ __forceinline__ unsigned high(int i) const {
        return of(1, i);
    }
    __device__ __forceinline__ scales factors(uint32_t t, uint32_t n_blocks) const {
        return scales_of_blocks(d, t, n_blocks, 16);
    }
};

/* sum += the scaled products of a row with the lane's two sub-blocks: sums of codes by upper and lower digits, and of
 * x, which count where codes have offsets. */
template <bool OFFSETS>
static __device__ __forceinline__ void add_scaled(float &sum, const int *low, const int *high, const scales &s,
                                                  float low_step, float high_step, float x_low, float x_high) {
    float by = fmaf(value_of(low[0], low[1]) * low_step, s.low, value_of(high[0], high[1]) * high_step * s.high);
    if (OFFSETS) by -= fmaf(x_low, s.low_offset, x_high * s.high_offset);
    sum += by;
}

static __device__ __forceinline__ void load_words(unsigned (&to)[8], const unsigned char *from, bool loads) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint4 v = loads ? reinterpret_cast<const uint4 *>(from)[i] : make_uint4(0, 0, 0, 0);
        to[4 * i] = v.x, to[4 * i + 1] = v.y, to[4 * i + 2] = v.z, to[4 * i + 3] = v.w;
    }
}

/* sum[0] and sum[1] += the lane's part of the products of x, from the chunk's first column, with a chunk of rows g and
 * g + 8. n_blocks of 32 columns are the row's. All lanes of a warp call it. */
template <enum kg_dtype D>
static __device__ __forceinline__ void add_chunk(float (&sum)[2], const unsigned char *const (&rows)[2],
                                                 const operand &x, uint32_t n_blocks) {
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const unsigned char *digits = x.digits + 2 * t * STEP_BYTES + g % 2 * LOWER_AT;
    unsigned low_x[8], high_x[8];
    load_words(low_x, digits, g / 2 == t);
    load_words(high_x, digits + STEP_BYTES, g / 2 == t);
    const codes<D> of[2] = { { rows[0], t }, { rows[1], t } };
    int low[4] = {}, high[4] = {};
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        kg_mma_16x8x32_free<typename codes<D>::type>(low, of[0].low(i), of[1].low(i), of[0].low(i + 1),
                                                     of[1].low(i + 1), low_x[i], low_x[i + 1]);
        kg_mma_16x8x32_free<typename codes<D>::type>(high, of[0].high(i), of[1].high(i), of[0].high(i + 1),
                                                     of[1].high(i + 1), high_x[i], high_x[i + 1]);
    }
    const float4 sums = HAS_OFFSETS<D> ? *reinterpret_cast<const float4 *>(x.sums + 4 * t) : make_float4(0, 0, 0, 0);
    const float2 steps = *reinterpret_cast<const float2 *>(x.steps + 2 * t);
#pragma unroll
    for (int r = 0; r < 2; r++)
        add_scaled<HAS_OFFSETS<D>>(sum[r], low + 2 * r, high + 2 * r, of[r].factors(t, n_blocks), steps.x, steps.y,
                                   sums.x + sums.y, sums.z + sums.w);
}

/* Q6_K has sub-blocks of 16, eight in a half of the chunk: a lane has sub-blocks t and t + 4 of either half. Lanes take
 * their four words in an order that begins at t: in the same order they would lie in the same banks. */
template <>
__device__ __forceinline__ void add_chunk<KG_DTYPE_Q6_K>(float (&sum)[2], const unsigned char *const (&rows)[2],
                                                         const operand &x, uint32_t) {
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, shift = t / 2 * 2;
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t step = 4 * half + t / 2;
        const unsigned char *low_from = x.digits + step * STEP_BYTES + g % 2 * LOWER_AT + t % 2 * GROUP_COLS,
                            *high_from = low_from + 2 * STEP_BYTES;
        int low[4] = {}, high[4] = {};
#pragma unroll
        for (uint32_t i = 0; i < 4; i += 2) {
            unsigned low_x[2], high_x[2], a_low[2][2], a_high[2][2]; /* (word, row) */
#pragma unroll
            for (uint32_t j = 0; j < 2; j++) {
                const uint32_t w = (i + j + t) % 4;
                low_x[j] = g / 2 == t ? reinterpret_cast<const unsigned *>(low_from)[w] : 0;
                high_x[j] = g / 2 == t ? reinterpret_cast<const unsigned *>(high_from)[w] : 0;
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    const unsigned nibbles = kg_dequant::load_u32(rows[r] + 64 * half + 16 * t + 4 * w),
                                   bits = kg_dequant::load_u32(rows[r] + 128 + 32 * half + 16 * (t % 2) + 4 * w);
                    a_low[j][r] = (nibbles & 0x0F0F0F0Fu) | (bits >> shift << 4 & 0x30303030u);
                    a_high[j][r] = (nibbles >> 4 & 0x0F0F0F0Fu) | (bits >> shift & 0x30303030u);
                }
            }
            kg_mma_16x8x32_free<uint8_t>(low, a_low[0][0], a_low[0][1], a_low[1][0], a_low[1][1], low_x[0], low_x[1]);
            kg_mma_16x8x32_free<uint8_t>(high, a_high[0][0], a_high[0][1], a_high[1][0], a_high[1][1], high_x[0],
                                         high_x[1]);
        }
        const float x_low = x.sums[8 * half + t], x_high = x.sums[8 * half + 4 + t];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float d = kg_dequant::load_f16(rows[r] + 208);
            const signed char *steps = reinterpret_cast<const signed char *>(rows[r] + 192 + 8 * half + t);
            const float low_scale = d * (float)steps[0], high_scale = d * (float)steps[4];
            const scales s = { low_scale, high_scale, low_scale * 32, high_scale * 32 };
            add_scaled<true>(sum[r], low + 2 * r, high + 2 * r, s, x.steps[step], x.steps[step + 2], x_low, x_high);
        }
    }
}

} // namespace kg_block_codes

#endif
