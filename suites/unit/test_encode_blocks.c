/* Rounding to Q4_0, Q5_0, Q4_K, Q5_K and Q6_K: no worse than ggml's encoders on the same numbers, nothing lost of what
 * a format holds exactly, and what no scale can hold. */
#include "base/rng.h"
#include "base/size.h"
#include "format/dtype.h"
#include "suites/harness/case.h"
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { N = 1 << 16, N_KINDS = 5, BLOCK = 256, MOST_BYTES = 288 /* of 256 elements */ };

static float numbers[N];
static uint8_t bytes[N / BLOCK * MOST_BYTES];

/* Weights as models have them, and as they should not. */
static const char *const KINDS[N_KINDS] = { "normal", "uniform", "student_3", "outliers", "offset" };

static void draw(int kind, float *x) {
    struct kg_rng rng;
    kg_rng_init(&rng, 20261124, (uint64_t)kind);
    for (int i = 0; i < N; i++) {
        double v = kg_rng_normal(&rng);
        if (kind == 1) v = 2 * kg_rng_uniform(&rng) - 1;
        if (kind == 2) {
            const double a = kg_rng_normal(&rng), b = kg_rng_normal(&rng), c = kg_rng_normal(&rng);
            v /= sqrt((a * a + b * b + c * c) / 3);
        }
        if (kind == 3 && i % 200 == 0) v *= 20;
        if (kind == 4) v += 1.5;
        x[i] = (float)(0.02 * v);
    }
}

/* Root of sum (x - decoded)^2 / sum x^2. */
static double error_of(const struct kg_dtype_info *info, const float *x, size_t n) {
    float decoded[BLOCK];
    double error = 0, all = 0;
    info->encode(x, bytes, n);
    for (size_t at = 0; at < n; at += BLOCK) {
        info->decode(bytes + at / info->block_elems * info->block_bytes, decoded, BLOCK);
        for (size_t i = 0; i < BLOCK; i++) {
            const double e = (double)x[at + i] - (double)decoded[i];
            error += e * e;
            all += (double)x[at + i] * (double)x[at + i];
        }
    }
    return all > 0 ? sqrt(error / all) : error;
}

/* ggml: error_of the bytes that ggml_quantize_chunk (llama.cpp of August 2026, no importance matrix) makes of these
 * numbers. kigo: what its own leave, 0.90 to 0.99 of that. */
static const struct format {
    enum kg_dtype dtype;
    double ggml[N_KINDS], kigo[N_KINDS];
} FORMATS[] = {
    { KG_DTYPE_Q4_0,
      { 0.086642, 0.064929, 0.129913, 0.138884, 0.071052 },
      { 0.081612, 0.058835, 0.125397, 0.136991, 0.065698 } },
    { KG_DTYPE_Q5_0,
      { 0.042937, 0.031137, 0.065496, 0.084830, 0.035592 },
      { 0.040253, 0.028090, 0.063749, 0.084010, 0.032845 } },
    { KG_DTYPE_Q4_K,
      { 0.072106, 0.054463, 0.092348, 0.094133, 0.039592 },
      { 0.070533, 0.053593, 0.090101, 0.093109, 0.038946 } },
    { KG_DTYPE_Q5_K,
      { 0.036188, 0.027614, 0.046887, 0.048171, 0.019909 },
      { 0.034706, 0.026517, 0.044827, 0.046435, 0.019087 } },
    { KG_DTYPE_Q6_K,
      { 0.017805, 0.013582, 0.025291, 0.031506, 0.014993 },
      { 0.016924, 0.012656, 0.024372, 0.030904, 0.014263 } },
};

static void no_worse_than_ggml(struct kg_record *rec, const void *arg) {
    const struct format *f = arg;
    const struct kg_dtype_info *info = kg_dtype_info(f->dtype);
    for (int kind = 0; kind < N_KINDS; kind++) {
        draw(kind, numbers);
        const double error = error_of(info, numbers, N);
        kg_record_metric(rec, KINDS[kind], "relative rms", error);
        ck_assert_msg(error < f->ggml[kind], "%s: %.6g, ggml's encoder %.6g", KINDS[kind], error, f->ggml[kind]);
        ck_assert_msg(error < 1.0005 * f->kigo[kind], "%s: %.6g, was %.6g", KINDS[kind], error, f->kigo[kind]);
    }
}

/* Numbers that the format holds, both ends of its levels in every group and the largest scale in the first, come back
 * as they were. */
static void draw_held(const struct format *f, struct kg_rng *rng, float *x) {
    const bool affine = f->dtype == KG_DTYPE_Q4_K || f->dtype == KG_DTYPE_Q5_K, q6 = f->dtype == KG_DTYPE_Q6_K;
    const int group = q6 ? 16 : 32, n_levels = q6                                                       ? 64
                                               : f->dtype == KG_DTYPE_Q4_0 || f->dtype == KG_DTYPE_Q4_K ? 16
                                                                                                        : 32;
    const double d = 0x1p-9, d_min = 0x1.8p-8;
    int scale = 1, min = 0;
    for (int i = 0; i < BLOCK; i++) {
        if (i % group == 0 && affine)
            scale = i ? 1 + (int)kg_rng_below(rng, 63) : 63, min = i ? (int)kg_rng_below(rng, 64) : 63;
        if (i % group == 0 && q6) scale = i ? 1 + (int)kg_rng_below(rng, 127) : -128;
        const int at = i % group, q = at == 0 ? 0 : at == 1 ? n_levels - 1 : (int)kg_rng_below(rng, (uint64_t)n_levels);
        x[i] = (float)(d * scale * (affine ? q : q - n_levels / 2) - d_min * min);
    }
}

