/* MXFP4 against the OCP Microscaling specification's formulas, in double: every code under every scale, and rounding.
 */
#include "format/dtype_rows.h"
#include "format/gguf.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include <check.h>
#include <math.h>
#include <string.h>

/* A ck_assert takes a microsecond to pass; the loops over every element use this. */
#define EXPECT(condition, ...)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) ck_abort_msg(__VA_ARGS__);                                                                   \
    } while (0)

enum { ELEMS = 32, BYTES = 17, HALF = 16 };

/* E2M1: sign, two bits of exponent with bias 1, one of mantissa. */
static double e2m1_by_definition(unsigned code) {
    const int exponent = code >> 1 & 3, mantissa = code & 1;
    const double magnitude = exponent ? ldexp(1 + mantissa / 2.0, exponent - 1) : mantissa / 2.0;
    return code & 8 ? -magnitude : magnitude;
}

static double e8m0_by_definition(unsigned e) {
    return e == 255 ? NAN : ldexp(1, (int)e - 127);
}

static void encode(const float *x, uint8_t *block) {
    kg_dtype_info(KG_DTYPE_MXFP4)->encode(x, block, ELEMS);
}

static void decode(const uint8_t *block, float *x) {
    kg_dtype_info(KG_DTYPE_MXFP4)->decode(block, x, ELEMS);
}

/* The code of element i in a block: GGUF keeps 0-15 in the low nibbles and 16-31 in the high ones. */
static unsigned code_of(const uint8_t *block, int i) {
    return i < HALF ? block[1 + i] & 0xF : block[1 + i - HALF] >> 4;
}

/* By one of the ways to decode; returns how many elements were looked at. */
static size_t expect_every_code(kg_decode_fn *way) {
    size_t n_seen = 0;
    for (unsigned e = 0; e < 256; e++) {
        for (unsigned shift = 0; shift < 16; shift++) { /* each code in each place */
            uint8_t block[BYTES] = { (uint8_t)e };
            float x[ELEMS];
            for (unsigned i = 0; i < HALF; i++)
                block[1 + i] = (uint8_t)(((i + shift) & 15) | ((5 * i + shift) & 15) << 4);
            way(block, x, ELEMS);
            for (int i = 0; i < ELEMS; i++) {
                const unsigned code = i < HALF ? ((unsigned)i + shift) & 15 : (5 * (unsigned)(i - HALF) + shift) & 15;
                const float want = (float)(e2m1_by_definition(code) * e8m0_by_definition(e));
                EXPECT(isnan(want) ? isnan(x[i]) : x[i] == want && !signbit(x[i]) == !signbit(want),
                       "scale %u code %u at [%d]: got %.9g, want %.9g", e, code, i, x[i], want);
                n_seen++;
            }
        }
    }
    return n_seen;
}

static void every_code_under_every_scale(struct kg_record *rec, const void *arg) {
    size_t n_seen = 0, n_ways = 0;
    (void)arg;
    for (kg_decode_fn *way; (way = kg_mxfp4_decode_way(n_ways)) != NULL; n_ways++) n_seen = expect_every_code(way);
    ck_assert_uint_ge(n_ways, 1);
    ck_assert_uint_eq(n_seen, 256 * 16 * 32);
    kg_record_metric(rec, "elements", "count", (double)n_seen);
}

/* The nearest value of the grid by looking at all, the even code where two are as near. */
static unsigned nearest_code(double x) {
    unsigned best = 0;
    for (unsigned code = 1; code < 8; code++) {
        const double off = fabs(fabs(x) - e2m1_by_definition(code)),
                     best_off = fabs(fabs(x) - e2m1_by_definition(best));
        if (off < best_off || (off == best_off && code % 2 == 0)) best = code;
    }
    return best | (signbit(x) ? 8 : 0);
}

