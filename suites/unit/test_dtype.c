/* Block formats: decoded exactly as a third party and the specifications have it, encoded to the nearest value. */
#include "format/dtype.h"
#include "base/rng.h"
#include "base/size.h"
#include "format/safetensors.h"
#include "suites/harness/case.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kg_safetensors *open_goldens(void) {
    struct kg_safetensors *st;
    struct kg_error err = { 0 };
    const char *path = kg_fixture_path("formats/blocks.safetensors");
    ck_assert_msg(kg_safetensors_open(path, &st, &err) == KG_OK, "%s", err.message);
    return st;
}

static const struct kg_safetensors_tensor *golden(const struct kg_safetensors *st, const char *dtype,
                                                  const char *part) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", dtype, part);
    const struct kg_safetensors_tensor *t = kg_safetensors_find(st, name);
    ck_assert_msg(t != NULL && t->n_elems > 0, "golden %s is missing", name);
    return t;
}

/* Without ck_assert, which takes a microsecond to pass: these look at hundreds of thousands of values. */
static void expect_same_f32(float got, float want, size_t i) {
    if (isnan(want) ? !isnan(got) : got != want) ck_abort_msg("[%zu]: got %.9g, want %.9g", i, got, want);
}

static void expect_bits(unsigned got, unsigned want, const char *what, unsigned from) {
    if (got != want) ck_abort_msg("%s of %04x is %04x, not %04x", what, from, got, want);
}

/* The bytes lie one off any alignment, and the row is as long as the golden: block after block. */
static void as_the_gguf_package_decodes(struct kg_record *rec, const void *arg) {
    const struct kg_dtype_info *info = arg;
    struct kg_safetensors *st = open_goldens();
    const struct kg_safetensors_tensor *raw = golden(st, info->name, "raw"), *values = golden(st, info->name, "f32");
    const size_t n = values->n_elems;
    struct kg_error err = { 0 };
    ck_assert_uint_eq(raw->n_elems / info->block_bytes * info->block_elems, n);
    uint8_t *src = malloc(raw->n_elems + 1);
    float *want = malloc(n * sizeof *want), *got = malloc((n + 1) * sizeof *got);
    memcpy(src + 1, raw->data, raw->n_elems);
    ck_assert_int_eq(kg_safetensors_to_f32(values, want, &err), KG_OK);
    for (size_t i = 0; i <= n; i++) got[i] = 12345.5f;
    info->decode(src + 1, got, n);
    for (size_t i = 0; i < n; i++) expect_same_f32(got[i], want[i], i);
    ck_assert_float_eq(got[n], 12345.5f); /* nothing is written behind the row */
    kg_record_metric(rec, "elements", "count", (double)n);
    free(got);
    free(want);
    free(src);
    kg_safetensors_close(st);
}

static void rounded_as_others_round(struct kg_record *rec, const void *arg) {
    const struct kg_dtype_info *info = arg;
    struct kg_safetensors *st = open_goldens();
    const struct kg_safetensors_tensor *from = golden(st, info->name, "rounded_from"),
                                       *to = golden(st, info->name, "rounded_to");
    const size_t n = from->n_elems;
    struct kg_error err = { 0 };
    float *x = malloc(n * sizeof *x);
    uint16_t *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    (void)rec;
    ck_assert_uint_eq(to->size_bytes, n * sizeof *want);
    memcpy(want, to->data, to->size_bytes);
    ck_assert_int_eq(kg_safetensors_to_f32(from, x, &err), KG_OK);
    info->encode(x, got, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(got[i] == want[i], "[%zu]: %.9g becomes %04x, not %04x", i, x[i], got[i], want[i]);
    free(got);
    free(want);
    free(x);
    kg_safetensors_close(st);
}

/* binary16 by its definition, in double. */
static double f16_by_definition(uint16_t h) {
    const int exponent = h >> 10 & 0x1F, mantissa = h & 0x3FF;
    const double sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24));
}

