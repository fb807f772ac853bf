#include "suites/support/float64_loops.h"
#include "base/buffer.h"
#include "base/clones.h"
#include <math.h>
#include <stdlib.h>

bool kg_loops_open(struct kg_record *rec, const struct kg_loops_mode *mode, struct kg_op_device *d) {
    return kg_op_device_open(rec, mode->backend, mode->ops ? mode->ops() : NULL, d);
}

void kg_loops_round(float *x, size_t n, enum kg_precision precision) {
    for (size_t i = 0; i < n && precision == KG_PRECISION_F16; i++) x[i] = kg_f16_to_f32(kg_f32_to_f16(x[i]));
}

enum kg_precision kg_loops_weight_precision(const struct kg_loops_mode *mode) {
    return mode->weight == KG_DTYPE_F16 ? KG_PRECISION_F16 : KG_PRECISION_F32;
}

void kg_loops_linear_run(struct kg_op_device *d, const struct kg_loops_mode *mode, const struct kg_loops_linear *l,
                         struct kg_op_output *y) {
    struct kg_error err;
    const size_t m = l->m, n = l->n, k = l->k;
    if (!mode->ops) kg_op_device_workspace(d, l->m, l->n > l->k ? l->n : l->k, 1, 1, 64, 64);
    kg_op_output_init(d, y, m * n, mode->output);
    const struct kg_linear_args args = {
        .activations = mode->activations,
        .output = mode->output,
        .x = kg_op_device_put_as(d, l->x, m * k, mode->activations),
        .weight = { kg_op_device_put_as(d, l->w, n * k, kg_loops_weight_precision(mode)), mode->weight, l->n, l->k },
        .bias = l->bias ? kg_op_device_put(d, l->bias, n * sizeof *l->bias) : NULL,
        .y = y->y,
        .n_rows = l->m,
        .workspace = d->workspace,
    };
    kg_op_expect_ok(d->backend->ops->linear(d->backend, &args, &err), &err);
}

/* Few operations are not worth threads. */
void kg_loops_on_all_processors(size_t n, double n_operations, void (*body)(void *, size_t, size_t), void *arg) {
    struct kg_error err;
    struct kg_thread_pool *pool = NULL;
    if (n_operations > 1e6) kg_op_expect_ok(kg_thread_pool_create(0, &pool, &err), &err);
    kg_parallel_for(pool, n, 1, body, arg);
    if (pool) kg_thread_pool_destroy(pool);
}

/* Partial sums of every eighth product, which vectors add at once, then their sum: always in this order. */
enum { LANES = 8 };
KG_VECTOR_CLONES static void dot(const float *restrict x, const float *restrict w, size_t k, double *restrict sum,
                                 double *restrict absolute) {
    double sums[LANES] = { 0 }, absolutes[LANES] = { 0 };
    const size_t whole = k - k % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t j = 0; j < LANES; j++) {
            const double product = (double)x[i + j] * (double)w[i + j];
            sums[j] += product;
            absolutes[j] += fabs(product);
        }
    for (size_t i = whole; i < k; i++) {
        const double product = (double)x[i] * (double)w[i];
        sums[i - whole] += product;
        absolutes[i - whole] += fabs(product);
    }
    *sum = *absolute = 0;
    for (size_t j = 0; j < LANES; j++) {
        *sum += sums[j];
        *absolute += absolutes[j];
    }
}

struct linear_job {
    const struct kg_loops_linear *l;
    double *sum, *absolute; /* (m, n) */
};

/* A row of weights, read from memory once, with every row of x. */
static void linear_outputs(void *arg, size_t begin, size_t end) {
    const struct linear_job *job = arg;
    const size_t m = job->l->m, n = job->l->n, k = job->l->k;
    for (size_t o = begin; o < end; o++)
        for (size_t r = 0; r < m; r++)
            dot(job->l->x + r * k, job->l->w + o * k, k, &job->sum[r * n + o], &job->absolute[r * n + o]);
}

/* Of limits by the largest output. */
static const char PROMISED[] = "what is promised to users; beside it each element is held to its own sums' error";

const char KG_LOOPS_WHY_LINEAR[] = "in units of (8 + sqrt K) 2^-24 sum|x w|: float32 sums of K products err by about "
                                   "sqrt(K) roundings, a few more for "
                                   "decoding; a float16 result is rounded by 2^-11 of product and of sum";

