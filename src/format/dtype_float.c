/* F32, F16 (IEEE 754 binary16) and BF16 (the upper half of binary32): plain little-endian numbers, one a block. */
#include "base/clones.h"
#include "format/dtype.h"
#include "format/dtype_rows.h"
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

float kg_f16_to_f32(uint16_t h) {
    return kg_f16_expand(h);
}

/* Rounds to nearest even. A NaN keeps its sign and the top of its payload and is quiet. */
uint16_t kg_f32_to_f16(float f) {
    const uint32_t bits = kg_float_to_bits(f);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    const uint32_t infinity = 0x7F800000, first_to_round_up = 0x477FF000 /* 65520 */, least_normal = 0x38800000;
    if (magnitude > infinity) return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
    if (magnitude >= first_to_round_up) return sign | 0x7C00;
    if (magnitude < least_normal) {
        /* An ulp of 0.5 is 2^-24, the spacing of binary16's subnormals: adding 0.5 rounds to it. */
        const float shifted = kg_float_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (kg_float_to_bits(shifted) - kg_float_to_bits(0.5f)));
    }
    const uint32_t odd = magnitude >> 13 & 1;
    const uint32_t bias_difference = (uint32_t)(127 - 15) << 23;
    return (uint16_t)(sign | (magnitude - bias_difference + 0xFFF + odd) >> 13);
}

float kg_bf16_to_f32(uint16_t h) {
    return kg_float_from_bits((uint32_t)h << 16);
}

/* Rounds to nearest even. A NaN keeps its sign and the top of its payload and is quiet. */
uint16_t kg_f32_to_bf16(float f) {
    const uint32_t bits = kg_float_to_bits(f);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(bits >> 16 | 0x0040);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void kg_f32_decode(const void *src, float *dst, size_t n_elems) {
    if (n_elems) memcpy(dst, src, n_elems * sizeof *dst);
}

void kg_f32_encode(const float *src, void *dst, size_t n_elems) {
    if (n_elems) memcpy(dst, src, n_elems * sizeof *src);
}

static KG_VECTOR_CLONES void expand_halves(const uint8_t *restrict halves, float *restrict dst, size_t n) {
    for (size_t i = 0; i < n; i++) dst[i] = kg_f16_expand(kg_load_u16(halves + 2 * i));
}

#if defined(__x86_64__) && defined(__GNUC__)
/* By the processor's own conversion, 16 at a time; it makes signalling NaNs quiet, so that groups with one (or with an
 * infinity) go the other way. */
__attribute__((target("avx512f,avx2"))) static size_t expand_by_sixteen(const uint8_t *restrict halves,
                                                                        float *restrict dst, size_t n) {
    const __m256i not_quiet = _mm256_set1_epi16(0x7E00), special = _mm256_set1_epi16(0x7C00);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)(halves + 2 * i));
        const __m256i found = _mm256_cmpeq_epi16(_mm256_and_si256(h, not_quiet), special);
        if (_mm256_testz_si256(found, found)) _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(h));
        else expand_halves(halves + 2 * i, dst + i, 16);
    }
    return i;
}
#endif

void kg_f16_decode(const void *src, float *restrict dst, size_t n_elems) {
    const uint8_t *restrict halves = src;
    size_t done = 0;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) done = expand_by_sixteen(halves, dst, n_elems);
#endif
    expand_halves(halves + 2 * done, dst + done, n_elems - done);
}

void kg_f16_encode(const float *src, void *dst, size_t n_elems) {
    uint8_t *bytes = dst;
    for (size_t i = 0; i < n_elems; i++) {
        const uint16_t h = kg_f32_to_f16(src[i]);
        memcpy(bytes + 2 * i, &h, sizeof h);
    }
}

void kg_bf16_decode(const void *src, float *restrict dst, size_t n_elems) {
    const uint8_t *restrict bytes = src;
    for (size_t i = 0; i < n_elems; i++) dst[i] = kg_bf16_to_f32(kg_load_u16(bytes + 2 * i));
}

void kg_bf16_encode(const float *src, void *dst, size_t n_elems) {
    uint8_t *bytes = dst;
    for (size_t i = 0; i < n_elems; i++) {
        const uint16_t h = kg_f32_to_bf16(src[i]);
        memcpy(bytes + 2 * i, &h, sizeof h);
    }
}
