/* Attention over a cache that kv_write has filled in pieces, larger than its keys, the rest poisoned. */
#include "base/buffer.h"
#include "suites/support/op_cases.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPARE_POSITIONS = 13 };

/* Appends n keys and values in pieces of 1, then 5, then what is left. */
static void fill_cache(struct kg_op_case *c, struct kg_kv_write_args args, const void *k, const void *v, uint32_t n) {
    struct kg_error err;
    const size_t row = (size_t)args.n_kv_heads * args.head_dim * kg_precision_bytes(args.activations);
    const uint32_t pieces[] = { 1, 5, n };
    for (size_t i = 0; args.position < n; i++) {
        const uint32_t left = n - args.position, piece = pieces[i < 2 ? i : 2];
        args.n_rows = piece < left ? piece : left;
        args.k = (const char *)k + args.position * row;
        args.v = (const char *)v + args.position * row;
        kg_op_expect_ok(c->device.backend->ops->kv_write(c->device.backend, &args, &err), &err);
        args.position += args.n_rows;
    }
}

/* Every slot of the cache: (head, position) holds the row's bits, positions from n on are still poison. */
static void expect_cache(const char *name, const struct kg_op_output *cache, const float *rows, uint32_t n,
                         uint32_t n_ctx, uint32_t n_kv_heads, uint32_t head_dim) {
    for (size_t h = 0; h < n_kv_heads; h++)
        for (size_t p = 0; p < n_ctx; p++)
            for (size_t d = 0; d < head_dim; d++) {
                const float got = cache->host.data[(h * n_ctx + p) * head_dim + d];
                const bool good = p < n ? got == rows[(p * n_kv_heads + h) * head_dim + d] : isnan(got);
                if (!good) ck_abort_msg("%s: head %zu, position %zu, dim %zu holds %.9g", name, h, p, d, got);
            }
}

/* The largest sum_d |q[d] k[d]| scale of any query with any key: the unit of a logit's rounding error. */
static double largest_products(const float *q, const float *k, const struct kg_attention_args *a) {
    double largest = 0;
    const uint32_t group = a->n_heads / a->n_kv_heads;
    for (size_t r = 0; r < a->n_rows; r++)
        for (size_t h = 0; h < a->n_heads; h++)
            for (size_t j = 0; j < a->n_keys; j++) {
                const float *x = q + (r * a->n_heads + h) * a->head_dim;
                const float *y = k + (j * a->n_kv_heads + h / group) * a->head_dim;
                double sum = 0;
                for (size_t d = 0; d < a->head_dim; d++) sum += fabs((double)x[d] * (double)y[d]);
                largest = fmax(largest, sum * a->scale);
            }
    return largest;
}

/* One query at a time, as decoding does: the same bits as all at once on cpu; on a GPU, where decoding is another
 * kernel, within the same tolerance. */
static void expect_rows_alone(struct kg_op_case *c, struct kg_attention_args args, const struct kg_op_output *all,
                              const float *reference, const struct kg_tolerance *tol) {
    struct kg_error err;
    const uint32_t n_rows = args.n_rows, n_keys = args.n_keys;
    const size_t row = (size_t)args.n_heads * args.head_dim, row_bytes = row * kg_precision_bytes(c->activations);
    const char *q = args.q;
    struct kg_op_output y;
    kg_op_output_init(&c->device, &y, all->host.n, c->activations);
    for (uint32_t r = 0; r < n_rows; r++) {
        args.n_rows = 1;
        args.n_keys = args.causal ? n_keys - n_rows + r + 1 : n_keys;
        args.q = q + r * row_bytes;
        args.y = (char *)y.y + r * row_bytes;
        kg_op_expect_ok(c->device.backend->ops->attention(c->device.backend, &args, &err), &err);
    }
    kg_op_output_read_all(&c->device, &y, "rows alone");
    if (strcmp(kg_backend_name(c->device.backend), "cpu") == 0) kg_op_expect_same_bits("rows alone", &y, all);
    else kg_op_case_judge(c, "rows_alone", &y, n_rows, row, reference, NULL, tol);
    kg_op_output_free(&y);
}

/* Rows (n, heads, head_dim) as a cache lies: (heads, n_ctx, head_dim), NaN from n on. */
static float *new_cache(struct kg_op_case *c, const float *rows, const struct kg_attention_args *a) {
    const size_t dim = a->head_dim, n_ctx = a->n_ctx, n_heads = a->n_kv_heads;
    float *cache = kg_op_device_own(&c->device, kg_xcalloc(n_heads * n_ctx * dim, sizeof *cache));
    for (size_t h = 0; h < n_heads; h++)
        for (size_t p = 0; p < n_ctx; p++)
            for (size_t d = 0; d < dim; d++)
                cache[(h * n_ctx + p) * dim + d] = p < a->n_keys ? rows[(p * n_heads + h) * dim + d] : NAN;
    return cache;
}

/* What the cpu back end makes of rounded q, k and v; NULL where nothing is rounded. */
static float *new_reference(struct kg_op_case *c, struct kg_attention_args args, const float *q, const float *k,
                            const float *v, const float *sinks) {
    struct kg_error err;
    if (c->activations == KG_PRECISION_F32 && c->kv == KG_PRECISION_F32) return NULL;
    const size_t n = (size_t)args.n_rows * args.n_heads * args.head_dim;
    float *reference = kg_op_device_own(&c->device, kg_xcalloc(n, sizeof *reference));
    args.activations = args.kv = KG_PRECISION_F32;
    args.q = q;
    args.k_cache = new_cache(c, k, &args);
    args.v_cache = new_cache(c, v, &args);
    args.y = reference;
    args.sinks = sinks;
    kg_op_expect_ok(kg_cpu_attention(NULL, &args, &err), &err);
    return reference;
}