static void all_f16_values(struct kg_record *rec, const void *arg) {
    uint16_t *all = malloc(65536 * sizeof *all), *again = malloc(65536 * sizeof *again);
    float *row = malloc(65536 * sizeof *row);
    (void)rec, (void)arg;
    for (unsigned h = 0; h < 65536; h++) all[h] = (uint16_t)h;
    kg_dtype_info(KG_DTYPE_F16)->decode(all, row, 65536);
    kg_dtype_info(KG_DTYPE_F16)->encode(row, again, 65536);
    for (unsigned h = 0; h < 65536; h++) {
        const double want = f16_by_definition((uint16_t)h);
        expect_same_f32(row[h], (float)want, h);
        expect_same_f32(kg_f16_to_f32((uint16_t)h), (float)want, h);
        expect_bits(signbit(row[h]) ? 0x8000 : 0, h & 0x8000, "the sign", h);
        const unsigned kept = isnan(want) ? 0xFE00 : 0xFFFF; /* of a NaN: that it is one, quiet, and its sign */
        expect_bits(again[h] & kept, isnan(want) ? (h & 0x8000) | 0x7E00 : h, "the round trip", h);
    }
    free(row);
    free(again);
    free(all);
}

/* One signalling NaN among numbers, at each place of a group that is converted at once: its bits stay, as alone. */
static void f16_signalling_nan_among_numbers(struct kg_record *rec, const void *arg) {
    enum { N = 32 };
    const struct kg_dtype_info *f16 = kg_dtype_info(KG_DTYPE_F16);
    (void)rec, (void)arg;
    for (unsigned h = 0x7C01; h < 0x7E00; h++) {
        uint8_t halves[2 * N];
        float row[N];
        for (size_t at = 0; at < N; at++) {
            for (size_t i = 0; i < N; i++) {
                halves[2 * i] = (uint8_t)(i == at ? h & 0xFF : 0x00); /* 1.0 */
                halves[2 * i + 1] = (uint8_t)(i == at ? h >> 8 : 0x3C);
            }
            const float alone = kg_f16_to_f32((uint16_t)h);
            f16->decode(halves, row, N);
            ck_assert_msg(memcmp(&row[at], &alone, sizeof alone) == 0, "0x%04x at %zu is another NaN than alone", h,
                          at);
        }
    }
}

static void all_bf16_values(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    for (unsigned h = 0; h < 65536; h++) {
        const uint32_t bits = (uint32_t)h << 16;
        float f;
        memcpy(&f, &bits, sizeof f);
        const float got = kg_bf16_to_f32((uint16_t)h);
        const uint16_t again = kg_f32_to_bf16(got);
        expect_same_f32(got, f, h);
        expect_bits(signbit(got) ? 0x8000 : 0, h & 0x8000, "the sign", h);
        const unsigned kept = isnan(f) ? 0xFFC0 : 0xFFFF; /* of a NaN: that it is one, quiet, and its sign */
        expect_bits(again & kept, isnan(f) ? (h & 0x8000) | 0x7FC0 : h, "the round trip", h);
    }
}

/* Between each finite number and the next: the middle goes to the even one, a hair off it to the nearer. */
static void f16_ties_to_even(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    for (unsigned h = 0; h < 0x7C00; h++) { /* the last step leads to 65536, where infinity stands */
        const double above = h == 0x7BFF ? 65536 : f16_by_definition((uint16_t)(h + 1));
        const float middle = (float)((f16_by_definition((uint16_t)h) + above) / 2);
        const uint16_t even = (uint16_t)(h + (h & 1));
        expect_bits(kg_f32_to_f16(middle), even, "the middle above", h);
        expect_bits(kg_f32_to_f16(-middle), even | 0x8000, "the negative middle above", h);
        expect_bits(kg_f32_to_f16(nextafterf(middle, 0)), h, "just below the middle above", h);
        expect_bits(kg_f32_to_f16(nextafterf(middle, INFINITY)), h + 1, "just above the middle above", h);
    }
}

static void bf16_ties_to_even(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    for (unsigned h = 0; h < 0x7F80; h++) {
        const uint32_t bits = (uint32_t)h << 16 | 0x8000;
        float middle;
        memcpy(&middle, &bits, sizeof middle);
        expect_bits(kg_f32_to_bf16(middle), h + (h & 1), "the middle above", h);
        expect_bits(kg_f32_to_bf16(-middle), (h + (h & 1)) | 0x8000, "the negative middle above", h);
        expect_bits(kg_f32_to_bf16(nextafterf(middle, 0)), h, "just below the middle above", h);
        expect_bits(kg_f32_to_bf16(nextafterf(middle, INFINITY)), h + 1, "just above the middle above", h);
    }
}

