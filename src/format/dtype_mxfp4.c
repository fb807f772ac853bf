/* MXFP4 (OCP Microscaling Formats v1.0), in GGUF's layout: 32 elements in 17 bytes: a byte e for the scale 2^(e-127)
 * (E8M0; 255 is NaN), then 16 bytes whose low nibbles are elements 0-15 and high nibbles elements 16-31. A nibble is
 * E2M1: a sign, then 0, 0.5, 1, 1.5, 2, 3, 4, 6. */
#include "base/clones.h"
#include "format/dtype.h"
#include "format/dtype_rows.h"
#include <math.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

enum { BLOCK_ELEMS = 32, BLOCK_BYTES = 17, HALF = 16, E8M0_BIAS = 127, E8M0_NAN = 255, E2M1_MAX_EXPONENT = 2 };

static const float E2M1[16] = { 0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f };

static float e8m0_to_f32(uint8_t e) {
    if (e == 0) return 0x1p-127f;
    return kg_float_from_bits(e == E8M0_NAN ? 0x7FC00000 : (uint32_t)e << 23);
}

static void decode(const void *src, float *restrict dst, size_t n_elems) {
    const uint8_t *restrict block = src;
    for (size_t at = 0; at < n_elems; at += BLOCK_ELEMS, block += BLOCK_BYTES) {
        const float scale = e8m0_to_f32(block[0]);
        float values[16];
        for (int code = 0; code < 16; code++) values[code] = E2M1[code] * scale;
        for (int i = 0; i < HALF; i++) dst[at + i] = values[block[1 + i] & 0xF];
        for (int i = 0; i < HALF; i++) dst[at + HALF + i] = values[block[1 + i] >> 4];
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
/* The sixteen values of a block are two registers; a code's low three bits choose in both, its sign one of them. */
__attribute__((target("avx2"))) static void decode_avx2(const void *src, float *restrict dst, size_t n_elems) {
    enum { LANES = 8 };
    const __m256 positive = _mm256_loadu_ps(E2M1), negative = _mm256_loadu_ps(E2M1 + LANES);
    const __m128i nibble = _mm_set1_epi8(0xF);
    const uint8_t *restrict block = src;
    for (size_t at = 0; at < n_elems; at += BLOCK_ELEMS, block += BLOCK_BYTES) {
        const __m256 scale = _mm256_set1_ps(e8m0_to_f32(block[0]));
        const __m256 plus = _mm256_mul_ps(positive, scale), minus = _mm256_mul_ps(negative, scale);
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(block + 1));
        const __m128i halves[2] = { _mm_and_si128(bytes, nibble), _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble) };
        for (int part = 0; part < BLOCK_ELEMS / LANES; part++) {
            const __m128i half = halves[part / 2];
            const __m256i codes = _mm256_cvtepu8_epi32(part % 2 ? _mm_srli_si128(half, LANES) : half);
            const __m256 sign = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28));
            _mm256_storeu_ps(dst + at + LANES * part, _mm256_blendv_ps(_mm256_permutevar8x32_ps(plus, codes),
                                                                       _mm256_permutevar8x32_ps(minus, codes), sign));
        }
    }
}
#endif

kg_decode_fn *kg_mxfp4_decode_way(size_t i) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2") && i-- == 0) return decode_avx2;
#endif
    return i == 0 ? decode : NULL;
}

/* Values beyond float32's range (e of 253 and 254 with large elements) round to infinity. */
void kg_mxfp4_decode(const void *src, float *dst, size_t n_elems) {
    kg_mxfp4_decode_way(0)(src, dst, n_elems);
}

/* The E2M1 code nearest to x, which is in units of the scale. Ties go to the even code (5 becomes 4, 0.25 becomes 0);
 * values beyond 6 become 6. Each comparison is with the midpoint between codes k and k+1; the midpoint itself rounds up
 * from an odd k. */
static inline uint8_t e2m1_round(float x) {
    const uint32_t bits = kg_float_to_bits(x);
    const float m = kg_float_from_bits(bits & 0x7FFFFFFF);
    const uint32_t code =
        (uint32_t)(m > 0.25f) + (m >= 0.75f) + (m > 1.25f) + (m >= 1.75f) + (m > 2.5f) + (m >= 3.5f) + (m > 5.0f);
    return (uint8_t)(code | (bits >> 28 & 8));
}

/* The E8M0 scale of a block whose largest magnitude has these bits: 2^(floor(log2) - 2), where 2 is the exponent of
 * E2M1's largest value, so that the largest magnitude is in [4, 8) units. At least 2^-127, also for a block of
 * zeros. */
static uint8_t choose_scale(uint32_t most_bits) {
    const uint32_t infinity = 0x7F800000, exponent = most_bits >> 23; /* log2 + 127; 0 if subnormal */
    if (most_bits >= infinity) return E8M0_NAN;
    return (uint8_t)(exponent > E2M1_MAX_EXPONENT ? exponent - E2M1_MAX_EXPONENT : 0);
}

/* The scale is the one of the OCP specification, section 6.3, and of ggml's quantize_row_mxfp4_ref. Elements between 6
 * and 8 units become 6; all others become the nearest value, ties to even. ggml differs in two points only: ties go to
 * the smaller magnitude, and every zero is positive; here zeros keep their sign. Choosing the better of this scale and
 * the next by squared error would reduce the mean square error of normal weights by 6% (0.01322 to 0.01245 of their
 * mean square), but then no other program would write the same bytes. A block that holds NaN or an infinity gets the
 * scale NaN and decodes to NaN throughout. Multiplying by the inverse scale is exact except for results far below half
 * a unit. */
KG_VECTOR_CLONES void kg_mxfp4_encode(const float *restrict src, void *restrict dst, size_t n_elems) {
    uint8_t *restrict block = dst;
    for (size_t at = 0; at < n_elems; at += BLOCK_ELEMS, block += BLOCK_BYTES) {
        const float *restrict x = src + at;
        uint32_t most_bits = 0; /* magnitudes compare like their bits, NaN largest */
        for (int i = 0; i < BLOCK_ELEMS; i++) {
            const uint32_t bits = kg_float_to_bits(x[i]) & 0x7FFFFFFF;
            most_bits = bits > most_bits ? bits : most_bits;
        }
        block[0] = choose_scale(most_bits);
        const float inverse = block[0] == E8M0_NAN ? 0 : ldexpf(1, E8M0_BIAS - block[0]);
        uint8_t codes[BLOCK_ELEMS];
        for (int i = 0; i < BLOCK_ELEMS; i++) codes[i] = block[0] == E8M0_NAN ? 0 : e2m1_round(x[i] * inverse);
        for (int i = 0; i < HALF; i++) block[1 + i] = (uint8_t)(codes[i] | codes[HALF + i] << 4);
    }
}