/* Errors of a row: logits in float32; for f16 activations over an f16 cache also weights rounded to float16 for the
 * tensor cores, each by 2^-11 of itself or, the smallest, by 2^-25. */
static struct kg_tolerance tolerance(const struct kg_op_case *c, const float *q, const float *k, const float *v,
                                     const struct kg_attention_args *a) {
    const double largest = kg_largest(v, (size_t)a->n_keys * a->n_kv_heads * a->head_dim);
    const bool half = c->activations == KG_PRECISION_F16 && c->kv == KG_PRECISION_F16;
    const double weights = half ? KG_ROUNDOFF_F16 + a->n_keys * KG_ROUNDOFF_F16_ABS : 0;
    return kg_op_case_tolerance(
        c, 0, largest * ((4 + largest_products(q, k, a)) * 2 * KG_ROUNDOFF + weights),
        "a logit errs by a few roundings of sum|q k| scale, and moves its weight by that share; weights sum to 1",
        "float32 logits and sums, weights rounded to float16 (2^-11 of the largest value), the result rounded once");
}

void kg_op_case_attention(struct kg_op_case *c) {
    struct kg_error err;
    size_t n_rows, q_cols, n_keys, kv_cols, n_values, v_cols;
    const float *q = kg_op_case_input(c, "q", &n_rows, &q_cols);
    const float *k = kg_op_case_input(c, "k", &n_keys, &kv_cols);
    const float *v = kg_op_case_input(c, "v", &n_values, &v_cols);
    const float *k_kept = kg_op_device_rounded(&c->device, k, n_keys * kv_cols, c->kv);
    const float *v_kept = kg_op_device_rounded(&c->device, v, n_values * v_cols, c->kv);
    const float *sinks = NULL;
    size_t sink_rows, n_sinks = 0;
    if (kg_golden_has(c->golden, "sinks")) sinks = kg_golden_f32(c->golden, "sinks", &sink_rows, &n_sinks);
    struct kg_attention_args args = {
        .activations = c->activations,
        .kv = c->kv,
        .n_rows = (uint32_t)n_rows,
        .n_keys = (uint32_t)n_keys,
        .n_heads = (uint32_t)kg_golden_int(c->golden, "n_heads"),
        .n_kv_heads = (uint32_t)kg_golden_int(c->golden, "n_kv_heads"),
        .head_dim = (uint32_t)kg_golden_int(c->golden, "head_dim"),
        .n_ctx = (uint32_t)n_keys + SPARE_POSITIONS,
        .scale = kg_golden_float(c->golden, "scale"),
        .causal = kg_golden_int(c->golden, "causal") != 0,
        .window = (uint32_t)kg_golden_int(c->golden, "window"),
        .sinks = sinks ? kg_op_device_put(&c->device, sinks, n_sinks * sizeof *sinks) : NULL,
    };
    if (sinks) ck_assert_uint_eq(n_sinks, args.n_heads);
    ck_assert_uint_eq(q_cols, (size_t)args.n_heads * args.head_dim);
    ck_assert_uint_eq(kv_cols, (size_t)args.n_kv_heads * args.head_dim);
    ck_assert(n_values == n_keys && v_cols == kv_cols);
    ck_assert_int_eq((int)(n_keys - n_rows), kg_golden_int(c->golden, "n_past"));
    kg_op_device_workspace(&c->device, args.n_rows, (uint32_t)q_cols, args.n_heads, args.n_kv_heads, args.head_dim,
                           args.n_ctx);
    struct kg_op_output k_cache, v_cache, y;
    const size_t cache_elems = kv_cols * args.n_ctx;
    kg_op_output_init(&c->device, &k_cache, cache_elems, c->kv);
    kg_op_output_init(&c->device, &v_cache, cache_elems, c->kv);
    kg_op_output_init(&c->device, &y, n_rows * q_cols, c->activations);
    const struct kg_kv_write_args write = {
        .activations = c->activations,
        .kv = c->kv,
        .k_cache = k_cache.y,
        .v_cache = v_cache.y,
        .n_kv_heads = args.n_kv_heads,
        .head_dim = args.head_dim,
        .n_ctx = args.n_ctx,
    };
    fill_cache(c, write, kg_op_device_put_as(&c->device, k, n_keys * kv_cols, c->activations),
               kg_op_device_put_as(&c->device, v, n_keys * kv_cols, c->activations), args.n_keys);
    kg_op_output_read(&c->device, &k_cache);
    kg_op_output_read(&c->device, &v_cache);
    expect_cache("k cache", &k_cache, k_kept, args.n_keys, args.n_ctx, args.n_kv_heads, args.head_dim);
    expect_cache("v cache", &v_cache, v_kept, args.n_keys, args.n_ctx, args.n_kv_heads, args.head_dim);

    args.q = kg_op_device_put_as(&c->device, q, n_rows * q_cols, c->activations);
    args.k_cache = k_cache.y;
    args.v_cache = v_cache.y;
    args.y = y.y;
    args.workspace = c->device.workspace;
    kg_op_expect_ok(c->device.backend->ops->attention(c->device.backend, &args, &err), &err);
    kg_op_output_read_all(&c->device, &y, "attention");
    const float *reference = new_reference(c, args, q, k_kept, v_kept, sinks);
    const struct kg_tolerance tol = tolerance(c, q, k_kept, v_kept, &args);
    kg_op_case_judge(c, "attention", &y, n_rows, q_cols, reference, NULL, &tol);
    if (!c->margin) expect_rows_alone(c, args, &y, reference, &tol); /* a wrong operation need not agree with itself */
    kg_op_output_free(&y);
    kg_op_output_free(&v_cache);
    kg_op_output_free(&k_cache);
}
