/* Rounding of rows to Q4_0, Q5_0, Q4_K, Q5_K and Q6_K (layouts: dtype_q4_q5.c, dtype_k.c): scales that make the square
 * error small (fit.h), then those of groups again as the few integers that the format has for them. A block that holds
 * NaN or an infinity decodes to NaN throughout. */
#include "format/dtype.h"
#include "format/dtype_rows.h"
#include "format/fit.h"
#include <float.h>
#include <math.h>
#include <stdbool.h>

static const uint16_t F16_NAN = 0x7E00, F16_MAX = 0x7BFF;

/* x = unit * y, unit a power of two, |y| <= 1; false if one is not finite. */
static bool normalise(const float *x, int n, float *y, float *unit) {
    enum { MOST_EXPONENT = 127 };
    float most = 0;
    int exponent;
    for (int i = 0; i < n; i++) {
        if (!isfinite(x[i])) return false;
        most = fmaxf(most, fabsf(x[i]));
    }
    (void)frexpf(most, &exponent);
    *unit = ldexpf(1, exponent < MOST_EXPONENT ? exponent : MOST_EXPONENT);
    for (int i = 0; i < n; i++) y[i] = x[i] / *unit;
    return true;
}

/* The nearest scale that f16 holds, at most its largest number; *d becomes what it is in units. */
static uint16_t half_scale(float *d, float unit) {
    uint16_t h = kg_f32_to_f16(*d * unit);
    if ((h & 0x7FFF) > F16_MAX) h = (uint16_t)((h & 0x8000) | F16_MAX);
    *d = kg_f16_expand(h) / unit;
    return h;
}