static void expect_block(const float *x, const uint8_t *block) {
    double most = 0;
    for (int i = 0; i < ELEMS; i++) most = fmax(most, fabs((double)x[i]));
    const double e = most > 0 ? fmax(floor(log2(most)) - 2 + 127, 0) : 0;
    EXPECT(block[0] == e, "scale of %.9g is %u, not %g", most, block[0], e);
    for (int i = 0; i < ELEMS; i++) {
        const unsigned want = nearest_code(x[i] / e8m0_by_definition(block[0]));
        EXPECT(code_of(block, i) == want, "[%d]: %.9g under scale %u is code %u, not %u", i, x[i], block[0],
               code_of(block, i), want);
    }
}

static void scale_and_nearest_code(struct kg_record *rec, const void *arg) {
    struct kg_rng rng;
    uint8_t block[BYTES];
    float x[ELEMS];
    (void)arg;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int trial = 0; trial < 20000; trial++) {
        const int exponent = (int)kg_rng_below(&rng, 270) - 145; /* subnormal to nearly the largest */
        for (int i = 0; i < ELEMS; i++) x[i] = (float)ldexp(kg_rng_normal(&rng) / 8, exponent);
        encode(x, block);
        expect_block(x, block);
    }
}

/* Every middle between two neighbours of the grid, and a hair to each side of it. The block holds a 4, so its scale
 * is 1. */
static void ties_to_even(struct kg_record *rec, const void *arg) {
    static const struct {
        float middle;
        unsigned tie, below, above;
    } rows[] = { { 0.25f, 0, 0, 1 }, { 0.75f, 2, 1, 2 }, { 1.25f, 2, 2, 3 }, { 1.75f, 4, 3, 4 },
                 { 2.5f, 4, 4, 5 },  { 3.5f, 6, 5, 6 },  { 5.0f, 6, 6, 7 } };
    (void)rec, (void)arg;
    for (size_t r = 0; r < KG_COUNT_OF(rows); r++) {
        float x[ELEMS] = { 4 };
        uint8_t block[BYTES];
        x[1] = rows[r].middle;
        x[2] = nextafterf(rows[r].middle, 0);
        x[3] = nextafterf(rows[r].middle, 8);
        for (int i = 1; i <= 3; i++) x[HALF + i] = -x[i];
        encode(x, block);
        ck_assert_uint_eq(block[0], 127);
        ck_assert_uint_eq(code_of(block, 0), 6);
        const unsigned want[] = { 0, rows[r].tie, rows[r].below, rows[r].above };
        for (int i = 1; i <= 3; i++) {
            ck_assert_uint_eq(code_of(block, i), want[i]);
            ck_assert_uint_eq(code_of(block, HALF + i), want[i] | 8);
        }
    }
}

/* Every binary16 value that does not raise the scale, in every place of 32 blocks. */
static void every_f16_under_scale_1(struct kg_record *rec, const void *arg) {
    size_t n_seen = 0;
    (void)rec, (void)arg;
    for (uint32_t h = 0; h <= 0xFFFF; h++) {
        const float value = kg_f16_to_f32((uint16_t)h);
        const int at = 1 + (int)(h % (ELEMS - 1));
        float x[ELEMS] = { 4 };
        uint8_t block[BYTES];
        if (!(fabsf(value) < 8)) continue;
        x[at] = value;
        encode(x, block);
        EXPECT(block[0] == 127 && code_of(block, at) == nearest_code(value), "%.9g at [%d] is code %u under scale %u",
               value, at, code_of(block, at), block[0]);
        n_seen++;
    }
    ck_assert_uint_eq(n_seen, 2 * 0x4800); /* of both signs, below 8 = 0x4800 */
}

/* The largest element alone decides: its exponent less 2, from the first to the last number of every binade. */
static void scale_of_every_exponent(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    for (int exponent = -149; exponent <= 127; exponent++) {
        const float first = ldexpf(1, exponent), last = nextafterf(2 * first, 0);
        const unsigned want = exponent < -125 ? 0 : (unsigned)(exponent - 2 + 127);
        for (int i = 0; i < 4; i++) {
            float x[ELEMS] = { 0 };
            uint8_t block[BYTES];
            x[8 * i + 3] = i % 2 ? -first : exponent == 127 ? 0x1.fffffep127f : last;
            encode(x, block);
            EXPECT(block[0] == want, "scale of 2^%d is %u, not %u", exponent, block[0], want);
        }
    }
}

