/* MXFP4 weights in tiles, the order in memory that tensor cores take them in (contract in tiles.h).
 *
 * A group is 16 neighbouring rows of W and takes as many bytes as they have in blocks of 17: first its tiles of 64
 * columns with 512 bytes of codes each, then 32 bytes of scales for each tile. codes   16 bytes for lane (g, t) = (lane
 * / 4, lane % 4): four words, columns 0-31 of row g, of row g + 8, columns 32-63 of row g, of row g + 8. A word holds
 * the 8 columns c = {2 t, 2 t + 1} + {0, 8, 16, 24} that the lane has in the left operands of two products of 16
 * columns (mma.cuh). scales  4 bytes for each g: E8M0 of the four words, in their order.
 *
 * Scales are of 1 to 254 (a weight with another lies as files have it), a block of zeros has 127.
 *
 * Within a word w the even columns are in the low half, and columns c + 0, 8, 16, 24 of both halves are
 *     w << 6,  w << 9,  w ^ w << 2,  w ^ w >> 3
 * at the bits of a float16's sign, two low bits of exponent and high bit of mantissa: code s e e m, which is so its
 * value times 2^-14 exactly, 0.5 being subnormal. Codes whose bits lay apart would take ten instructions for eight
 * codes' four pairs, or more: no shift of those four bits falls clear of three others. Exclusive ors come with the
 * mask, so these take eight, and place_word undoes them, a bit after the other. */
#ifndef KIGO_KERNELS_MXFP4_TILES_CUH
#define KIGO_KERNELS_MXFP4_TILES_CUH

#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>

namespace kg_mxfp4 {

enum { GROUP_ROWS = 16, TILE_COLS = 64, CODES_BYTES = 512, SCALES_BYTES = 32, LANE_BYTES = 16 };

/* Scale bytes of weights that gemm.cuh makes float16 of: 2^-19 to 2^5. */
enum { LEAST_F16_SCALE = 108, MOST_F16_SCALE = 132 };

/* Of the value that a placed code has. */
constexpr float PLACED_UNIT = 1.0f / 16384;

/* A lane's part of a tile. */
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

/* Reads a lane's tile if `valid`, else leaves it as it is. Weights pass by the first cache. No branch: one would have
 * the compiler move registers, and so wait for them, where its two ways meet. */
__device__ __forceinline__ void load_tile(lane_tile &to, const uint8_t *codes, const uint8_t *scales, bool valid) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %7, 0;\n"
                 "@p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%5];\n"
                 "@p ld.global.nc.u32 %4, [%6];\n}"
                 : "+r"(to.codes.x), "+r"(to.codes.y), "+r"(to.codes.z), "+r"(to.codes.w), "+r"(to.scales)
                 : "l"(codes), "l"(scales), "r"((uint32_t)valid));
}

/* Where a float16 has the bits of a code. */
constexpr uint32_t CODE_BITS = 0x8E008E00;

/* placed[i] = the pair of columns 2 t, 2 t + 1 + 8 i, in units of PLACED_UNIT. */
__device__ __forceinline__ void place(uint32_t word, uint32_t (&placed)[4]) {
    placed[0] = word << 6 & CODE_BITS;
    placed[1] = word << 9 & CODE_BITS;
    placed[2] = (word ^ word << 2) & CODE_BITS;
    placed[3] = (word ^ word >> 3) & CODE_BITS;
}

/* The word of which place makes these. Each line finds bits of which it knows the other side. */
__host__ __device__ __forceinline__ uint32_t place_word(const uint32_t (&placed)[4]) {
    uint32_t w = placed[0] >> 6 | placed[1] >> 9;   /* of each half bits 9, 6 and 5 to 0 */
    w |= (placed[3] ^ w >> 3) & 0x80008000;         /* 15 */
    w |= (placed[2] ^ w << 2) & 0x08000800;         /* 11 */
    w |= (placed[2] ^ w) >> 2 & 0x20802080;         /* 13 and 7 */
    w |= (placed[3] ^ w) << 3 & 0x50005000;         /* 14 and 12 */
    w |= (placed[3] ^ w >> 3) & 0x04000400;         /* 10 */
    return w | ((placed[2] ^ w) >> 2 & 0x01000100); /* 8 */
}

/* The four scales 2^(e-127) of a lane's words; none is of 0 or 255. */
__device__ __forceinline__ void float_scales(uint32_t e, float (&scale)[4]) {
    constexpr uint32_t EXPONENT = 0x7F800000;
    scale[0] = __uint_as_float(e << 23 & EXPONENT);
    scale[1] = __uint_as_float(e << 15 & EXPONENT);
    scale[2] = __uint_as_float(e << 7 & EXPONENT);
    scale[3] = __uint_as_float(e >> 1 & EXPONENT);
}

/* c += a b of 16 x 16 by 16 x 8 (mma.cuh), free to be scheduled. */
__device__ __forceinline__ void multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                         uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* sum[0, 1] of row g and sum[2, 3] of row g + 8 grow by the products of 32 columns, scaled in float32: exact for every
 * scale that is no NaN. low and high are the placed codes of the rows; x holds columns + 0, 8, 16, 24 in their order.
 */
__device__ __forceinline__ void multiply_block(float (&sum)[4], const uint32_t (&low)[4], const uint32_t (&high)[4],
                                               const uint32_t (&x)[4], float low_scale, float high_scale) {
    float part[4] = { 0, 0, 0, 0 };
    multiply(part, low[0], high[0], low[1], high[1], x[0], x[1]);
    multiply(part, low[2], high[2], low[3], high[3], x[2], x[3]);
    sum[0] = fmaf(part[0], low_scale, sum[0]);
    sum[1] = fmaf(part[1], low_scale, sum[1]);
    sum[2] = fmaf(part[2], high_scale, sum[2]);
    sum[3] = fmaf(part[3], high_scale, sum[3]);
}

} // namespace kg_mxfp4

#endif
