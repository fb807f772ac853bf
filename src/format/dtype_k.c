/* The "K" formats: blocks of 256 elements in groups, each group with its own small scale under the block's f16 scale.
 *
 * Q4_K, 144 bytes: f16 d, f16 dmin, 12 bytes of scales, 128 bytes of nibbles.
 * Q5_K, 176 bytes: f16 d, f16 dmin, 12 bytes of scales, 32 bytes of fifth bits, 128 bytes of nibbles.
 *   8 groups of 32; element = d * scale[g] * q - dmin * min[g]. Groups 2c and 2c+1 are the low and high nibbles of the
 * c-th 32 bytes; the fifth bit of element i of group g is bit g of byte i. Scale and min have 6 bits: those of g < 4
 * are the low bits of bytes g and g+4; those of g >= 4 have their low 4 bits in the nibbles of byte g+4 and their high
 * 2 bits in the high bits of bytes g-4 and g. Q6_K, 210 bytes: 128 bytes of nibbles, 64 bytes of upper bit pairs, i8
 * scale[16], f16 d. 16 groups of 16; element = d * scale[g] * (q - 32). Each half of 128 elements has 64 bytes of
 * nibbles and 32 bytes of pairs: its quarters of 32 are the low nibbles of the first and second 32 bytes, then their
 * high nibbles; quarter k takes bits 2k and 2k+1 of the pairs' bytes.
 *
 * Every product is exact in float32 (at most 11 + 8 + 5 bits); only the subtraction of Q4_K and Q5_K rounds, once. */
#include "format/dtype_rows.h"

enum { BLOCK_ELEMS = 256, GROUP = 32, N_GROUPS = 8 };

struct group_scales {
    uint8_t scale[N_GROUPS], min[N_GROUPS];
};

static struct group_scales unpack_scales(const uint8_t *bytes) {
    struct group_scales s;
    for (int g = 0; g < 4; g++) {
        s.scale[g] = bytes[g] & 0x3F;
        s.min[g] = bytes[g + 4] & 0x3F;
        s.scale[g + 4] = (uint8_t)((bytes[g + 8] & 0xF) | (bytes[g] >> 6) << 4);
        s.min[g + 4] = (uint8_t)((bytes[g + 8] >> 4) | (bytes[g + 4] >> 6) << 4);
    }
    return s;
}

void kg_q4_k_decode(const void *src, float *restrict dst, size_t n_elems) {
    enum { BLOCK_BYTES = 144 };
    const uint8_t *restrict block = src;
    for (size_t at = 0; at < n_elems; at += BLOCK_ELEMS, block += BLOCK_BYTES) {
        const float d = kg_f16_expand(kg_load_u16(block)), d_min = kg_f16_expand(kg_load_u16(block + 2));
        const struct group_scales s = unpack_scales(block + 4);
        for (int g = 0; g < N_GROUPS; g++) {
            const uint8_t *nibbles = block + 16 + g / 2 * GROUP;
            const float scale = d * s.scale[g], min = d_min * s.min[g];
            const int shift = g % 2 * 4;
            float *out = dst + at + (size_t)g * GROUP;
            for (int i = 0; i < GROUP; i++) out[i] = scale * (nibbles[i] >> shift & 0xF) - min;
        }
    }
}

void kg_q5_k_decode(const void *src, float *restrict dst, size_t n_elems) {
    enum { BLOCK_BYTES = 176 };
    const uint8_t *restrict block = src;
    for (size_t at = 0; at < n_elems; at += BLOCK_ELEMS, block += BLOCK_BYTES) {
        const float d = kg_f16_expand(kg_load_u16(block)), d_min = kg_f16_expand(kg_load_u16(block + 2));
        const struct group_scales s = unpack_scales(block + 4);
        const uint8_t *fifth = block + 16;
        for (int g = 0; g < N_GROUPS; g++) {
            const uint8_t *nibbles = block + 48 + g / 2 * GROUP;
            const float scale = d * s.scale[g], min = d_min * s.min[g];
            const int shift = g % 2 * 4;
            float *out = dst + at + (size_t)g * GROUP;
            for (int i = 0; i < GROUP; i++)
                out[i] = scale * ((nibbles[i] >> shift & 0xF) | (fifth[i] >> g & 1) << 4) - min;
        }
    }
}

void kg_q6_k_decode(const void *src, float *restrict dst, size_t n_elems) {
    enum { BLOCK_BYTES = 210, PAIRS_AT = 128, SCALES_AT = 192, D_AT = 208, SUBGROUP = 16 };
    const uint8_t *restrict block = src;
    for (size_t at = 0; at < n_elems; at += BLOCK_ELEMS, block += BLOCK_BYTES) {
        const float d = kg_f16_expand(kg_load_u16(block + D_AT));
        for (int g = 0; g < BLOCK_ELEMS / SUBGROUP; g++) {
            const int half = g / 8, quarter = g / 2 % 4, begin = g % 2 * SUBGROUP;
            const uint8_t *nibbles = block + half * 64 + quarter % 2 * 32 + begin;
            const uint8_t *pairs = block + PAIRS_AT + half * 32 + begin;
            const int nibble_shift = quarter / 2 * 4, pair_shift = quarter * 2;
            const float scale = d * (int8_t)block[SCALES_AT + g];
            float *out = dst + at + (size_t)g * SUBGROUP;
            for (int i = 0; i < SUBGROUP; i++)
                out[i] = scale * (((nibbles[i] >> nibble_shift & 0xF) | (pairs[i] >> pair_shift & 3) << 4) - 32);
        }
    }
}