void kg_loops_linear(const struct kg_loops_mode *mode, const struct kg_loops_linear *l, double *sum, double *limit) {
    struct linear_job job = { l, sum, limit };
    kg_loops_on_all_processors(l->n, (double)l->m * l->n * l->k, linear_outputs, &job);
    const double sums = (8 + sqrt((double)l->k)) * KG_ROUNDOFF;
    for (size_t i = 0; i < (size_t)l->m * l->n; i++) {
        const double bias = l->bias ? (double)l->bias[i % l->n] : 0;
        sum[i] += bias;
        limit[i] = (limit[i] + fabs(bias)) * sums;
        if (mode->output == KG_PRECISION_F16)
            limit[i] += KG_ROUNDOFF_F16 * (2 * fabs(sum[i]) + fabs(bias)) + 2 * KG_ROUNDOFF_F16_ABS;
    }
}

double kg_loops_linear_margin(const struct kg_loops_mode *mode, const struct kg_loops_linear *l, const float *y) {
    const size_t count = (size_t)l->m * l->n;
    double *sum = kg_xcalloc(count, sizeof *sum), *limit = kg_xcalloc(count, sizeof *limit), margin = 0;
    kg_loops_linear(mode, l, sum, limit);
    for (size_t i = 0; i < count; i++) {
        const double share = fabs((double)y[i] - sum[i]) / limit[i];
        if (!(share <= margin)) margin = isfinite(share) ? share : INFINITY;
    }
    free(limit);
    free(sum);
    return margin;
}

void kg_loops_linear_judge(struct kg_record *rec, const struct kg_loops_mode *mode, const struct kg_loops_linear *l,
                           const float *y) {
    const size_t count = (size_t)l->m * l->n;
    const bool half = mode->activations == KG_PRECISION_F16;
    double *sum = kg_xcalloc(count, sizeof *sum), *limit = kg_xcalloc(count, sizeof *limit), largest = 0;
    float *got = kg_xcalloc(count, sizeof *got);
    kg_loops_linear(mode, l, sum, limit);
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs(sum[i]));
    const struct kg_tolerance whole = {
        .max_abs = largest * (half ? 1e-3 : 1e-4),
        .why =
            half ? "FP16 GEMM is within 1e-3 of its largest output" : "FP32 GEMM is within 1e-4 of its largest output",
        .far = PROMISED,
    };
    kg_expect_close_f64(rec, "linear_by_largest", y, sum, count, &whole);
    for (size_t i = 0; i < count; i++) {
        limit[i] = fmax(limit[i], 1e-300); /* products of zeros only: any error is then infinitely many limits */
        got[i] = (float)(((double)y[i] - sum[i]) / limit[i]);
        sum[i] = 0;
    }
    const struct kg_tolerance each = { .max_abs = 1, .why = KG_LOOPS_WHY_LINEAR, .far = kg_far_on_cpu(rec) };
    kg_expect_close_f64(rec, "linear", got, sum, count, &each);
    free(got);
    free(limit);
    free(sum);
}

void kg_loops_linear_case(struct kg_record *rec, const struct kg_loops_mode *mode, uint32_t m, uint32_t n, uint32_t k,
                          double mean, bool bias) {
    struct kg_op_device device;
    struct kg_op_output y;
    if (!kg_loops_open(rec, mode, &device)) return;
    const uint64_t seed = kg_record_seed(rec);
    float *x = kg_loops_normal((size_t)m * k, seed, mean, 1, mode->activations);
    float *w = kg_loops_normal((size_t)n * k, seed + 1, mean, 1, kg_loops_weight_precision(mode));
    float *b = kg_loops_normal(n, seed + 2, 0, 1, KG_PRECISION_F32);
    const struct kg_loops_linear l = { m, n, k, x, w, bias ? b : NULL };
    kg_loops_linear_run(&device, mode, &l, &y);
    kg_op_output_read_all(&device, &y, "linear");
    kg_loops_linear_judge(rec, mode, &l, y.host.data);
    kg_op_output_free(&y);
    free(b);
    free(w);
    free(x);
    kg_op_device_close(&device);
}