/* -40 to 55 as the gguf package wrote them: the same scales in the same places, and the same codes but for zeros, which
 * have no sign there, and ties, which it sends to the smaller magnitude. */
static void as_another_program_wrote(struct kg_record *rec, const void *arg) {
    enum { N_BLOCKS = 3 };
    struct kg_gguf *g;
    struct kg_error err = { 0 };
    size_t n_ties = 0;
    (void)arg;
    ck_assert_msg(kg_gguf_open(kg_fixture_path("formats/other-writer.gguf"), &g, &err) == KG_OK, "%s", err.message);
    const struct kg_gguf_tensor *ramp = kg_gguf_find_tensor(g, "ramp.MXFP4");
    ck_assert(ramp && ramp->dtype == KG_DTYPE_MXFP4 && ramp->size_bytes == (uint64_t)N_BLOCKS * BYTES);
    for (int b = 0; b < N_BLOCKS; b++) {
        const uint8_t *theirs = (const uint8_t *)ramp->data + (size_t)b * BYTES;
        uint8_t ours[BYTES];
        float x[ELEMS];
        for (int i = 0; i < ELEMS; i++) x[i] = (float)(b * ELEMS + i - 40);
        encode(x, ours);
        ck_assert_uint_eq(ours[0], theirs[0]);
        for (int i = 0; i < ELEMS; i++) {
            const unsigned our_code = code_of(ours, i), their_code = code_of(theirs, i);
            if (our_code == their_code || ((our_code | their_code) & 7) == 0) continue; /* its zeros have no sign */
            const double units = fabs(x[i] / e8m0_by_definition(ours[0]));
            const bool is_tie = units - e2m1_by_definition(their_code & 7) == e2m1_by_definition(our_code & 7) - units;
            EXPECT(is_tie && our_code % 2 == 0, "%g: code %u, the other program has %u", x[i], our_code, their_code);
            n_ties++;
        }
    }
    ck_assert_uint_gt(n_ties, 0);
    ck_assert_uint_lt(n_ties, N_BLOCKS * ELEMS / 4);
    kg_record_metric(rec, "ties", "count", (double)n_ties);
    kg_gguf_close(g);
}

/* What one large element does to a block of halves. */
struct edge_row {
    const char *name;
    float large;
    unsigned scale, code_of_large, code_of_half;
};
static const struct edge_row EDGES[] = {
    { "largest_of_the_grid", 6, 127, 7, 1 },     { "between_6_and_8_saturates", 7.999f, 127, 7, 1 },
    { "at_8_the_scale_doubles", 8, 128, 6, 0 }, /* a half is then 0.25 steps: the tie goes to 0 */
    { "negative_saturates", -7.5f, 127, 15, 1 }, { "largest_float", 0x1.fffffep127f, 252, 7, 0 },
};

static void large_element(struct kg_record *rec, const void *arg) {
    const struct edge_row *row = arg;
    float x[ELEMS];
    uint8_t block[BYTES];
    (void)rec;
    for (int i = 0; i < ELEMS; i++) x[i] = 0.5f;
    x[20] = row->large;
    encode(x, block);
    ck_assert_uint_eq(block[0], row->scale);
    for (int i = 0; i < ELEMS; i++)
        ck_assert_uint_eq(code_of(block, i), i == 20 ? row->code_of_large : row->code_of_half);
}

static void zeros_keep_their_sign(struct kg_record *rec, const void *arg) {
    float x[ELEMS] = { 0 }, again[ELEMS];
    uint8_t block[BYTES];
    (void)rec, (void)arg;
    x[3] = x[17] = -0.0f;
    encode(x, block);
    ck_assert_uint_eq(block[0], 0);
    decode(block, again);
    for (int i = 0; i < ELEMS; i++) ck_assert(again[i] == 0 && !signbit(again[i]) == !signbit(x[i]));
}

