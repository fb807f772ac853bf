#include "suites/support/sdpa_problem.h"
#include "base/buffer.h"
#include "base/rng.h"
#include "format/dtype.h"
#include "suites/support/float64_loops.h"
#include "suites/support/plain_f16.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kg_sdpa_problem_text(const struct kg_sdpa_problem_shape *s, char text[KG_SDPA_PROBLEM_TEXT]) {
    char lengths[32], window[24] = "";
    if (s->n_queries == s->n_keys) snprintf(lengths, sizeof lengths, "S=%u", s->n_keys);
    else snprintf(lengths, sizeof lengths, "Sq=%u Sk=%u", s->n_queries, s->n_keys);
    if (s->window) snprintf(window, sizeof window, " window=%u", s->window);
    snprintf(text, KG_SDPA_PROBLEM_TEXT, "B=%u H=%u/%u %s D=%u %s%s%s", s->n_batch, s->n_heads, s->n_kv_heads, lengths,
             s->head_dim, s->causal ? "causal" : "full", window, s->sinks ? " sinks" : "");
}

size_t kg_sdpa_at(const struct kg_sdpa_problem *p, const struct kg_sdpa_tensor *t, size_t batch, size_t head,
                  size_t row) {
    return ((batch * t->n_heads + head) * t->n_rows + row) * p->shape.head_dim;
}

/* Inputs. */

static void fill_tensor(struct kg_sdpa_problem *p, struct kg_sdpa_tensor *t, uint32_t n_heads, uint32_t n_rows,
                        enum kg_sdpa_data data, double deviation, uint64_t seed) {
    enum { ONE_IN = 1000, TIMES = 10 };
    const struct kg_sdpa_problem_shape *s = &p->shape;
    t->n = (size_t)s->n_batch * n_heads * n_rows * s->head_dim;
    t->n_heads = n_heads;
    t->n_rows = n_rows;
    t->original = kg_loops_normal(t->n, seed, 0, deviation, KG_PRECISION_F32);
    if (data != KG_SDPA_OUTLIERS || t->n == 0) return;
    struct kg_rng rng;
    kg_rng_init(&rng, seed, 1);
    for (size_t i = 0; i < (t->n + ONE_IN - 1) / ONE_IN; i++) t->original[kg_rng_below(&rng, t->n)] *= TIMES;
}

/* A sink weighs about as much as the keys together. */
static float *new_sinks(const struct kg_sdpa_problem_shape *s, uint64_t seed) {
    return s->sinks ? kg_loops_normal(s->n_heads, seed, log((double)s->n_keys + 1), 1, KG_PRECISION_F32) : NULL;
}

void kg_sdpa_problem_fill(struct kg_sdpa_problem *p, const struct kg_sdpa_problem_shape *s, enum kg_precision inputs,
                          enum kg_sdpa_data data, uint64_t seed) {
    *p = (struct kg_sdpa_problem){ .shape = *s, .inputs = inputs, .scale = 1 / sqrtf((float)s->head_dim) };
    fill_tensor(p, &p->q, s->n_heads, s->n_queries, data, 1, 4 * seed);
    fill_tensor(p, &p->k, s->n_kv_heads, s->n_keys, data, 1, 4 * seed + 1);
    fill_tensor(p, &p->v, s->n_kv_heads, s->n_keys, data, data == KG_SDPA_OUTLIERS ? 0.1 : 1, 4 * seed + 2);
    p->sinks = new_sinks(s, 4 * seed + 3);
}

static void quantize(const struct kg_sdpa_problem *p, struct kg_sdpa_tensor *t) {
    struct kg_error err;
    t->bytes = kg_xcalloc(t->n + 1, 1);
    t->scales = kg_xcalloc((size_t)p->shape.n_batch * t->n_heads, sizeof *t->scales);
    const struct kg_sdpa_strides dense = kg_sdpa_dense(t->n_heads, t->n_rows, p->shape.head_dim);
    const struct kg_sdpa_quantize_args args = {
        .input = KG_PRECISION_F32,
        .output = p->inputs,
        .x = t->original,
        .y = t->bytes,
        .x_strides = dense,
        .y_strides = dense,
        .scale = t->scales,
        .n_batch = p->shape.n_batch,
        .n_heads = t->n_heads,
        .n_rows = t->n_rows,
        .head_dim = p->shape.head_dim,
    };
    kg_op_expect_ok(kg_cpu_sdpa_quantize(NULL, &args, &err), &err);
    for (size_t i = 0; i < t->n; i++)
        t->values[i] = p->inputs == KG_PRECISION_F8 ? kg_e4m3_to_f32(t->bytes[i]) : (float)(int8_t)t->bytes[i];
}

