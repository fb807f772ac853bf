/* Attention over a cache that kv_write has filled in pieces, larger than its keys, the rest poisoned. */
#include "base/buffer.h"
#include "suites/tolerance/op_cases.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPARE_POSITIONS = 13 };

/* Appends n keys and values in pieces of 1, then 5, then what is left. */
static void fill_cache(struct kg_op_case *c, struct kg_kv_write_args args, const float *k, const float *v, uint32_t n) {
    struct kg_error err;
    const size_t row = (size_t)args.n_kv_heads * args.head_dim;
    const uint32_t pieces[] = { 1, 5, n };
    for (size_t i = 0; args.position < n; i++) {
        const uint32_t left = n - args.position, piece = pieces[i < 2 ? i : 2];
        args.n_rows = piece < left ? piece : left;
        args.k = k + args.position * row;
        args.v = v + args.position * row;
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

/* One query at a time, as decoding does: the same bits as all at once. */
static void expect_rows_alone(struct kg_op_case *c, struct kg_attention_args args, const struct kg_op_output *all) {
    struct kg_error err;
    const uint32_t n_rows = args.n_rows, n_keys = args.n_keys;
    const size_t row = (size_t)args.n_heads * args.head_dim;
    const float *q = args.q;
    struct kg_op_output y;
    kg_op_output_init(&c->device, &y, all->host.n);
    for (uint32_t r = 0; r < n_rows; r++) {
        args.n_rows = 1;
        args.n_keys = args.causal ? n_keys - n_rows + r + 1 : n_keys;
        args.q = q + r * row;
        args.y = y.y + r * row;
        kg_op_expect_ok(c->device.backend->ops->attention(c->device.backend, &args, &err), &err);
    }
    kg_op_output_read_all(&c->device, &y, "rows alone");
    kg_op_expect_same_bits("rows alone", &y, all);
    kg_op_output_free(&y);
}

void kg_op_case_attention(struct kg_op_case *c) {
    struct kg_error err;
    size_t n_rows, q_cols, n_keys, kv_cols, n_values, v_cols;
    const float *q = kg_golden_f32(c->golden, "q", &n_rows, &q_cols);
    const float *k = kg_golden_f32(c->golden, "k", &n_keys, &kv_cols);
    const float *v = kg_golden_f32(c->golden, "v", &n_values, &v_cols);
    struct kg_attention_args args = {
        .n_rows = (uint32_t)n_rows,
        .n_keys = (uint32_t)n_keys,
        .n_heads = (uint32_t)kg_golden_int(c->golden, "n_heads"),
        .n_kv_heads = (uint32_t)kg_golden_int(c->golden, "n_kv_heads"),
        .head_dim = (uint32_t)kg_golden_int(c->golden, "head_dim"),
        .n_ctx = (uint32_t)n_keys + SPARE_POSITIONS,
        .scale = kg_golden_float(c->golden, "scale"),
        .causal = kg_golden_int(c->golden, "causal") != 0,
        .window = (uint32_t)kg_golden_int(c->golden, "window"),
    };
    ck_assert_uint_eq(q_cols, (size_t)args.n_heads * args.head_dim);
    ck_assert_uint_eq(kv_cols, (size_t)args.n_kv_heads * args.head_dim);
    ck_assert(n_values == n_keys && v_cols == kv_cols);
    ck_assert_int_eq((int)(n_keys - n_rows), kg_golden_int(c->golden, "n_past"));
    kg_op_device_workspace(&c->device, args.n_rows, (uint32_t)q_cols, args.n_heads, args.n_kv_heads, args.head_dim,
                           args.n_ctx);
    struct kg_op_output k_cache, v_cache, y;
    const size_t cache_elems = kv_cols * args.n_ctx;
    kg_op_output_init(&c->device, &k_cache, cache_elems);
    kg_op_output_init(&c->device, &v_cache, cache_elems);
    kg_op_output_init(&c->device, &y, n_rows * q_cols);
    const struct kg_kv_write_args write = {
        .k_cache = k_cache.y,
        .v_cache = v_cache.y,
        .n_kv_heads = args.n_kv_heads,
        .head_dim = args.head_dim,
        .n_ctx = args.n_ctx,
    };
    fill_cache(c, write, kg_op_device_put(&c->device, k, n_keys * kv_cols * sizeof *k),
               kg_op_device_put(&c->device, v, n_keys * kv_cols * sizeof *v), args.n_keys);
    kg_op_output_read(&c->device, &k_cache);
    kg_op_output_read(&c->device, &v_cache);
    expect_cache("k cache", &k_cache, k, args.n_keys, args.n_ctx, args.n_kv_heads, args.head_dim);
    expect_cache("v cache", &v_cache, v, args.n_keys, args.n_ctx, args.n_kv_heads, args.head_dim);

    args.q = kg_op_device_put(&c->device, q, n_rows * q_cols * sizeof *q);
    args.k_cache = k_cache.y;
    args.v_cache = v_cache.y;
    args.y = y.y;
    args.workspace = c->device.workspace;
    kg_op_expect_ok(c->device.backend->ops->attention(c->device.backend, &args, &err), &err);
    kg_op_output_read_all(&c->device, &y, "attention");
    const struct kg_tolerance tol = {
        .max_abs = kg_largest(v, n_keys * kv_cols) * (4 + largest_products(q, k, &args)) * 2 * KG_ROUNDOFF,
        .why =
            "a logit errs by a few roundings of sum|q k| scale, and moves its weight by that share; weights sum to 1",
    };
    kg_op_case_judge(c, "attention", &y, n_rows, q_cols, NULL, &tol);
    if (!c->margin) expect_rows_alone(c, args, &y); /* a wrong operation need not agree with itself */
    kg_op_output_free(&y);
    kg_op_output_free(&v_cache);
    kg_op_output_free(&k_cache);
}