double kg_loops_attend(const float *q, const float *k, const float *v, size_t first, size_t last, size_t head_dim,
                       double scale, double *out, double *unit) {
    double *p = kg_xcalloc(last + 1, sizeof *p), largest = -INFINITY, total = 0;
    for (size_t j = first; j <= last; j++) {
        double products;
        dot(q, k + j * head_dim, head_dim, &p[j], &products);
        p[j] *= scale;
        *unit = fmax(*unit, products * scale);
        largest = fmax(largest, p[j]);
    }
    for (size_t j = first; j <= last; j++) total += p[j] = exp(p[j] - largest);
    for (size_t d = 0; d < head_dim; d++) out[d] = 0;
    for (size_t j = first; j <= last; j++) {
        const double weight = p[j] / total;
        for (size_t d = 0; d < head_dim; d++) out[d] += weight * (double)v[j * head_dim + d];
    }
    free(p);
    return largest + log(total);
}

void kg_loops_attention_init(const struct kg_loops_mode *mode, const struct kg_loops_attention *s, uint64_t seed,
                             struct kg_loops_attended *a) {
    *a = (struct kg_loops_attended){ .n_ctx = s->n_keys + 3 };
    a->n_q = (size_t)s->n_rows * s->n_heads * s->head_dim;
    a->n_cache = (size_t)s->n_kv_heads * a->n_ctx * s->head_dim;
    a->q = kg_loops_normal(a->n_q, seed, 0, 1, mode->activations);
    a->k = kg_loops_normal(a->n_cache, seed + 1, 0, 1, mode->kv);
    a->v = kg_loops_normal(a->n_cache, seed + 2, 0, 1, mode->kv);
    for (size_t h = 0; h < s->n_kv_heads; h++) /* slots past the keys must not be read */
        for (size_t i = (h * a->n_ctx + s->n_keys) * s->head_dim; i < (h + 1) * a->n_ctx * s->head_dim; i++)
            a->k[i] = a->v[i] = NAN;
}

static float scale_of(const struct kg_loops_attention *s) {
    return 1 / sqrtf((float)s->head_dim);
}

struct kg_attention_args kg_loops_attention_args(struct kg_op_device *d, const struct kg_loops_mode *mode,
                                                 const struct kg_loops_attention *s, struct kg_loops_attended *a) {
    if (!mode->ops)
        kg_op_device_workspace(d, s->n_rows, s->n_heads * s->head_dim, s->n_heads, s->n_kv_heads, s->head_dim,
                               a->n_ctx);
    kg_op_output_init(d, &a->y, a->n_q, mode->activations);
    return (struct kg_attention_args){
        .activations = mode->activations,
        .kv = mode->kv,
        .q = kg_op_device_put_as(d, a->q, a->n_q, mode->activations),
        .k_cache = kg_op_device_put_as(d, a->k, a->n_cache, mode->kv),
        .v_cache = kg_op_device_put_as(d, a->v, a->n_cache, mode->kv),
        .y = a->y.y,
        .n_rows = s->n_rows,
        .n_keys = s->n_keys,
        .n_heads = s->n_heads,
        .n_kv_heads = s->n_kv_heads,
        .head_dim = s->head_dim,
        .n_ctx = a->n_ctx,
        .scale = scale_of(s),
        .causal = true,
        .window = s->window,
        .workspace = d->workspace,
        .sinks = a->sinks ? kg_op_device_put(d, a->sinks, s->n_heads * sizeof *a->sinks) : NULL,
    };
}

void kg_loops_attention_run(struct kg_op_device *d, const struct kg_loops_mode *mode,
                            const struct kg_loops_attention *s, struct kg_loops_attended *a) {
    struct kg_error err;
    const struct kg_attention_args args = kg_loops_attention_args(d, mode, s, a);
    kg_op_expect_ok(d->backend->ops->attention(d->backend, &args, &err), &err);
    kg_op_output_read_all(d, &a->y, "attention");
}

struct attention_job {
    const struct kg_loops_attention *s;
    const struct kg_loops_attended *a;
    double *want, *unit; /* unit: of each row and head */
};

static void attention_heads(void *arg, size_t begin, size_t end) {
    const struct attention_job *job = arg;
    const struct kg_loops_attention *s = job->s;
    for (size_t i = begin; i < end; i++) {
        const size_t r = i / s->n_heads, h = i % s->n_heads, position = s->n_keys - s->n_rows + r;
        const size_t first = s->window && position + 1 > s->window ? position + 1 - s->window : 0;
        const size_t head = h / (s->n_heads / s->n_kv_heads) * job->a->n_ctx * s->head_dim, at = i * s->head_dim;
        const double sum = kg_loops_attend(job->a->q + at, job->a->k + head, job->a->v + head, first, position,
                                           s->head_dim, (double)scale_of(s), job->want + at, &job->unit[i]);
        for (size_t j = 0; j < s->head_dim && job->a->sinks; j++)
            job->want[at + j] /= 1 + exp((double)job->a->sinks[h] - sum);
    }
}

