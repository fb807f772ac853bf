/* MXFP4 weights as a back end keeps them (repack_weight): products of experts, rows of an embedding, and that callers
 * cannot tell: a row's bits do not depend on the others, repacking twice is repacking once, and memory that is freed or
 * written anew is as any other. linear's shapes are in test_linear_formats.c. */
#include "base/buffer.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/support/op_cases.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct problem {
    uint32_t n_tokens, n_used, n_experts, n_out, n_in;
    enum kg_precision activations;
    bool shared, bias, repacked;
};

/* A weight of normal numbers, its first row times a factor; *values, malloc'ed, is what it decodes to. */
static struct kg_weight put_scaled(struct kg_op_device *d, uint32_t n_matrices, uint32_t n_rows, uint32_t n_cols,
                                   float first_row, bool repacked, uint64_t seed, float **values) {
    const struct kg_dtype_info *info = kg_dtype_info(KG_DTYPE_MXFP4);
    struct kg_weight w = { .dtype = KG_DTYPE_MXFP4, .n_rows = n_matrices * n_rows, .n_cols = n_cols };
    const size_t n = (size_t)w.n_rows * n_cols, n_bytes = w.n_rows * kg_weight_row_bytes(&w);
    float *v = kg_xcalloc(n, sizeof *v);
    void *bytes = kg_xmalloc(n_bytes);
    struct kg_error err;
    kg_fill_normal(v, n, seed, 0, 1);
    for (size_t i = 0; i < n_cols; i++) v[i] *= first_row;
    info->encode(v, bytes, n);
    info->decode(bytes, v, n);
    w.data = kg_op_device_put(d, bytes, n_bytes);
    if (repacked && d->backend->ops->repack_weight)
        kg_op_expect_ok(d->backend->ops->repack_weight(d->backend, &w, n_matrices, &err), &err);
    free(bytes);
    *values = v;
    return w;
}

static struct kg_weight put_weight(struct kg_op_device *d, uint32_t n_matrices, uint32_t n_rows, uint32_t n_cols,
                                   bool repacked, uint64_t seed, float **values) {
    return put_scaled(d, n_matrices, n_rows, n_cols, 1, repacked, seed, values);
}

/* y = x W[e]^T + bias[e] of the decoded weights, and the unit of its errors. */
static void reference_of(const struct problem *p, const float *x, const float *w, const float *bias, const int32_t *ids,
                         float *y, double *unit) {
    struct kg_error err;
    const uint32_t n_rows = p->n_tokens * p->n_used, n_sharing = p->shared ? p->n_used : 1;
    const struct kg_experts_linear_args exact = { .x = x,
                                                  .weight = { w, KG_DTYPE_F32, p->n_experts * p->n_out, p->n_in },
                                                  .n_experts = p->n_experts,
                                                  .bias = bias,
                                                  .ids = ids,
                                                  .y = y,
                                                  .n_rows = n_rows,
                                                  .n_sharing = n_sharing };
    kg_op_expect_ok(kg_cpu_experts_linear(NULL, &exact, &err), &err);
    for (uint32_t r = 0; r < n_rows; r++) {
        const size_t first = (size_t)ids[r] * p->n_out;
        double *of_row = kg_absolute_products(x + (size_t)(r / n_sharing) * p->n_in, w + first * p->n_in,
                                              bias ? bias + first : NULL, 1, p->n_out, p->n_in);
        for (uint32_t o = 0; o < p->n_out; o++) {
            double *u = &unit[(size_t)r * p->n_out + o];
            *u = of_row[o] * fmin(8 + sqrt((double)p->n_in), 16) * KG_ROUNDOFF;
            if (p->activations == KG_PRECISION_F16)
                *u += KG_ROUNDOFF_F16 * fabs((double)y[(size_t)r * p->n_out + o]) + KG_ROUNDOFF_F16_ABS;
        }
        free(of_row);
    }
}