static void table_by_id_and_name(struct kg_record *rec, const void *arg) {
    const struct {
        uint32_t id;
        const char *name;
        enum kg_dtype dtype;
        uint32_t block_elems, block_bytes;
    } rows[] = {
        { 0, "F32", KG_DTYPE_F32, 1, 4 },        { 1, "F16", KG_DTYPE_F16, 1, 2 },
        { 2, "Q4_0", KG_DTYPE_Q4_0, 32, 18 },    { 6, "Q5_0", KG_DTYPE_Q5_0, 32, 22 },
        { 8, "Q8_0", KG_DTYPE_Q8_0, 32, 34 },    { 12, "Q4_K", KG_DTYPE_Q4_K, 256, 144 },
        { 13, "Q5_K", KG_DTYPE_Q5_K, 256, 176 }, { 14, "Q6_K", KG_DTYPE_Q6_K, 256, 210 },
        { 30, "BF16", KG_DTYPE_BF16, 1, 2 },     { 39, "MXFP4", KG_DTYPE_MXFP4, 32, 17 },
    };
    (void)rec, (void)arg;
    ck_assert_uint_eq(KG_COUNT_OF(rows), KG_DTYPE_COUNT);
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++) {
        enum kg_dtype by_id, by_name;
        struct kg_error err = { 0 };
        const struct kg_dtype_info *info = kg_dtype_info(rows[i].dtype);
        uint64_t bytes = 0;
        ck_assert_int_eq(kg_dtype_from_gguf(rows[i].id, &by_id, &err), KG_OK);
        ck_assert_int_eq(kg_dtype_from_name(rows[i].name, &by_name, &err), KG_OK);
        ck_assert(by_id == rows[i].dtype && by_name == rows[i].dtype);
        ck_assert_str_eq(info->name, rows[i].name);
        ck_assert_uint_eq(info->gguf_id, rows[i].id);
        ck_assert_uint_eq(info->block_elems, rows[i].block_elems);
        ck_assert_uint_eq(info->block_bytes, rows[i].block_bytes);
        ck_assert_ptr_nonnull(info->decode);
        ck_assert_int_eq(kg_dtype_row_bytes(rows[i].dtype, UINT64_C(768), &bytes, &err), KG_OK);
        ck_assert_uint_eq(bytes, 768 / rows[i].block_elems * rows[i].block_bytes);
    }
    enum kg_dtype lower;
    ck_assert_int_eq(kg_dtype_from_name("q8_0", &lower, NULL), KG_OK);
    ck_assert_int_eq(lower, KG_DTYPE_Q8_0);
}

static void refused_types(struct kg_record *rec, const void *arg) {
    const struct {
        uint32_t id;
        const char *message;
    } rows[] = { { 3, "type Q4_1 (3)" },      { 10, "type Q2_K (10)" },
                 { 16, "type IQ2_XXS (16)" }, { 27, "type I64 (27)" },
                 { 29, "type IQ1_M (29)" },   { 41, "type Q1_0 (41)" },
                 { 42, "type unknown (42)" }, { UINT32_MAX, "type unknown (4294967295)" } };
    struct kg_error err = { 0 };
    enum kg_dtype dtype = KG_DTYPE_F32;
    uint64_t bytes = 77;
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++) {
        ck_assert_int_eq(kg_dtype_from_gguf(rows[i].id, &dtype, &err), KG_ERR_UNSUPPORTED);
        ck_assert_msg(strstr(err.message, rows[i].message) != NULL, "%s", err.message);
    }
    ck_assert_int_eq(kg_dtype_from_name("Q8", &dtype, &err), KG_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "'Q8'"));
    ck_assert_int_eq(kg_dtype_row_bytes(KG_DTYPE_Q4_K, 128, &bytes, &err), KG_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.message, "a row of 128 elements is no multiple of the 256 in a block of Q4_K"));
    ck_assert_int_eq(kg_dtype_row_bytes(KG_DTYPE_F32, UINT64_MAX / 2, &bytes, &err), KG_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.message, "overflows"));
    ck_assert_uint_eq(bytes, 77);
}

/* Q8_0. */
enum { Q8_ELEMS = 32, Q8_BYTES = 34 };

static double q8_scale(const uint8_t *block) {
    return f16_by_definition((uint16_t)(block[0] | block[1] << 8));
}

