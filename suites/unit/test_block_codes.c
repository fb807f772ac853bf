/* The lanes' arithmetic of the fused decode step's block formats (kernels/decode/block_codes.cuh), on the host:
 * products of 16 rows against float64 over the numbers that src/format decodes and those that x's digits denote, and
 * how far these are from x. */
#include "suites/support/block_codes_problem.h"
#include "base/buffer.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/harness/must.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

static const struct product {
    const char *name;
    struct kg_block_codes_problem problem;
} PRODUCTS[] = {
#define WHOLE(of)                                                                                                      \
    { "whole_chunks", { .dtype = of, .n_cols = 768 } },                                                                \
        { "odd_begins", { .dtype = of, .n_cols = 512, .odd_begins = true } }, {                                        \
        "tiny_x", {                                                                                                    \
            .dtype = of, .n_cols = 256, .tiny_x = true                                                                 \
        }                                                                                                              \
    }
#define PARTIAL(of)                                                                                                    \
    { "one_block", { .dtype = of, .n_cols = 32 } }, { "even_blocks", { .dtype = of, .n_cols = 192 } },                 \
        { "odd_blocks_behind_a_chunk", { .dtype = of, .n_cols = 352 } }, {                                             \
        "odd_begins_of_a_partial_chunk", {                                                                             \
            .dtype = of, .n_cols = 480, .odd_begins = true                                                             \
        }                                                                                                              \
    }
    WHOLE(KG_DTYPE_Q4_0), WHOLE(KG_DTYPE_Q5_0),   WHOLE(KG_DTYPE_Q8_0),   WHOLE(KG_DTYPE_Q4_K),   WHOLE(KG_DTYPE_Q5_K),
    WHOLE(KG_DTYPE_Q6_K), PARTIAL(KG_DTYPE_Q4_0), PARTIAL(KG_DTYPE_Q5_0), PARTIAL(KG_DTYPE_Q8_0),
};

static void as_the_decoder(struct kg_record *rec, const void *arg) {
    const struct product *c = arg;
    struct kg_block_codes_answer a;
    if (!kg_block_codes_or_skip(rec)) return;
    kg_block_codes_run(&c->problem, NULL, kg_record_seed(rec), &a);
    kg_expect_close_f64(rec, "products", a.got, a.want, KG_BLOCK_CODES_PRODUCTS,
                        kg_block_codes_tolerance(c->problem.dtype));
}

/* Fills 32 numbers of x. */
static void normal_x(struct kg_rng *rng, float *x) {
    for (int i = 0; i < 32; i++) x[i] = (float)kg_rng_normal(rng);
}
static void one_that_is_larger(struct kg_rng *rng, float *x) {
    normal_x(rng, x);
    x[kg_rng_u32(rng) % 32] *= 1000;
}
static void subnormal_x(struct kg_rng *rng, float *x) {
    normal_x(rng, x);
    for (int i = 0; i < 32; i++) x[i] *= 0x1p-140f;
}
static void all_magnitudes(struct kg_rng *rng, float *x) {
    normal_x(rng, x);
    for (int i = 0; i < 32; i++) x[i] = ldexpf(x[i], (int)(kg_rng_u32(rng) % 60) - 30);
}
static void largest_float16(struct kg_rng *rng, float *x) {
    for (int i = 0; i < 32; i++) x[i] = kg_rng_u32(rng) % 2 ? 65504 : -65504;
}
static void zeros(struct kg_rng *rng, float *x) {
    (void)rng;
    for (int i = 0; i < 32; i++) x[i] = 0;
}

static const struct digits_case {
    const char *name;
    void (*fill)(struct kg_rng *rng, float *x);
} DIGITS[] = { { "digits_of_normal_x", normal_x },
               { "digits_of_one_that_is_larger", one_that_is_larger },
               { "digits_of_subnormal_x", subnormal_x },
               { "digits_of_all_magnitudes", all_magnitudes },
               { "digits_of_largest_float16", largest_float16 },
               { "digits_of_zeros", zeros } };

/* Half a step, in steps; below 2^-100 all of x is 0. */
static const struct kg_tolerance DIGIT = { .max_abs = 0.5 * (1 + 0x1p-7),
                                           .why =
                                               "x / step is rounded to an integer: half a step; in float32, of which "
                                               "an ulp of 32512 is 2^-9 of a step, twice" };