static const char UNITS[] =
    "in units of at most 16, or 8 + sqrt K, 2^-24 sum|x w| for float32 sums of exact products, whose partial sums grow "
    "no faster than it, and one rounding of a float16 result";

static void experts(struct kg_record *rec, const void *arg) {
    const struct problem *p = arg;
    struct kg_op_device d;
    struct kg_error err;
    if (!kg_op_device_open(rec, "cuda", NULL, &d)) return;
    const uint32_t n_rows = p->n_tokens * p->n_used, n_sharing = p->shared ? p->n_used : 1;
    const size_t n_x = (size_t)n_rows / n_sharing * p->n_in, n_y = (size_t)n_rows * p->n_out;
    const size_t n_bias = (size_t)p->n_experts * p->n_out;
    float *values, *normal = kg_op_device_own(&d, kg_xcalloc(n_x, sizeof *normal));
    float *bias = kg_op_device_own(&d, kg_xcalloc(n_bias, sizeof *bias));
    int32_t *ids = kg_op_device_own(&d, kg_xcalloc(n_rows, sizeof *ids));
    struct kg_rng rng;
    kg_rng_init(&rng, kg_record_seed(rec), 3);
    kg_fill_normal(normal, n_x, kg_record_seed(rec), 0, 1);
    kg_fill_normal(bias, n_bias, kg_record_seed(rec) + 1, 0, 1);
    for (uint32_t r = 0; r < n_rows; r++) ids[r] = (int32_t)(kg_rng_u32(&rng) % p->n_experts);
    const float *x = kg_op_device_rounded(&d, normal, n_x, p->activations);
    const struct kg_weight weight =
        put_weight(&d, p->n_experts, p->n_out, p->n_in, p->repacked, kg_record_seed(rec) + 2, &values);
    kg_op_device_workspace(&d, n_rows, p->n_in > p->n_out ? p->n_in : p->n_out, 1, 1, 64, 64);
    struct kg_op_output y;
    kg_op_output_init(&d, &y, n_y, p->activations);
    const struct kg_experts_linear_args args = {
        .activations = p->activations,
        .x = kg_op_device_put_as(&d, x, n_x, p->activations),
        .weight = weight,
        .n_experts = p->n_experts,
        .bias = p->bias ? kg_op_device_put(&d, bias, n_bias * sizeof *bias) : NULL,
        .ids = kg_op_device_put(&d, ids, n_rows * sizeof *ids),
        .y = y.y,
        .n_rows = n_rows,
        .n_sharing = n_sharing,
        .workspace = d.workspace,
    };
    kg_op_expect_ok(d.backend->ops->experts_linear(d.backend, &args, &err), &err);
    kg_op_output_read_all(&d, &y, "experts_linear");
    float *want = kg_xcalloc(n_y, sizeof *want);
    double *unit = kg_xcalloc(n_y, sizeof *unit), *want_in_units = kg_xcalloc(n_y, sizeof *want_in_units);
    reference_of(p, x, values, p->bias ? bias : NULL, ids, want, unit);
    for (size_t i = 0; i < n_y; i++) {
        want_in_units[i] = (double)want[i] / unit[i];
        want[i] = (float)((double)y.host.data[i] / unit[i]);
    }
    const struct kg_tolerance tol = {
        .max_abs = 1,
        .why = UNITS,
        .far = kg_far_on_cpu(rec),
    };
    kg_expect_close_f64(rec, "experts_linear", want, want_in_units, n_y, &tol);
    kg_op_output_free(&y);
    free(want_in_units);
    free(unit);
    free(want);
    free(values);
    kg_op_device_close(&d);
}

/* Scales of one row are past one end of those that a product of many rows may add to float16 exponents, all others
 * within: too large ones alone, and too small ones alone. */