/* Below 4 * 2^-127 the scale stays at its least, 2^-127. */
static void subnormals(struct kg_record *rec, const void *arg) {
    float x[ELEMS] = { 0x1p-127f, 0x1p-128f, 0x1p-129f, 0x1.8p-129f, -0x1p-149f, 0x1.8p-127f, 0x1p-126f };
    const unsigned want[] = { 2, 1, 0, 1, 8, 3, 4 };
    uint8_t block[BYTES];
    (void)rec, (void)arg;
    encode(x, block);
    ck_assert_uint_eq(block[0], 0);
    for (size_t i = 0; i < KG_COUNT_OF(want); i++) ck_assert_uint_eq(code_of(block, (int)i), want[i]);
}

/* One bad element, in any place, makes its block NaN, and no other. */
static void not_finite_spreads_over_its_block(struct kg_record *rec, const void *arg) {
    const float bad[] = { NAN, INFINITY, -INFINITY };
    (void)rec, (void)arg;
    for (int at = 0; at < ELEMS; at++) {
        float x[3 * ELEMS], again[3 * ELEMS];
        uint8_t blocks[3 * BYTES];
        for (int i = 0; i < 3 * ELEMS; i++) x[i] = (float)(i % 5);
        x[ELEMS + at] = bad[at % 3];
        kg_dtype_info(KG_DTYPE_MXFP4)->encode(x, blocks, 3 * ELEMS);
        kg_dtype_info(KG_DTYPE_MXFP4)->decode(blocks, again, 3 * ELEMS);
        ck_assert_uint_eq(blocks[BYTES], 255);
        for (int i = 0; i < 3 * ELEMS; i++) ck_assert_int_eq(!isnan(again[i]), i < ELEMS || i >= 2 * ELEMS);
    }
}

/* What was decoded from a block that uses its scale's range encodes to the same block. */
static void encoding_again_changes_nothing(struct kg_record *rec, const void *arg) {
    struct kg_rng rng;
    (void)arg;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (unsigned e = 0; e <= 252; e++) {
        uint8_t block[BYTES] = { (uint8_t)e }, again[BYTES];
        float x[ELEMS];
        for (int i = 0; i < HALF; i++) block[1 + i] = (uint8_t)kg_rng_u32(&rng);
        block[1] = 0x67; /* a 6 and a 4: the scale's own range is in use */
        decode(block, x);
        encode(x, again);
        ck_assert_mem_eq(again, block, BYTES);
    }
}

static void build(struct kg_case_list *list) {
    const struct kg_case cases[] = {
        { .name = "every_code_under_every_scale", .run = every_code_under_every_scale },
        { .name = "scale_and_nearest_code", .run = scale_and_nearest_code },
        { .name = "ties_to_even", .run = ties_to_even },
        { .name = "every_f16_under_scale_1", .run = every_f16_under_scale_1 },
        { .name = "scale_of_every_exponent", .run = scale_of_every_exponent },
        { .name = "as_another_program_wrote", .run = as_another_program_wrote },
        { .name = "zeros_keep_their_sign", .run = zeros_keep_their_sign },
        { .name = "subnormals", .run = subnormals },
        { .name = "not_finite_spreads_over_its_block", .run = not_finite_spreads_over_its_block },
        { .name = "encoding_again_changes_nothing", .run = encoding_again_changes_nothing },
    };
    for (size_t i = 0; i < KG_COUNT_OF(cases); i++) {
        struct kg_case c = cases[i];
        c.layer = "unit", c.op = "dtype", c.dtype = "MXFP4";
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(EDGES); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "dtype",
                                                  .name = EDGES[i].name,
                                                  .dtype = "MXFP4",
                                                  .run = large_element,
                                                  .arg = &EDGES[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