void kg_sdpa_problem_round(struct kg_sdpa_problem *p) {
    struct kg_sdpa_tensor *const all[] = { &p->q, &p->k, &p->v };
    for (size_t i = 0; i < 3; i++) {
        struct kg_sdpa_tensor *t = all[i];
        t->values = kg_xcalloc(t->n + 1, sizeof *t->values);
        memcpy(t->values, t->original, t->n * sizeof *t->values);
        if (kg_precision_is_quantized(p->inputs)) quantize(p, t);
        else kg_loops_round(t->values, t->n, p->inputs);
    }
}

/* Answers. */

/* Keys [first, *last] that a query sees, by their positions one at a time. */
static bool seen_keys(const struct kg_sdpa_problem_shape *s, size_t query, size_t *first, size_t *last) {
    const int64_t position = (int64_t)s->n_keys - s->n_queries + (int64_t)query;
    bool any = false;
    for (int64_t j = 0; j < (int64_t)s->n_keys; j++) {
        if (s->causal && (j > position || (s->window && position - j >= (int64_t)s->window))) continue;
        if (!any) *first = (size_t)j;
        *last = (size_t)j;
        any = true;
    }
    return any;
}

bool kg_sdpa_sees(const struct kg_sdpa_problem *p, size_t query) {
    size_t first, last;
    return seen_keys(&p->shape, query, &first, &last);
}

struct job {
    const struct kg_sdpa_problem *p;
    bool original; /* inputs as they were, not the values */
    double *want;
};

static double scale_of(const struct job *job, const struct kg_sdpa_tensor *t, size_t batch, size_t head) {
    return t->scales && !job->original ? (double)t->scales[batch * t->n_heads + head] : 1;
}

static const float *row_of(const struct job *job, const struct kg_sdpa_tensor *t, size_t batch, size_t head,
                           size_t row) {
    return (job->original ? t->original : t->values) + kg_sdpa_at(job->p, t, batch, head, row);
}

static void solve_queries(void *arg, size_t begin, size_t end) {
    const struct job *job = arg;
    const struct kg_sdpa_problem *p = job->p;
    const struct kg_sdpa_problem_shape *s = &p->shape;
    for (size_t i = begin; i < end; i++) {
        const size_t query = i % s->n_queries, h = i / s->n_queries % s->n_heads, b = i / s->n_queries / s->n_heads;
        const size_t g = h * s->n_kv_heads / s->n_heads;
        double *want = job->want + i * s->head_dim, unit = 0;
        size_t first, last;
        if (!seen_keys(s, query, &first, &last)) continue; /* zeros */
        const double scale = p->scale * scale_of(job, &p->q, b, h) * scale_of(job, &p->k, b, g);
        const double log_sum =
            kg_loops_attend(row_of(job, &p->q, b, h, query), row_of(job, &p->k, b, g, 0), row_of(job, &p->v, b, g, 0),
                            first, last, s->head_dim, scale, want, &unit);
        const double kept = p->sinks ? 1 / (1 + exp((double)p->sinks[h] - log_sum)) : 1;
        for (size_t d = 0; d < s->head_dim; d++) want[d] *= kept * scale_of(job, &p->v, b, g);
    }
}

static double *new_answer(const struct kg_sdpa_problem *p, bool original) {
    const struct kg_sdpa_problem_shape *s = &p->shape;
    double *want = kg_xcalloc(p->n_want + 1, sizeof *want);
    struct job job = { p, original, want };
    kg_loops_on_all_processors(p->n_want / s->head_dim, (double)p->n_want * s->n_keys, solve_queries, &job);
    return want;
}

/* A plain FP16 implementation, a head at a time. */
struct plain_job {
    const struct kg_sdpa_problem *p;
    uint16_t *q, *k, *v, *y;
};

static void plain_heads(void *arg, size_t begin, size_t end) {
    const struct plain_job *job = arg;
    const struct kg_sdpa_problem *p = job->p;
    const struct kg_sdpa_problem_shape *s = &p->shape;
    for (size_t i = begin; i < end; i++) {
        const size_t b = i / s->n_heads, h = i % s->n_heads, g = h * s->n_kv_heads / s->n_heads;
        const struct kg_sdpa_strides one = kg_sdpa_dense(1, s->n_queries, s->head_dim);
        const struct kg_sdpa_strides kv = kg_sdpa_dense(1, s->n_keys, s->head_dim);
        const struct kg_sdpa_args args = {
            .inputs = KG_PRECISION_F16,
            .output = KG_PRECISION_F16,
            .q = job->q + kg_sdpa_at(p, &p->q, b, h, 0),
            .k = job->k + kg_sdpa_at(p, &p->k, b, g, 0),
            .v = job->v + kg_sdpa_at(p, &p->v, b, g, 0),
            .y = job->y + kg_sdpa_at(p, &p->q, b, h, 0),
            .q_strides = one,
            .k_strides = kv,
            .v_strides = kv,
            .y_strides = one,
            .sinks = p->sinks ? p->sinks + h : NULL,
            .n_batch = 1,
            .n_heads = 1,
            .n_kv_heads = 1,
            .n_queries = s->n_queries,
            .n_keys = s->n_keys,
            .head_dim = s->head_dim,
            .scale = p->scale,
            .causal = s->causal,
            .window = s->window,
        };
        struct kg_error err;
        kg_op_expect_ok(kg_plain_f16(KG_PLAIN_F16_BY_OPERATION)->sdpa(NULL, &args, &err), &err);
    }
}