static void scales_past_one_end(struct kg_record *rec, const void *arg) {
    enum { M = 150, N = 272, K = 704 };
    static const float FIRST_ROWS[] = { 0x1p12f, 0x1p-24f };
    (void)arg;
    struct kg_op_device d;
    struct kg_error err;
    if (!kg_op_device_open(rec, "cuda", NULL, &d)) return;
    const struct problem p = { M, 1, 1, N, K, KG_PRECISION_F32, false, false, true };
    static int32_t ids[M];
    static float want[M * N];
    static double unit[M * N], in_units[M * N];
    for (size_t i = 0; i < KG_COUNT_OF(FIRST_ROWS); i++) {
        float *values, *normal = kg_op_device_own(&d, kg_xcalloc((size_t)M * K, sizeof *normal));
        kg_fill_normal(normal, (size_t)M * K, kg_record_seed(rec) + i, 0, 1);
        const float *x = kg_op_device_rounded(&d, normal, (size_t)M * K, KG_PRECISION_F16);
        const struct kg_weight w = put_scaled(&d, 1, N, K, FIRST_ROWS[i], true, kg_record_seed(rec) + 7 + i, &values);
        struct kg_op_output y;
        kg_op_device_workspace(&d, M, K, 1, 1, 64, 64);
        kg_op_output_init(&d, &y, M * N, KG_PRECISION_F32);
        const struct kg_linear_args args = { .activations = KG_PRECISION_F16,
                                             .output = KG_PRECISION_F32,
                                             .x = kg_op_device_put_as(&d, x, (size_t)M * K, KG_PRECISION_F16),
                                             .weight = w,
                                             .y = y.y,
                                             .n_rows = M,
                                             .workspace = d.workspace };
        kg_op_expect_ok(d.backend->ops->linear(d.backend, &args, &err), &err);
        kg_op_output_read_all(&d, &y, "linear");
        reference_of(&p, x, values, NULL, ids, want, unit);
        for (size_t j = 0; j < KG_COUNT_OF(want); j++) {
            in_units[j] = (double)want[j] / unit[j];
            want[j] = (float)((double)y.host.data[j] / unit[j]);
        }
        const struct kg_tolerance tol = { .max_abs = 1, .why = UNITS, .far = kg_far_on_cpu(rec) };
        kg_expect_close_f64(rec, i ? "too small" : "too large", want, in_units, KG_COUNT_OF(want), &tol);
        kg_op_output_free(&y);
        free(values);
        kg_op_device_clear(&d);
    }
    kg_op_device_close(&d);
}

/* linear of `m` rows from x's row `first` on. */
static void multiply(struct kg_op_device *d, const struct kg_weight *w, const char *x, uint32_t first, uint32_t m,
                     struct kg_op_output *y) {
    struct kg_error err;
    kg_op_output_init(d, y, (size_t)m * w->n_rows, KG_PRECISION_F16);
    const struct kg_linear_args args = { .activations = KG_PRECISION_F16,
                                         .output = KG_PRECISION_F16,
                                         .x = x + (size_t)first * w->n_cols * sizeof(uint16_t),
                                         .weight = *w,
                                         .y = y->y,
                                         .n_rows = m,
                                         .workspace = d->workspace };
    kg_op_expect_ok(d->backend->ops->linear(d->backend, &args, &err), &err);
    kg_op_output_read_all(d, y, "linear");
}

static void expect_rows(const struct kg_op_output *some, const struct kg_op_output *all, uint32_t first, size_t n_out) {
    for (size_t i = 0; i < some->host.n; i++)
        ck_assert_msg(kg_same_bits(some->host.data[i], all->host.data[first * n_out + i]),
                      "row %zu, output %zu: %.9g, with other rows %.9g", first + i / n_out, i % n_out,
                      (double)some->host.data[i], (double)all->host.data[first * n_out + i]);
}