static void store_u16(uint8_t *to, uint16_t value) {
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

static int level(float x, float d, int least, int most) {
    return d != 0 ? (int)kg_round_within(x / d, (float)least, (float)most) : 0;
}

/* Q4_0 and Q5_0: 32 elements, one scale. */

enum { SMALL = 32, HALF = 16 };

static void encode_small(const float *x, uint8_t *block, int n_levels, uint8_t *nibbles, uint32_t *high) {
    float y[SMALL], unit, d = 0;
    const int least = -n_levels / 2, most = n_levels / 2 - 1;
    uint16_t scale = F16_NAN;
    memset(nibbles, 0, HALF);
    *high = 0;
    if (normalise(x, SMALL, y, &unit)) {
        d = kg_fit_scale(y, SMALL, least, most);
        scale = half_scale(&d, unit);
        for (int i = 0; i < SMALL; i++) {
            const unsigned q = (unsigned)(level(y[i], d, least, most) - least);
            nibbles[i % HALF] = (uint8_t)(nibbles[i % HALF] | (q & 0xF) << i / HALF * 4);
            *high |= (uint32_t)(q >> 4) << i;
        }
    }
    store_u16(block, scale);
}

void kg_q4_0_encode(const float *src, void *dst, size_t n_elems) {
    enum { BLOCK_BYTES = 18 };
    uint8_t *block = dst;
    uint32_t none;
    for (size_t at = 0; at < n_elems; at += SMALL, block += BLOCK_BYTES)
        encode_small(src + at, block, 16, block + 2, &none);
}

void kg_q5_0_encode(const float *src, void *dst, size_t n_elems) {
    enum { BLOCK_BYTES = 22 };
    uint8_t *block = dst;
    for (size_t at = 0; at < n_elems; at += SMALL, block += BLOCK_BYTES) {
        uint32_t high;
        encode_small(src + at, block, 32, block + 6, &high);
        memcpy(block + 2, &high, sizeof high);
    }
}

/* Q4_K and Q5_K: 8 groups of 32, each with a scale and a minimum of 6 bits. */

enum { BLOCK = 256, GROUP = 32, N_GROUPS = 8, MOST_SIX_BITS = 63 };

struct six_bits {
    uint16_t half_d, half_d_min;
    float d, d_min; /* the same in units */
    uint8_t scale[N_GROUPS], min[N_GROUPS];
};

/* Around the nearest integers, those whose error is least. */
static void choose_group(const float *x, float scale, float min, float d, float d_min, int most, uint8_t *best_scale,
                         uint8_t *best_min) {
    const int near_scale = level(scale, d, 0, MOST_SIX_BITS), near_min = level(min, d_min, 0, MOST_SIX_BITS);
    float best = FLT_MAX;
    for (int s = near_scale - 1; s <= near_scale + 1; s++)
        for (int m = near_min - 1; m <= near_min + 1; m++) {
            if (s < 0 || s > MOST_SIX_BITS || m < 0 || m > MOST_SIX_BITS) continue;
            const float error = kg_affine_error(x, GROUP, (struct kg_affine){ d * (float)s, d_min * (float)m }, most);
            if (error < best) best = error, *best_scale = (uint8_t)s, *best_min = (uint8_t)m;
        }
}

static struct six_bits choose_six_bits(const float *y, float unit, int most) {
    struct kg_affine fits[N_GROUPS];
    struct six_bits s = { 0 };
    for (int g = 0; g < N_GROUPS; g++) {
        fits[g] = kg_fit_affine(y + g * GROUP, GROUP, most);
        s.d = fmaxf(s.d, fits[g].scale / MOST_SIX_BITS);
        s.d_min = fmaxf(s.d_min, fits[g].min / MOST_SIX_BITS);
    }
    s.half_d = half_scale(&s.d, unit);
    s.half_d_min = half_scale(&s.d_min, unit);
    for (int g = 0; g < N_GROUPS; g++)
        choose_group(y + g * GROUP, fits[g].scale, fits[g].min, s.d, s.d_min, most, &s.scale[g], &s.min[g]);
    return s;
}

static void pack_six_bits(const struct six_bits *s, uint8_t *bytes) {
    for (int g = 0; g < N_GROUPS / 2; g++) {
        bytes[g] = (uint8_t)(s->scale[g] | s->scale[g + 4] >> 4 << 6);
        bytes[g + 4] = (uint8_t)(s->min[g] | s->min[g + 4] >> 4 << 6);
        bytes[g + 8] = (uint8_t)((s->scale[g + 4] & 0xF) | (s->min[g + 4] & 0xF) << 4);
    }
}

/* fifth: where the fifth bits go of levels up to 31. */
static void encode_affine(const float *x, int most, uint8_t *block, uint8_t *fifth, uint8_t *nibbles) {
    float y[BLOCK], unit;
    struct six_bits s = { .half_d = F16_NAN, .half_d_min = F16_NAN };
    const bool finite = normalise(x, BLOCK, y, &unit);
    if (finite) s = choose_six_bits(y, unit, most);
    store_u16(block, s.half_d);
    store_u16(block + 2, s.half_d_min);
    pack_six_bits(&s, block + 4);
    memset(nibbles, 0, BLOCK / 2);
    if (most > 15) memset(fifth, 0, GROUP);
    for (int i = 0; i < BLOCK && finite; i++) {
        const int g = i / GROUP, in_group = i % GROUP;
        const int q = level(y[i] + s.d_min * s.min[g], s.d * s.scale[g], 0, most);
        uint8_t *nibble = &nibbles[g / 2 * GROUP + in_group];
        *nibble = (uint8_t)(*nibble | (q & 0xF) << g % 2 * 4);
        if (most > 15) fifth[in_group] = (uint8_t)(fifth[in_group] | (q >> 4) << g);
    }
}

void kg_q4_k_encode(const float *src, void *dst, size_t n_elems) {
    enum { BLOCK_BYTES = 144 };
    uint8_t *block = dst;
    for (size_t at = 0; at < n_elems; at += BLOCK, block += BLOCK_BYTES)
        encode_affine(src + at, 15, block, NULL, block + 16);
}

void kg_q5_k_encode(const float *src, void *dst, size_t n_elems) {
    enum { BLOCK_BYTES = 176 };
    uint8_t *block = dst;
    for (size_t at = 0; at < n_elems; at += BLOCK, block += BLOCK_BYTES)
        encode_affine(src + at, 31, block, block + 16, block + 48);
}

/* Q6_K: 16 groups of 16, each with a scale of a signed byte. */

enum { SUBGROUP = 16, N_SUBGROUPS = 16, LEAST_LEVEL = -32, MOST_LEVEL = 31, MOST_SCALE = 127 };

static int choose_subgroup(const float *x, float scale, float d) {
    const int near = level(scale, d, -MOST_SCALE - 1, MOST_SCALE);
    int chosen = 0;
    float best = FLT_MAX;
    for (int s = near - 1; s <= near + 1; s++) {
        if (s < -MOST_SCALE - 1 || s > MOST_SCALE) continue;
        const float error = kg_scale_error(x, SUBGROUP, d * (float)s, LEAST_LEVEL, MOST_LEVEL);
        if (error < best) best = error, chosen = s;
    }
    return chosen;
}

static void encode_q6_k(const float *x, uint8_t *block) {
    enum { PAIRS_AT = 128, SCALES_AT = 192, D_AT = 208, BLOCK_BYTES = 210 };
    float y[BLOCK], scales[N_SUBGROUPS], unit, d = 0;
    memset(block, 0, BLOCK_BYTES);
    store_u16(block + D_AT, F16_NAN);
    if (!normalise(x, BLOCK, y, &unit)) return;
    for (int g = 0; g < N_SUBGROUPS; g++) {
        scales[g] = kg_fit_scale(y + g * SUBGROUP, SUBGROUP, LEAST_LEVEL, MOST_LEVEL);
        if (fabsf(scales[g]) > fabsf(d)) d = scales[g];
    }
    d /= -MOST_SCALE - 1; /* the largest scale is -128 */
    store_u16(block + D_AT, half_scale(&d, unit));
    for (int g = 0; g < N_SUBGROUPS; g++) {
        const int chosen = choose_subgroup(y + g * SUBGROUP, scales[g], d);
        const int part = g / 8, quarter = g / 2 % 4, begin = g % 2 * SUBGROUP;
        uint8_t *nibbles = block + part * 64 + quarter % 2 * 32 + begin, *pairs = block + PAIRS_AT + part * 32 + begin;
        block[SCALES_AT + g] = (uint8_t)(int8_t)chosen;
        for (int i = 0; i < SUBGROUP; i++) {
            const int q = level(y[g * SUBGROUP + i], d * (float)chosen, LEAST_LEVEL, MOST_LEVEL) - LEAST_LEVEL;
            nibbles[i] = (uint8_t)(nibbles[i] | (q & 0xF) << quarter / 2 * 4);
            pairs[i] = (uint8_t)(pairs[i] | (q >> 4) << quarter * 2);
        }
    }
}

void kg_q6_k_encode(const float *src, void *dst, size_t n_elems) {
    enum { BLOCK_BYTES = 210 };
    uint8_t *block = dst;
    for (size_t at = 0; at < n_elems; at += BLOCK, block += BLOCK_BYTES) encode_q6_k(src + at, block);
}