/* The right result (a->n_q, malloc'ed); *tol: how far an element may be from it. */
static double *attended(const struct kg_loops_mode *mode, const struct kg_loops_attention *s,
                        const struct kg_loops_attended *a, struct kg_tolerance *tol) {
    const size_t n_queries = (size_t)s->n_rows * s->n_heads;
    double *want = kg_xcalloc(a->n_q, sizeof *want), *units = kg_xcalloc(n_queries, sizeof *units);
    double unit = 0, largest = 0;
    struct attention_job job = { s, a, want, units };
    kg_loops_on_all_processors(n_queries, (double)a->n_q * s->n_keys, attention_heads, &job);
    for (size_t i = 0; i < n_queries; i++) unit = fmax(unit, units[i]);
    for (size_t i = 0; i < a->n_cache; i++)
        if (isfinite(a->v[i])) largest = fmax(largest, fabs((double)a->v[i]));
    const bool half = mode->activations == KG_PRECISION_F16, half_weights = half && mode->kv == KG_PRECISION_F16;
    const double logits = largest * (4 + unit) * 2 * KG_ROUNDOFF;
    const double weights = half_weights ? largest * (KG_ROUNDOFF_F16 + s->n_keys * KG_ROUNDOFF_F16_ABS) : 0;
    *tol = (struct kg_tolerance){
        .mixed_abs = logits + weights + (half ? KG_ROUNDOFF_F16_ABS : 0),
        .mixed_rel = half ? KG_ROUNDOFF_F16 : 0,
        .why = half ? "float32 logits, weights rounded to float16 (2^-11 of the largest value), the result rounded once"
                    : "a logit errs by a few roundings of sum|q k| scale, and moves its weight by that share; weights "
                      "sum to 1",
    };
    free(units);
    return want;
}

void kg_loops_attention_judge(struct kg_record *rec, const struct kg_loops_mode *mode,
                              const struct kg_loops_attention *s, const struct kg_loops_attended *a) {
    struct kg_tolerance tol;
    double *want = attended(mode, s, a, &tol), furthest = 0;
    for (size_t i = 0; i < a->n_q; i++) furthest = fmax(furthest, fabs(want[i]));
    const bool half = mode->activations == KG_PRECISION_F16;
    const struct kg_tolerance whole = {
        .max_abs = furthest * (half ? 1e-2 : 1e-4),
        .why = half ? "FP16 attention is within 1e-2 of its largest output"
                    : "FP32 attention is within 1e-4 of its largest output",
        .far = PROMISED,
    };
    kg_expect_close_f64(rec, "attention_by_largest", a->y.host.data, want, a->n_q, &whole);
    kg_expect_close_f64(rec, "attention", a->y.host.data, want, a->n_q, &tol);
    free(want);
}

double kg_loops_attention_margin(const struct kg_loops_mode *mode, const struct kg_loops_attention *s,
                                 const struct kg_loops_attended *a) {
    struct kg_tolerance tol;
    struct kg_compare compare;
    double margin, *want = attended(mode, s, a, &tol);
    kg_compare_f64(a->y.host.data, want, a->n_q, &compare);
    (void)kg_within(&compare, &tol, &margin);
    free(want);
    return margin;
}

void kg_loops_attention_free(struct kg_loops_attended *a) {
    if (a->y.block) kg_op_output_free(&a->y);
    free(a->v);
    free(a->k);
    free(a->q);
    *a = (struct kg_loops_attended){ 0 };
}

void kg_loops_attention_case(struct kg_record *rec, const struct kg_loops_mode *mode,
                             const struct kg_loops_attention *s) {
    struct kg_op_device device;
    struct kg_loops_attended a;
    if (!kg_loops_open(rec, mode, &device)) return;
    kg_loops_attention_init(mode, s, kg_record_seed(rec), &a);
    kg_loops_attention_run(&device, mode, s, &a);
    kg_loops_attention_judge(rec, mode, s, &a);
    kg_loops_attention_free(&a);
    kg_op_device_close(&device);
}