static void q8_0_nearest(struct kg_record *rec, const void *arg) {
    struct kg_rng rng;
    float x[Q8_ELEMS], again[Q8_ELEMS];
    uint8_t block[Q8_BYTES];
    (void)arg;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int trial = 0; trial < 5000; trial++) {
        const double size = ldexp(1, trial % 24 - 6); /* so that scales are normal in binary16 */
        double most = 0;
        for (int i = 0; i < Q8_ELEMS; i++) {
            x[i] = (float)(kg_rng_normal(&rng) * size);
            most = fmax(most, fabs((double)x[i]));
        }
        kg_dtype_info(KG_DTYPE_Q8_0)->encode(x, block, Q8_ELEMS);
        kg_dtype_info(KG_DTYPE_Q8_0)->decode(block, again, Q8_ELEMS);
        const double d = q8_scale(block);
        ck_assert_double_ge(most / 127, 0x1p-14);
        ck_assert_double_le(fabs(d - most / 127), most / 127 * 0x1p-11);
        for (int i = 0; i < Q8_ELEMS; i++)
            if (fabs(again[i] - (double)x[i]) > d / 2 * (1 + 1e-6))
                ck_abort_msg("trial %d [%d]: %.9g becomes %.9g with scale %.9g", trial, i, x[i], again[i], d);
    }
}

static void q8_0_ties_to_even(struct kg_record *rec, const void *arg) {
    float x[Q8_ELEMS];
    uint8_t block[Q8_BYTES];
    (void)rec, (void)arg;
    for (int i = 0; i < Q8_ELEMS; i++) x[i] = (float)(i - 16) + 0.5f;
    x[31] = 127; /* makes the scale 1 */
    kg_dtype_info(KG_DTYPE_Q8_0)->encode(x, block, Q8_ELEMS);
    ck_assert_double_eq(q8_scale(block), 1);
    for (int i = 0; i < 31; i++) {
        const int below = i - 16, even = below % 2 == 0 ? below : below + 1;
        ck_assert_int_eq((int8_t)block[2 + i], even);
    }
    ck_assert_int_eq((int8_t)block[2 + 31], 127);
}

/* A block whose elements are all 1 but the last one, which decides. */
struct q8_row {
    const char *name;
    float last;
    float first_decoded, last_decoded;
};
static const struct q8_row Q8_EDGES[] = {
    { "q8_0_negative_maximum", -127, 1, -127 },
    { "q8_0_nan_spreads", NAN, NAN, NAN },
    { "q8_0_infinity_spreads", -INFINITY, NAN, NAN },
    { "q8_0_beyond_the_largest_scale", 3e38f, 0, 127 * 65504.0f },
};

static void q8_0_edge(struct kg_record *rec, const void *arg) {
    const struct q8_row *row = arg;
    float x[Q8_ELEMS], again[Q8_ELEMS];
    uint8_t block[Q8_BYTES];
    (void)rec;
    for (int i = 0; i < Q8_ELEMS; i++) x[i] = i == Q8_ELEMS - 1 ? row->last : 1;
    kg_dtype_info(KG_DTYPE_Q8_0)->encode(x, block, Q8_ELEMS);
    kg_dtype_info(KG_DTYPE_Q8_0)->decode(block, again, Q8_ELEMS);
    for (int i = 0; i < Q8_ELEMS - 1; i++) expect_same_f32(again[i], row->first_decoded, (size_t)i);
    expect_same_f32(again[Q8_ELEMS - 1], row->last_decoded, Q8_ELEMS - 1);
}