/* Decoding a sequence alone, or beside others: the same ids. */
static void few_rows_are_the_same_alone(struct kg_record *rec, const void *arg) {
    enum { M = 16, N = 272, K = 704 };
    (void)arg;
    struct kg_op_device d;
    if (!kg_op_device_open(rec, "cuda", NULL, &d)) return;
    float *values, *x = kg_op_device_own(&d, kg_xcalloc((size_t)M * K, sizeof *x));
    kg_fill_normal(x, (size_t)M * K, kg_record_seed(rec), 0, 1);
    const char *put = kg_op_device_put_as(&d, x, (size_t)M * K, KG_PRECISION_F16);
    const struct kg_weight w = put_weight(&d, 1, N, K, true, 5, &values);
    static const uint32_t PARTS[][2] = { { 0, 1 }, { 15, 1 }, { 3, 7 }, { 8, 8 }, { 2, 11 } };
    struct kg_op_output all, some;
    multiply(&d, &w, put, 0, M, &all);
    for (size_t i = 0; i < KG_COUNT_OF(PARTS); i++) {
        multiply(&d, &w, put, PARTS[i][0], PARTS[i][1], &some);
        expect_rows(&some, &all, PARTS[i][0], N);
        kg_op_output_free(&some);
    }
    kg_op_output_free(&all);
    free(values);
    kg_op_device_close(&d);
}

/* Repacked again (a tied embedding is the output too), and multiplied by many rows twice: the same bits. */
static void repacking_twice_is_once(struct kg_record *rec, const void *arg) {
    enum { M = 150, N = 272, K = 704 };
    (void)arg;
    struct kg_op_device d;
    struct kg_error err;
    if (!kg_op_device_open(rec, "cuda", NULL, &d)) return;
    float *values, *x = kg_op_device_own(&d, kg_xcalloc((size_t)M * K, sizeof *x));
    kg_fill_normal(x, (size_t)M * K, kg_record_seed(rec), 0, 1);
    const char *put = kg_op_device_put_as(&d, x, (size_t)M * K, KG_PRECISION_F16);
    struct kg_weight w = put_weight(&d, 1, N, K, true, 5, &values);
    kg_op_device_workspace(&d, M, K, 1, 1, 64, 64);
    struct kg_op_output once, twice;
    multiply(&d, &w, put, 0, M, &once);
    kg_op_expect_ok(d.backend->ops->repack_weight(d.backend, &w, 1, &err), &err);
    multiply(&d, &w, put, 0, M, &twice);
    expect_rows(&twice, &once, 0, N);
    kg_op_output_free(&twice);
    kg_op_output_free(&once);
    free(values);
    kg_op_device_close(&d);
}

/* The same memory holding rows as a file has them again. */
static void memory_written_anew_is_not_repacked(struct kg_record *rec, const void *arg) {
    enum { M = 3, N = 64, K = 128 };
    (void)arg;
    struct kg_op_device d;
    struct kg_error err;
    if (!kg_op_device_open(rec, "cuda", NULL, &d)) return;
    float *values, *other, *x = kg_op_device_own(&d, kg_xcalloc((size_t)M * K, sizeof *x));
    kg_fill_normal(x, (size_t)M * K, kg_record_seed(rec), 0, 1);
    const char *put = kg_op_device_put_as(&d, x, (size_t)M * K, KG_PRECISION_F16);
    const struct kg_weight repacked = put_weight(&d, 1, N, K, true, 5, &values),
                           plain = put_weight(&d, 1, N, K, false, 6, &other);
    const size_t n_bytes = N * kg_weight_row_bytes(&plain);
    struct kg_op_output want, got;
    void *bytes = kg_op_device_own(&d, kg_xmalloc(n_bytes));
    kg_op_expect_ok(d.backend->ops->download(d.backend, bytes, plain.data, n_bytes, &err), &err);
    kg_op_expect_ok(d.backend->ops->upload(d.backend, (void *)repacked.data, bytes, n_bytes, &err), &err);
    multiply(&d, &plain, put, 0, M, &want);
    multiply(&d, &repacked, put, 0, M, &got);
    expect_rows(&got, &want, 0, N);
    kg_op_output_free(&got);
    kg_op_output_free(&want);
    free(other);
    free(values);
    kg_op_device_close(&d);
}

