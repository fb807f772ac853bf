/* Q4_0: 32 elements in 18 bytes: f16 d, then 16 bytes whose low nibbles are q of elements 0-15 and high nibbles q of
 * 16-31; element i is d * (q[i] - 8).
 * Q5_0: 32 elements in 22 bytes: f16 d, u32 whose bit i is bit 4 of q[i], then nibbles as in Q4_0; d * (q[i] - 16). */
#include "format/dtype_rows.h"

enum { BLOCK_ELEMS = 32, HALF = 16 };

void kg_q4_0_decode(const void *src, float *restrict dst, size_t n_elems) {
    enum { BLOCK_BYTES = 18 };
    const uint8_t *restrict block = src;
    for (size_t at = 0; at < n_elems; at += BLOCK_ELEMS, block += BLOCK_BYTES) {
        const float d = kg_f16_expand(kg_load_u16(block));
        const uint8_t *nibbles = block + 2;
        for (int i = 0; i < HALF; i++) dst[at + i] = d * ((nibbles[i] & 0xF) - 8);
        for (int i = 0; i < HALF; i++) dst[at + HALF + i] = d * ((nibbles[i] >> 4) - 8);
    }
}

void kg_q5_0_decode(const void *src, float *restrict dst, size_t n_elems) {
    enum { BLOCK_BYTES = 22 };
    const uint8_t *restrict block = src;
    for (size_t at = 0; at < n_elems; at += BLOCK_ELEMS, block += BLOCK_BYTES) {
        const float d = kg_f16_expand(kg_load_u16(block));
        const uint8_t *nibbles = block + 6;
        uint32_t high;
        memcpy(&high, block + 2, sizeof high);
        for (int i = 0; i < HALF; i++) dst[at + i] = d * ((int)((nibbles[i] & 0xFu) | (high >> i & 1) << 4) - 16);
        for (int i = 0; i < HALF; i++)
            dst[at + HALF + i] = d * ((int)((uint32_t)nibbles[i] >> 4 | (high >> (i + HALF) & 1) << 4) - 16);
    }
}