static void q8_0_zeros_and_least(struct kg_record *rec, const void *arg) {
    float x[Q8_ELEMS] = { 0 }, again[Q8_ELEMS];
    uint8_t block[Q8_BYTES], zeros[Q8_BYTES] = { 0 };
    (void)rec, (void)arg;
    kg_dtype_info(KG_DTYPE_Q8_0)->encode(x, block, Q8_ELEMS);
    ck_assert_mem_eq(block, zeros, sizeof zeros);
    for (int i = 0; i < Q8_ELEMS; i++) x[i] = 0x1p-149f; /* far below the least scale: zero, and no division by it */
    kg_dtype_info(KG_DTYPE_Q8_0)->encode(x, block, Q8_ELEMS);
    ck_assert_mem_eq(block, zeros, sizeof zeros);
    for (int i = 0; i < Q8_ELEMS; i++) x[i] = 0x1p-24f * (float)i; /* scale 0.24 of the least number: rounds to 0 */
    kg_dtype_info(KG_DTYPE_Q8_0)->encode(x, block, Q8_ELEMS);
    kg_dtype_info(KG_DTYPE_Q8_0)->decode(block, again, Q8_ELEMS);
    for (int i = 0; i < Q8_ELEMS; i++) ck_assert_float_eq(again[i], 0);
    for (int i = 0; i < Q8_ELEMS; i++) x[i] = 0x1p-24f * (float)(4 * i); /* scale 0.98 of it: rounds to 1 */
    kg_dtype_info(KG_DTYPE_Q8_0)->encode(x, block, Q8_ELEMS);
    kg_dtype_info(KG_DTYPE_Q8_0)->decode(block, again, Q8_ELEMS);
    for (int i = 0; i < Q8_ELEMS; i++) ck_assert_float_eq(again[i], x[i]);
}

static void unaligned_rows_of_blocks(struct kg_record *rec, const void *arg) {
    const struct kg_dtype_info *info = arg;
    enum { N = 96 };
    struct kg_rng rng;
    float x[N], whole[N], part[32];
    uint8_t bytes[N * 4 + 1], one[32 * 4 + 1];
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int i = 0; i < N; i++)
        x[i] = (float)(kg_rng_normal(&rng) * (i < 32 ? 1 : i < 64 ? 100 : 0.01)); /* scales differ by block */
    info->encode(x, bytes + 1, N);
    info->decode(bytes + 1, whole, N);
    for (int b = 0; b < N / 32; b++) {
        info->encode(x + 32 * b, one + 1, 32);
        info->decode(one + 1, part, 32);
        ck_assert_mem_eq(part, whole + 32 * b, sizeof part);
    }
    info->encode(x, bytes, 0);
    info->decode(bytes, whole, 0);
}

static void build(struct kg_case_list *list) {
    for (int d = 0; d < KG_DTYPE_COUNT; d++) {
        const struct kg_dtype_info *info = kg_dtype_info((enum kg_dtype)d);
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "dtype",
                                                  .name = "as_the_gguf_package_decodes",
                                                  .dtype = info->name,
                                                  .run = as_the_gguf_package_decodes,
                                                  .arg = info });
        if (info->block_elems <= 32) /* larger ones: test_encode_blocks.c */
            kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                      .op = "dtype",
                                                      .name = "unaligned_rows_of_blocks",
                                                      .dtype = info->name,
                                                      .run = unaligned_rows_of_blocks,
                                                      .arg = info });
    }
    const struct kg_case cases[] = {
        { .name = "rounded_as_others_round",
          .dtype = "F16",
          .run = rounded_as_others_round,
          .arg = kg_dtype_info(KG_DTYPE_F16) },
        { .name = "rounded_as_others_round",
          .dtype = "BF16",
          .run = rounded_as_others_round,
          .arg = kg_dtype_info(KG_DTYPE_BF16) },
        { .name = "all_values", .dtype = "F16", .run = all_f16_values },
        { .name = "signalling_nan_among_numbers", .dtype = "F16", .run = f16_signalling_nan_among_numbers },
        { .name = "all_values", .dtype = "BF16", .run = all_bf16_values },
        { .name = "ties_to_even", .dtype = "F16", .run = f16_ties_to_even },
        { .name = "ties_to_even", .dtype = "BF16", .run = bf16_ties_to_even },
        { .name = "table_by_id_and_name", .run = table_by_id_and_name },
        { .name = "refused_types", .run = refused_types },
        { .name = "nearest", .dtype = "Q8_0", .run = q8_0_nearest },
        { .name = "ties_to_even", .dtype = "Q8_0", .run = q8_0_ties_to_even },
        { .name = "zeros_and_least", .dtype = "Q8_0", .run = q8_0_zeros_and_least },
    };
    for (size_t i = 0; i < KG_COUNT_OF(cases); i++) {
        struct kg_case c = cases[i];
        c.layer = "unit", c.op = "dtype";
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(Q8_EDGES); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "dtype",
                                                  .name = Q8_EDGES[i].name,
                                                  .dtype = "Q8_0",
                                                  .run = q8_0_edge,
                                                  .arg = &Q8_EDGES[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