/* Rows looked up are the bits that the format's decoder gives. */
static void embedding_rows(struct kg_record *rec, const void *arg) {
    enum { VOCAB = 80, COLS = 192, ROWS = 5 };
    (void)arg;
    static const int32_t IDS[ROWS] = { 0, 79, 8, 17, 8 };
    struct kg_op_device d;
    struct kg_error err;
    float *values;
    if (!kg_op_device_open(rec, "cuda", NULL, &d)) return;
    struct kg_op_output y;
    kg_op_output_init(&d, &y, ROWS * COLS, KG_PRECISION_F32);
    const struct kg_embedding_args args = { .weight = put_weight(&d, 1, VOCAB, COLS, true, 5, &values),
                                            .ids = kg_op_device_put(&d, IDS, sizeof IDS),
                                            .n_rows = ROWS,
                                            .y = y.y };
    kg_op_expect_ok(d.backend->ops->embedding(d.backend, &args, &err), &err);
    kg_op_output_read_all(&d, &y, "embedding");
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        ck_assert_msg(kg_same_bits(y.host.data[i], values[(size_t)IDS[i / COLS] * COLS + i % COLS]),
                      "row %zu, column %zu", i / COLS, i % COLS);
    kg_op_output_free(&y);
    free(values);
    kg_op_device_close(&d);
}

/* One token and 16 (matrix-vector products), a prefill whose experts have less and more than a tile of rows; the most
 * rows of one matrix-vector product, whose blocks go from one expert's outputs on to the next's. Each with tiles and
 * with rows as a file has them. */
static const struct {
    uint32_t n_tokens, n_used, n_experts, n_out, n_in;
} SHAPES[] = { { 1, 4, 32, 96, 576 },  { 16, 4, 32, 112, 128 }, { 3, 2, 4, 48, 64 },    { 180, 4, 8, 304, 320 },
               { 70, 4, 32, 64, 192 }, { 300, 1, 2, 32, 64 },   { 32, 4, 32, 1584, 64 } };

static void build(struct kg_case_list *cases) {
    static struct problem problems[KG_COUNT_OF(SHAPES) * 4];
    size_t n = 0;
    for (size_t i = 0; i < KG_COUNT_OF(SHAPES); i++)
        for (int way = 0; way < 4; way++, n++) {
            const bool repacked = way % 2 == 0, half = way / 2 == 0;
            char shape[80];
            problems[n] =
                (struct problem){ SHAPES[i].n_tokens, SHAPES[i].n_used, SHAPES[i].n_experts,
                                  SHAPES[i].n_out,    SHAPES[i].n_in,   half ? KG_PRECISION_F16 : KG_PRECISION_F32,
                                  i % 2 == 0,         i % 3 != 1,       repacked };
            snprintf(shape, sizeof shape, "tokens=%u used=%u experts=%u N=%u K=%u", SHAPES[i].n_tokens,
                     SHAPES[i].n_used, SHAPES[i].n_experts, SHAPES[i].n_out, SHAPES[i].n_in);
            kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                                       .op = "experts_linear",
                                                       .name = repacked ? "mxfp4_arranged" : "mxfp4",
                                                       .backend = "cuda",
                                                       .dtype = half ? "f16" : "f32",
                                                       .shape = shape,
                                                       .run = experts,
                                                       .arg = &problems[n] });
        }
    static const struct {
        const char *op, *name;
        void (*run)(struct kg_record *, const void *);
    } OTHERS[] = { { "linear", "few_rows_are_the_same_alone", few_rows_are_the_same_alone },
                   { "linear", "arranging_twice_is_once", repacking_twice_is_once },
                   { "linear", "memory_written_anew_is_not_arranged", memory_written_anew_is_not_repacked },
                   { "linear", "scales_past_one_end", scales_past_one_end },
                   { "embedding", "arranged_rows", embedding_rows } };
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++)
        kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                                   .op = OTHERS[i].op,
                                                   .name = OTHERS[i].name,
                                                   .backend = "cuda",
                                                   .dtype = "mxfp4",
                                                   .run = OTHERS[i].run });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
