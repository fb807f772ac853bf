/* The row functions in dtype.c's table, one pair per format, and the 16-bit floats that they share. */
#ifndef KIGO_FORMAT_DTYPE_ROWS_H
#define KIGO_FORMAT_DTYPE_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

void kg_f32_decode(const void *src, float *dst, size_t n_elems);
void kg_f32_encode(const float *src, void *dst, size_t n_elems);
void kg_f16_decode(const void *src, float *dst, size_t n_elems);
void kg_f16_encode(const float *src, void *dst, size_t n_elems);
void kg_bf16_decode(const void *src, float *dst, size_t n_elems);
void kg_bf16_encode(const float *src, void *dst, size_t n_elems);
void kg_q8_0_decode(const void *src, float *dst, size_t n_elems);
void kg_q8_0_encode(const float *src, void *dst, size_t n_elems);
void kg_q4_0_decode(const void *src, float *dst, size_t n_elems);
void kg_q4_0_encode(const float *src, void *dst, size_t n_elems);
void kg_q5_0_decode(const void *src, float *dst, size_t n_elems);
void kg_q5_0_encode(const float *src, void *dst, size_t n_elems);
void kg_q4_k_decode(const void *src, float *dst, size_t n_elems);
void kg_q4_k_encode(const float *src, void *dst, size_t n_elems);
void kg_q5_k_decode(const void *src, float *dst, size_t n_elems);
void kg_q5_k_encode(const float *src, void *dst, size_t n_elems);
void kg_q6_k_decode(const void *src, float *dst, size_t n_elems);
void kg_q6_k_encode(const float *src, void *dst, size_t n_elems);
void kg_mxfp4_decode(const void *src, float *dst, size_t n_elems);
void kg_mxfp4_encode(const float *src, void *dst, size_t n_elems);

/* The ways in which kg_mxfp4_decode may compute, the fastest first; all give the same bits. NULL behind the last. */
typedef void kg_decode_fn(const void *src, float *dst, size_t n_elems);
kg_decode_fn *kg_mxfp4_decode_way(size_t i);

static inline float kg_float_from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t kg_float_to_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline uint16_t kg_load_u16(const uint8_t *bytes) {
    uint16_t u;
    memcpy(&u, bytes, sizeof u);
    return u;
}

/* Converts binary16 to binary32 with masks instead of branches and without subnormal operands, so that loops vectorise.
 * A normal number: its fields are shifted, and the difference of the exponent biases is added (twice for Inf and NaN).
 * A subnormal number: its integer mantissa times 2^-24. Exact for all 65536 values; a NaN keeps its payload. */
static inline float kg_f16_expand(uint16_t h) {
    const uint32_t bias_difference = (uint32_t)(127 - 15) << 23;
    const int32_t magnitude = h & 0x7FFF;
    const uint32_t is_special = -(uint32_t)(magnitude >= 0x7C00), is_subnormal = -(uint32_t)(magnitude < 0x0400);
    const uint32_t normal = ((uint32_t)magnitude << 13) + bias_difference + (bias_difference & is_special);
    const uint32_t subnormal = kg_float_to_bits((float)magnitude * 0x1p-24f);
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    return kg_float_from_bits((normal & ~is_subnormal) | (subnormal & is_subnormal) | sign);
}

#endif