static void digits(struct kg_record *rec, const void *arg) {
    const struct digits_case *c = arg;
    enum { N = KG_BLOCK_CODES_MAX_COLS };
    static float x[N], denoted[N], got[N];
    static double want[N];
    struct kg_rng rng;
    if (!kg_block_codes_or_skip(rec)) return;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int i = 0; i < N; i += 32) c->fill(&rng, x + i);
    kg_block_codes_digits(x, N, denoted);
    for (int first = 0; first < N; first += 32) {
        double most = 0x1p-100;
        for (int i = first; i < first + 32; i++) most = fmax(most, fabs((double)x[i]));
        for (int i = first; i < first + 32; i++) {
            want[i] = x[i] / most * 32512;
            got[i] = (float)(denoted[i] / most * 32512);
        }
    }
    kg_expect_close_f64(rec, "x over its step", got, want, N, &DIGIT);
}

/* A number that is not finite makes its 32 NaN, and no other. */
static void digits_of_not_finite(struct kg_record *rec, const void *arg) {
    static const float BAD[] = { INFINITY, -INFINITY, NAN };
    (void)arg;
    if (!kg_block_codes_or_skip(rec)) return;
    for (size_t b = 0; b < KG_COUNT_OF(BAD); b++) {
        for (int at = 32; at < 64; at += 13) {
            float x[96], denoted[96];
            for (int i = 0; i < 96; i++) x[i] = i == at ? BAD[b] : (float)i - 40;
            kg_block_codes_digits(x, 96, denoted);
            for (int i = 0; i < 96; i++) ck_assert_int_eq(isnan(denoted[i]), i / 32 == 1);
        }
    }
}

/* Rows of 256 columns of the formats that are taken; 0 says that the others are not. */
static void bytes_of_a_chunk(struct kg_record *rec, const void *arg) {
    uint32_t n_taken = 0;
    (void)arg;
    if (!kg_block_codes_or_skip(rec)) return;
    for (int dtype = 0; dtype < KG_DTYPE_COUNT; dtype++) {
        const uint32_t got = kg_block_codes_chunk_bytes((enum kg_dtype)dtype);
        bool taken = false;
        uint64_t want;
        struct kg_error err;
        kg_must(kg_dtype_row_bytes((enum kg_dtype)dtype, 256, &want, &err), &err);
        for (size_t i = 0; i < KG_COUNT_OF(PRODUCTS); i++) taken = taken || (int)PRODUCTS[i].problem.dtype == dtype;
        ck_assert_uint_eq(got, taken ? want : 0);
        n_taken += taken;
    }
    ck_assert_uint_eq(n_taken, 6);
}

static void build(struct kg_case_list *cases) {
    for (size_t i = 0; i < KG_COUNT_OF(PRODUCTS); i++) {
        const struct product *c = &PRODUCTS[i];
        char *shape = kg_xasprintf("rows=%d K=%u", KG_BLOCK_CODES_ROWS, c->problem.n_cols);
        char *definition = kg_xasprintf("draws=%d max_abs=%g", KG_BLOCK_CODES_DRAWS,
                                        kg_block_codes_tolerance(c->problem.dtype)->max_abs);
        kg_case_list_add(cases, &(struct kg_case){ .layer = "unit",
                                                   .op = "block_codes",
                                                   .name = c->name,
                                                   .dtype = kg_dtype_info(c->problem.dtype)->name,
                                                   .shape = shape,
                                                   .definition = definition,
                                                   .run = as_the_decoder,
                                                   .arg = c });
        free(definition);
        free(shape);
    }
    for (size_t i = 0; i < KG_COUNT_OF(DIGITS); i++)
        kg_case_list_add(
            cases,
            &(struct kg_case){
                .layer = "unit", .op = "block_codes", .name = DIGITS[i].name, .run = digits, .arg = &DIGITS[i] });
    kg_case_list_add(
        cases, &(struct kg_case){
                   .layer = "unit", .op = "block_codes", .name = "digits_of_not_finite", .run = digits_of_not_finite });
    kg_case_list_add(
        cases,
        &(struct kg_case){ .layer = "unit", .op = "block_codes", .name = "bytes_of_a_chunk", .run = bytes_of_a_chunk });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
