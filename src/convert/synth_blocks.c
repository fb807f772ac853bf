/* Layouts: src/format/dtype_*.c.
 *
 * Formats of 32 elements take two Philox blocks: a byte an element; which of the 16 scales, and its sign where a format
 * has signed scales, are exclusive ors of such bytes. Formats of 256 take 18: 16 for the elements and 32 bytes for
 * scales. Q4_0, Q5_0 and Q6_K have one level more below zero than above, so that only random signs of scales make the
 * mean 0. */
#include "convert/synth_blocks.h"
#include "base/rng.h"
#include "base/size.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum {
    PHILOX_BYTES = 16,
    SMALL = 32,
    BLOCK = 256,
    GROUP = 32,
    N_GROUPS = 8,
    SUBGROUP = 16,
    N_SUBGROUPS = 16,
    SCALE_BYTES = 2 * PHILOX_BYTES,
    MXFP4_BIAS = 127,
};

/* to[n_philox * PHILOX_BYTES] = consecutive Philox blocks of a source whose formats take `every` of them. */
static void random_bytes(struct kg_synth_source from, uint64_t every, uint64_t first, uint64_t n_philox, uint8_t *to) {
    for (uint64_t i = 0; i < n_philox; i++) {
        uint32_t block[4];
        kg_philox4x32(from.seed, from.stream, every * from.index + first + i, block);
        memcpy(to + i * PHILOX_BYTES, block, PHILOX_BYTES);
    }
}

static void small_bytes(struct kg_synth_source from, uint8_t to[SMALL]) {
    enum { N_PHILOX = SMALL / PHILOX_BYTES };
    random_bytes(from, N_PHILOX, 0, N_PHILOX, to);
}

static void large_bytes(struct kg_synth_source from, uint8_t to[BLOCK + SCALE_BYTES]) {
    enum { N_PHILOX = (BLOCK + SCALE_BYTES) / PHILOX_BYTES };
    random_bytes(from, N_PHILOX, 0, N_PHILOX, to);
}