static uint16_t *new_halves(const struct kg_sdpa_tensor *t) {
    uint16_t *halves = kg_xcalloc(t->n + 1, sizeof *halves);
    for (size_t i = 0; i < t->n; i++) halves[i] = kg_f32_to_f16(t->values[i]);
    return halves;
}

static void measure_plain(struct kg_sdpa_problem *p) {
    const struct kg_sdpa_problem_shape *s = &p->shape;
    struct plain_job job = { p, new_halves(&p->q), new_halves(&p->k), new_halves(&p->v), new_halves(&p->q) };
    float *got = kg_xcalloc(p->n_want + 1, sizeof *got);
    struct kg_compare compare;
    (void)kg_plain_f16(0); /* makes its tables, before there are threads */
    kg_loops_on_all_processors((size_t)s->n_batch * s->n_heads, (double)p->n_want * s->n_keys, plain_heads, &job);
    for (size_t i = 0; i < p->n_want; i++) got[i] = kg_f16_to_f32(job.y[i]);
    kg_compare_f64(got, p->want, p->n_want, &compare);
    /* Scores past 65504 are too large for it: then it sets no limit. */
    p->plain_max_abs = compare.n_nonfinite > 0 ? 0 : compare.max_abs;
    p->plain_nmse = compare.n_nonfinite > 0 ? 0 : compare.nmse;
    free(got);
    free(job.y);
    free(job.v);
    free(job.k);
    free(job.q);
}

void kg_sdpa_problem_solve(struct kg_sdpa_problem *p, bool with_original) {
    p->n_want = p->q.n;
    p->want = new_answer(p, false);
    if (with_original) p->want_original = new_answer(p, true);
    for (size_t i = 0; i < p->n_want; i++) p->largest = fmax(p->largest, fabs(p->want[i]));
    if (p->inputs == KG_PRECISION_F16) measure_plain(p);
}

void kg_sdpa_problem_free(struct kg_sdpa_problem *p) {
    struct kg_sdpa_tensor *const all[] = { &p->q, &p->k, &p->v };
    for (size_t i = 0; i < 3; i++) {
        free(all[i]->scales);
        free(all[i]->bytes);
        free(all[i]->values);
        free(all[i]->original);
    }
    free(p->want_original);
    free(p->want);
    free(p->sinks);
    *p = (struct kg_sdpa_problem){ 0 };
}

/* Judging. */

struct kg_tolerance kg_sdpa_tolerance(const struct kg_sdpa_problem *p, enum kg_precision output) {
    /* Where a plain implementation happens to lose nothing: weights and result may each be rounded once. */
    const double roundings = 2 * p->largest * KG_ROUNDOFF_F16 + KG_ROUNDOFF_F16_ABS;
    if (output == KG_PRECISION_F32)
        return (struct kg_tolerance){ .max_abs = fmax(p->largest, 1e-30) * 4 * KG_ROUNDOFF,
                                      .why = "sums in double, rounded once to float32: four times what that costs" };
    if (kg_precision_is_quantized(p->inputs))
        return (struct kg_tolerance){ .max_abs = 5e-3,
                                      .why = "8-bit attention is within 5e-3 of float64 on the dequantised inputs" };
    return (struct kg_tolerance){
        .max_abs = fmin(1e-2, fmax(2 * p->plain_max_abs, roundings)),
        .nmse = fmin(1e-6, fmax(4 * p->plain_nmse, 2 * KG_ROUNDOFF_F16 * KG_ROUNDOFF_F16)),
        .why = "FP16 attention is within 1e-2 of float64, its NMSE within 1e-6, and its error at most twice that of a "
               "plain FP16 implementation, or two roundings of the largest result",
    };
}

/* A query of every head. */
static bool is_zero(const struct kg_sdpa_problem *p, const float *got, size_t query) {
    const size_t dim = p->shape.head_dim, stride = p->shape.n_queries * dim;
    for (size_t i = query * dim; i < p->n_want; i += stride)
        for (size_t d = 0; d < dim; d++)
            if (got[i + d] != 0) return false;
    return true;
}

double kg_sdpa_margin(const struct kg_sdpa_problem *p, const float *got, const struct kg_tolerance *tol,
                      struct kg_compare *compare) {
    double margin;
    kg_compare_f64(got, p->want, p->n_want, compare);
    (void)kg_within(compare, tol, &margin);
    for (size_t query = 0; query < p->shape.n_queries; query++)
        if (!kg_sdpa_sees(p, query) && !is_zero(p, got, query)) return INFINITY;
    return margin;
}
