/* The memory layout of repacked MXFP4 weights: the order of a tensor core's left operand.
 *
 * A group is 16 neighbouring rows of W, in as many bytes as their file blocks of 17. First come its tiles of 64
 * columns, 512 bytes of codes each; then 32 bytes of scales for each tile.
 *
 * codes: 16 bytes for lane (g, t) = (lane / 4, lane % 4). They are four words: columns 0-31 of row g, of row g + 8;
 * columns 32-63 of row g, of row g + 8. A word holds the 8 columns c = {2 t, 2 t + 1} + {0, 8, 16, 24} that the lane
 * has in the left operands of two products of 16 columns (ptx/mma.cuh).
 *
 * scales: 4 bytes for each g, the E8M0 of the four words in their order. They are of 1 to 254; a weight with another
 * scale is not repacked. A block of zeros has 127.
 *
 * A word w interleaves its codes. The even columns are in the low half. Columns c + 0, 8, 16, 24 of both halves are
 *     w << 6,  w << 9,  w ^ w << 2,  w ^ w >> 3
 * at the bits of a float16's sign, low two bits of exponent and high bit of mantissa. A code s e e m at those bits is
 * its value times 2^-14, exactly (0.5 is subnormal). So unpacking eight codes takes eight instructions, as a mask
 * includes an exclusive or. Codes whose bits lie apart would take ten or more: no shift of the four bits is clear of
 * three others. */
#ifndef KIGO_KERNELS_MXFP4_LAYOUT_CUH
#define KIGO_KERNELS_MXFP4_LAYOUT_CUH

#include "kernels/ptx/mma.cuh"
#include <cstddef>

namespace kg_mxfp4 {

enum { GROUP_ROWS = 16, TILE_COLS = 64, CODES_BYTES = 512, SCALES_BYTES = 32, LANE_BYTES = 16 };

/* Scale bytes for which code times scale is a float16 exactly (gemm.cuh): 2^-19 to 2^5. */
enum { LEAST_F16_SCALE = 108, MOST_F16_SCALE = 132 };

/* An unpacked code is its value times this. */
constexpr float UNPACKED_UNIT = 1.0f / 16384;

/* A lane's 32 codes of a tile, and their scales. */
struct lane_tile {
    uint4 codes;
    uint32_t scales;
};

/* A lane's view of W, of one matrix. */
struct lane_view {
    const uint8_t *codes, *scales;
    size_t group_bytes;
    __device__ __forceinline__ lane_view(const uint8_t *weight, uint32_t n_cols, uint32_t lane) {
        const size_t n_tiles = n_cols / TILE_COLS;
        group_bytes = n_tiles * (CODES_BYTES + SCALES_BYTES);
        codes = weight + lane * LANE_BYTES;
        scales = weight + n_tiles * CODES_BYTES + lane / 4 * 4;
    }
    __device__ __forceinline__ const uint8_t *codes_at(uint32_t group, uint32_t tile) const {
        return codes + group * group_bytes + (size_t)tile * CODES_BYTES;
    }
    __device__ __forceinline__ const uint8_t *scales_at(uint32_t group, uint32_t tile) const {
        return scales + group * group_bytes + (size_t)tile * SCALES_BYTES;
    }
};

/* The bits of a float16 that a code has. */
constexpr uint32_t CODE_BITS = 0x8E008E00;

/* pairs[i] = columns 2 t, 2 t + 1, + 8 i, in units of UNPACKED_UNIT. */
__device__ __forceinline__ void unpack(uint32_t word, uint32_t (&pairs)[4]) {
    pairs[0] = word << 6 & CODE_BITS;
    pairs[1] = word << 9 & CODE_BITS;
    pairs[2] = (word ^ word << 2) & CODE_BITS;
    pairs[3] = (word ^ word >> 3) & CODE_BITS;
}

/* The inverse of unpack. Each line finds bits that are combined with known ones. */
__host__ __device__ __forceinline__ uint32_t interleave(const uint32_t (&pairs)[4]) {
    uint32_t w = pairs[0] >> 6 | pairs[1] >> 9;    /* of each half bits 9, 6 and 5 to 0 */
    w |= (pairs[3] ^ w >> 3) & 0x80008000;         /* 15 */
    w |= (pairs[2] ^ w << 2) & 0x08000800;         /* 11 */
    w |= (pairs[2] ^ w) >> 2 & 0x20802080;         /* 13 and 7 */
    w |= (pairs[3] ^ w) << 3 & 0x50005000;         /* 14 and 12 */
    w |= (pairs[3] ^ w >> 3) & 0x04000400;         /* 10 */
    return w | ((pairs[2] ^ w) >> 2 & 0x01000100); /* 8 */
}

/* The four scales 2^(e-127) of a lane's words; no e is 0 or 255. */
__device__ __forceinline__ void float_scales(uint32_t e, float (&scale)[4]) {
    constexpr uint32_t EXPONENT = 0x7F800000;
    scale[0] = __uint_as_float(e << 23 & EXPONENT);
    scale[1] = __uint_as_float(e << 15 & EXPONENT);
    scale[2] = __uint_as_float(e << 7 & EXPONENT);
    scale[3] = __uint_as_float(e >> 1 & EXPONENT);
}

/* sum[0, 1] of row g and sum[2, 3] of row g + 8 += the products of 32 columns. The scale is applied in float32: exact
 * for every scale but NaN. low, high: the rows' unpacked codes; x: columns + 0, 8, 16, 24 in their order. */
__device__ __forceinline__ void multiply_block(float (&sum)[4], const uint32_t (&low)[4], const uint32_t (&high)[4],
                                               const uint32_t (&x)[4], float low_scale, float high_scale) {
    float part[4] = { 0, 0, 0, 0 };
    kg_mma_16x8x16_free(part, low[0], high[0], low[1], high[1], x[0], x[1]);
    kg_mma_16x8x16_free(part, low[2], high[2], low[3], high[3], x[2], x[3]);
    sum[0] = fmaf(part[0], low_scale, sum[0]);
    sum[1] = fmaf(part[1], low_scale, sum[1]);
    sum[2] = fmaf(part[2], high_scale, sum[2]);
    sum[3] = fmaf(part[3], high_scale, sum[3]);
}

} // namespace kg_mxfp4

#endif