static void store_u16(uint8_t *to, uint16_t value) {
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

static uint16_t small_scale(const struct kg_synth_blocks *t, const uint8_t *bits, bool is_signed) {
    const unsigned sign = is_signed ? (bits[2] ^ bits[3]) & 1U : 0;
    return (uint16_t)(t->scale[(bits[0] ^ bits[1]) % KG_SYNTH_SCALES] | sign << 15);
}

static void make_q8_0(const struct kg_synth_blocks *t, struct kg_synth_source from, uint8_t *block) {
    uint8_t bits[SMALL];
    small_bytes(from, bits);
    store_u16(block, small_scale(t, bits, false));
    for (int i = 0; i < SMALL; i++) block[2 + i] = t->code[bits[i]];
}

static void make_q4_0(const struct kg_synth_blocks *t, struct kg_synth_source from, uint8_t *block) {
    uint8_t bits[SMALL];
    small_bytes(from, bits);
    store_u16(block, small_scale(t, bits, true));
    for (int i = 0; i < SMALL / 2; i++) block[2 + i] = (uint8_t)(t->code[bits[i]] | t->code[bits[SMALL / 2 + i]] << 4);
}

static void make_q5_0(const struct kg_synth_blocks *t, struct kg_synth_source from, uint8_t *block) {
    uint8_t bits[SMALL];
    small_bytes(from, bits);
    store_u16(block, small_scale(t, bits, true));
    memset(block + 2, 0, 4);
    for (int i = 0; i < SMALL; i++) block[2 + i / 8] = (uint8_t)(block[2 + i / 8] | t->code[bits[i]] >> 4 << i % 8);
    for (int i = 0; i < SMALL / 2; i++)
        block[6 + i] = (uint8_t)((t->code[bits[i]] & 0xF) | (t->code[bits[SMALL / 2 + i]] & 0xF) << 4);
}

static void make_mxfp4(const struct kg_synth_blocks *t, struct kg_synth_source from, uint8_t *block) {
    uint8_t bits[SMALL];
    small_bytes(from, bits);
    block[0] = (uint8_t)(t->exponent - ((bits[0] ^ bits[1]) & 1));
    for (int i = 0; i < SMALL / 2; i++) block[1 + i] = (uint8_t)(t->code[bits[i]] | t->code[bits[SMALL / 2 + i]] << 4);
}

/* Six bits of a byte, as the scale of a group: 20 to 60, so that a minimum 3 away fits them, too. */
static uint8_t group_scale(uint8_t bits) {
    return (uint8_t)(20 + bits * 41 / 256);
}

/* What a group's minimum has more than its scale: -3 to 3, mean 0. */
static int min_offset(uint8_t bits) {
    return (bits & 3) - (bits >> 2 & 3);
}

/* The heads of Q4_K and Q5_K blocks: two f16 and 6 bits a scale and minimum. With equal ones a group is centred on 0.
 */
static void put_group_scales(const struct kg_synth_blocks *t, const uint8_t *bits, uint8_t *block) {
    uint8_t scale[N_GROUPS], min[N_GROUPS], *packed = block + 4;
    store_u16(block, t->scale[bits[2 * N_GROUPS] % KG_SYNTH_SCALES]);
    store_u16(block + 2, t->min_scale[bits[2 * N_GROUPS] % KG_SYNTH_SCALES]);
    for (int g = 0; g < N_GROUPS; g++) {
        scale[g] = group_scale(bits[g]);
        min[g] = (uint8_t)(scale[g] + min_offset(bits[N_GROUPS + g]));
    }
    for (int g = 0; g < N_GROUPS / 2; g++) {
        packed[g] = (uint8_t)(scale[g] | scale[g + 4] >> 4 << 6);
        packed[g + 4] = (uint8_t)(min[g] | min[g + 4] >> 4 << 6);
        packed[g + 8] = (uint8_t)((scale[g + 4] & 0xF) | (min[g + 4] & 0xF) << 4);
    }
}

static void put_nibble_pairs(const struct kg_synth_blocks *t, const uint8_t *bits, uint8_t *nibbles) {
    for (int i = 0; i < BLOCK / 2; i++) {
        const uint8_t *low = bits + i / GROUP * 2 * GROUP + i % GROUP;
        nibbles[i] = (uint8_t)((t->code[low[0]] & 0xF) | (t->code[low[GROUP]] & 0xF) << 4);
    }
}

static void make_q4_k(const struct kg_synth_blocks *t, struct kg_synth_source from, uint8_t *block) {
    uint8_t bits[BLOCK + SCALE_BYTES];
    large_bytes(from, bits);
    put_group_scales(t, bits + BLOCK, block);
    put_nibble_pairs(t, bits, block + 16);
}

static void make_q5_k(const struct kg_synth_blocks *t, struct kg_synth_source from, uint8_t *block) {
    uint8_t bits[BLOCK + SCALE_BYTES], *fifth = block + 16;
    large_bytes(from, bits);
    put_group_scales(t, bits + BLOCK, block);
    put_nibble_pairs(t, bits, block + 48);
    memset(fifth, 0, GROUP);
    for (int i = 0; i < BLOCK; i++) fifth[i % GROUP] = (uint8_t)(fifth[i % GROUP] | t->code[bits[i]] >> 4 << i / GROUP);
}

/* The scale of a subgroup of Q6_K: 40 to 127, and a sign. */
static int8_t subgroup_scale(uint8_t bits) {
    const int magnitude = 40 + (bits & 0x7F) * 88 / 128;
    return (int8_t)(bits & 0x80 ? -magnitude : magnitude);
}

static void make_q6_k(const struct kg_synth_blocks *t, struct kg_synth_source from, uint8_t *block) {
    enum { PAIRS_AT = 128, SCALES_AT = 192, D_AT = 208, HALF = 128, QUARTER = 32 };
    uint8_t bits[BLOCK + SCALE_BYTES];
    large_bytes(from, bits);
    for (int i = 0; i < BLOCK / 4; i++) {
        const uint8_t *first = bits + i / QUARTER * HALF + i % QUARTER;
        uint8_t q[4], *nibbles = block + i / QUARTER * 2 * QUARTER + i % QUARTER;
        for (int k = 0; k < 4; k++) q[k] = t->code[first[k * QUARTER]];
        nibbles[0] = (uint8_t)((q[0] & 0xF) | (q[2] & 0xF) << 4);
        nibbles[QUARTER] = (uint8_t)((q[1] & 0xF) | (q[3] & 0xF) << 4);
        block[PAIRS_AT + i] = (uint8_t)(q[0] >> 4 | q[1] >> 4 << 2 | q[2] >> 4 << 4 | q[3] >> 4 << 6);
    }
    for (int g = 0; g < N_SUBGROUPS; g++) block[SCALES_AT + g] = (uint8_t)subgroup_scale(bits[BLOCK + g]);
    store_u16(block + D_AT, t->scale[bits[BLOCK + N_SUBGROUPS] % KG_SYNTH_SCALES]);
}

/* A format with evenly spaced levels. An element is d * scale * (level - zero), and of Q4_K and Q5_K besides
 * d * zero * offset more or less. `deviation` is in levels: what makes the ends of the range a group's extremes. */
static const struct form {
    enum kg_dtype dtype;
    int least, most;      /* levels */
    double zero;          /* the level that stands for 0 */
    int stored;           /* what is added to a level to store it */
    double deviation;     /* in levels */
    uint8_t scales, mins; /* whether groups have scales (1: of 6 bits; 2: of signed bytes) and minimums */
    void (*make)(const struct kg_synth_blocks *tables, struct kg_synth_source from, uint8_t *block);
} FORMS[] = {
    { KG_DTYPE_Q8_0, -127, 127, 0, 0, 54, 0, 0, make_q8_0 }, { KG_DTYPE_Q4_0, -8, 7, 0, 8, 3.4, 0, 0, make_q4_0 },
    { KG_DTYPE_Q5_0, -16, 15, 0, 16, 6.8, 0, 0, make_q5_0 }, { KG_DTYPE_Q4_K, 0, 15, 7.5, 0, 3.6, 1, 1, make_q4_k },
    { KG_DTYPE_Q5_K, 0, 31, 15.5, 0, 7.5, 1, 1, make_q5_k }, { KG_DTYPE_Q6_K, -32, 31, 0, 32, 15, 2, 0, make_q6_k },
};

/* Mean squares over all bytes that choose. */
static double mean_square_scale(uint8_t kind) {
    double sum = 0;
    for (int b = 0; b < 256; b++) {
        const double s = kind == 0 ? 1 : kind == 1 ? group_scale((uint8_t)b) : subgroup_scale((uint8_t)b);
        sum += s * s;
    }
    return sum / 256;
}

static double mean_square_offset(void) {
    double sum = 0;
    for (int b = 0; b < 256; b++) sum += pow(min_offset((uint8_t)b), 2);
    return sum / 256;
}

static double choose_codes(struct kg_synth_blocks *t, const struct form *f, const double *normal) {
    double sum = 0;
    for (int i = 0; i < KG_SYNTH_QUANTILES; i++) {
        /* an even number of levels has its zero between two of them */
        const double level = fmin(fmax(round(f->zero + f->deviation * normal[i]), f->least), f->most);
        t->code[i] = (uint8_t)((int)level + f->stored);
        sum += pow(level - f->zero, 2);
    }
    return sum / KG_SYNTH_QUANTILES;
}

/* Block scales are 0.75 to 1.25 of the middle one. */
static void make_even(struct kg_synth_blocks *t, const struct form *f, double deviation, const double *normal) {
    double factors[KG_SYNTH_SCALES], square = choose_codes(t, f, normal) * mean_square_scale(f->scales), sum = 0;
    if (f->mins) square += f->zero * f->zero * mean_square_offset();
    for (int i = 0; i < KG_SYNTH_SCALES; i++) {
        factors[i] = 0.75 + 0.5 * i / (KG_SYNTH_SCALES - 1);
        sum += factors[i] * factors[i];
    }
    const double middle = deviation / sqrt(square * sum / KG_SYNTH_SCALES);
    for (int i = 0; i < KG_SYNTH_SCALES; i++) {
        t->scale[i] = kg_f32_to_f16((float)(middle * factors[i]));
        t->min_scale[i] = kg_f32_to_f16((float)f->zero * kg_f16_to_f32(t->scale[i]));
    }
    t->make = f->make;
}

static uint8_t nearest_e2m1(double x) {
    static const double VALUES[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
    uint8_t best = 0;
    for (uint8_t i = 1; i < 8; i++)
        if (fabs(fabs(x) - VALUES[i]) < fabs(fabs(x) - VALUES[best])) best = i;
    return (uint8_t)(x < 0 ? best | 8 : best);
}

/* Block scales are 2^e or 2^(e-1). The deviation of all blocks together is d if that of the larger scale's is
 * d / sqrt(5/8): half have it, half have half. */
static void make_powers_of_two(struct kg_synth_blocks *t, double deviation, const double *normal) {
    const double larger = deviation / sqrt(0.625);
    const int e = (int)floor(log2(larger / 1.5)); /* 2^e is a unit: the deviation is 1.5 to 3 of it, 6 is the largest */
    const double units = larger / ldexp(1, e);
    for (int i = 0; i < KG_SYNTH_QUANTILES; i++) t->code[i] = nearest_e2m1(units * normal[i]);
    t->exponent = (uint8_t)(e + MXFP4_BIAS);
    t->make = make_mxfp4;
}

void kg_synth_blocks_make(struct kg_synth_blocks *tables, enum kg_dtype dtype, double deviation,
                          const double normal[KG_SYNTH_QUANTILES]) {
    if (dtype == KG_DTYPE_MXFP4) make_powers_of_two(tables, deviation, normal);
    for (size_t i = 0; i < KG_COUNT_OF(FORMS); i++)
        if (FORMS[i].dtype == dtype) make_even(tables, &FORMS[i], deviation, normal);
}