static void what_the_format_holds_comes_back(struct kg_record *rec, const void *arg) {
    enum { N_TRIES = 50 };
    const struct format *f = arg;
    struct kg_rng rng;
    float x[BLOCK];
    double worst = 0;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int i = 0; i < N_TRIES; i++) {
        draw_held(f, &rng, x);
        worst = fmax(worst, error_of(kg_dtype_info(f->dtype), x, BLOCK));
    }
    kg_record_metric(rec, "worst", "relative rms", worst);
    ck_assert_msg(worst <= 1e-6, "%.3g", worst); /* some roundings of float32 */
}

static void encode_decode(const struct kg_dtype_info *info, const float *x, float *y) {
    uint8_t block[MOST_BYTES];
    info->encode(x, block, BLOCK);
    info->decode(block, y, BLOCK);
}

static void fill(float *x, float even, float odd) {
    for (int i = 0; i < BLOCK; i++) x[i] = i % 2 ? odd : even;
}

static void what_no_scale_holds(struct kg_record *rec, const void *arg) {
    const struct format *f = arg;
    const struct kg_dtype_info *info = kg_dtype_info(f->dtype);
    static const float NOT_FINITE[] = { NAN, INFINITY, -INFINITY };
    float x[BLOCK], y[BLOCK];
    (void)rec;
    fill(x, 0, -0.0f);
    encode_decode(info, x, y);
    for (int i = 0; i < BLOCK; i++) ck_assert_float_eq(y[i], 0);
    for (size_t k = 0; k < KG_COUNT_OF(NOT_FINITE); k++) {
        fill(x, 1, -1);
        x[17] = NOT_FINITE[k];
        encode_decode(info, x, y);
        for (uint32_t i = 0; i < info->block_elems; i++) ck_assert(isnan(y[i]));
        for (uint32_t i = info->block_elems; i < BLOCK; i++) ck_assert(isfinite(y[i]));
    }
    fill(x, FLT_MAX, -FLT_MAX); /* beyond what f16 scales reach: as large as they do, of the right sign */
    encode_decode(info, x, y);
    for (int i = 0; i < BLOCK; i++) ck_assert(isfinite(y[i]) && (i % 2 ? y[i] < -9e4f : y[i] > 9e4f));
    fill(x, 1e-40f, -1e-40f); /* below: zero, or no further away */
    encode_decode(info, x, y);
    for (int i = 0; i < BLOCK; i++) ck_assert(fabsf(y[i] - x[i]) <= 1e-40f);
    static const float CONSTANTS[] = { 0.037f, -0.037f, 1, -1 };
    for (size_t k = 0; k < KG_COUNT_OF(CONSTANTS); k++) {
        fill(x, CONSTANTS[k], CONSTANTS[k]);
        encode_decode(info, x, y);
        for (int i = 0; i < BLOCK; i++) ck_assert_float_le(fabsf(y[i] - x[i]), 0.01f * fabsf(x[i]));
    }
    fill(x, 0, 0);
    x[100] = 5;
    encode_decode(info, x, y);
    for (int i = 0; i < BLOCK; i++) ck_assert_float_le(fabsf(y[i] - x[i]), i == 100 ? 0.05f : 0);
}

/* A block is rounded by itself, wherever its bytes lie. */
static void blocks_by_themselves(struct kg_record *rec, const void *arg) {
    enum { N_BLOCKS = 3 };
    const struct kg_dtype_info *info = kg_dtype_info(((const struct format *)arg)->dtype);
    float x[N_BLOCKS * BLOCK];
    uint8_t row[N_BLOCKS * MOST_BYTES + 1], one[MOST_BYTES];
    struct kg_rng rng;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int i = 0; i < N_BLOCKS * BLOCK; i++)
        x[i] = (float)(kg_rng_normal(&rng) * (i < BLOCK ? 1 : i < 2 * BLOCK ? 100 : 0.01));
    info->encode(x, row + 1, N_BLOCKS * BLOCK);
    const size_t size_bytes = BLOCK / info->block_elems * info->block_bytes;
    for (size_t b = 0; b < N_BLOCKS; b++) {
        info->encode(x + b * BLOCK, one, BLOCK);
        ck_assert_mem_eq(one, row + 1 + b * size_bytes, size_bytes);
    }
}

static void build(struct kg_case_list *list) {
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } RUNS[] = { { "no_worse_than_ggml", no_worse_than_ggml },
                 { "what_the_format_holds_comes_back", what_the_format_holds_comes_back },
                 { "what_no_scale_holds", what_no_scale_holds },
                 { "blocks_by_themselves", blocks_by_themselves } };
    for (size_t i = 0; i < KG_COUNT_OF(FORMATS); i++)
        for (size_t k = 0; k < KG_COUNT_OF(RUNS); k++)
            kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                      .op = "encode_blocks",
                                                      .name = RUNS[k].name,
                                                      .dtype = kg_dtype_info(FORMATS[i].dtype)->name,
                                                      .run = RUNS[k].run,
                                                      .arg = &FORMATS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
