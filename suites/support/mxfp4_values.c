#include "base/buffer.h"
#include "suites/support/mxfp4_float64.h"
#include "suites/support/mxfp4_values.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double kg_mxfp4_element(unsigned code) {
    const unsigned exponent = code >> 1 & 3, mantissa = code & 1;
    const double size = exponent ? ldexp(1 + 0.5 * mantissa, (int)exponent - 1) : 0.5 * mantissa;
    return code & 8 ? -size : size;
}

void kg_mxfp4_read(const uint8_t block[KG_MXFP4_BLOCK_BYTES], double elems[KG_MXFP4_BLOCK_ELEMS]) {
    const double scale = block[0] == 255 ? NAN : ldexp(1, block[0] - 127);
    for (int i = 0; i < KG_MXFP4_BLOCK_ELEMS; i++) {
        const uint8_t byte = block[1 + i % 16];
        elems[i] = scale * kg_mxfp4_element(i < 16 ? byte & 15 : byte >> 4);
    }
}

static void *own(struct kg_mxfp4_run *r, void *memory) {
    ck_assert_uint_lt(r->n_memory, sizeof r->memory / sizeof *r->memory);
    return r->memory[r->n_memory++] = memory;
}

void kg_mxfp4_run_close(struct kg_mxfp4_run *r) {
    for (size_t i = 0; i < r->n_values; i++) kg_op_output_free(&r->values[i].y);
    for (size_t i = 0; i < r->n_memory; i++) free(r->memory[i]);
    r->n_values = r->n_memory = 0;
    kg_op_device_close(&r->device);
}

/* Room for the next value; of the back end only unless it is to be filled. */
static struct kg_mxfp4_value *new_value(struct kg_mxfp4_run *r, uint32_t rows, uint32_t cols, enum kg_precision p,
                                        uint32_t n_roundings) {
    ck_assert_uint_lt(r->n_values, KG_MXFP4_MOST_VALUES);
    struct kg_mxfp4_value *v = &r->values[r->n_values++];
    const size_t n = (size_t)rows * cols;
    *v = (struct kg_mxfp4_value){ .rows = rows, .cols = cols, .n_roundings = n_roundings };
    v->exact = own(r, kg_xcalloc(n, sizeof *v->exact));
    v->plain = own(r, kg_xcalloc(n, sizeof *v->plain));
    v->variance = own(r, kg_xcalloc(n, sizeof *v->variance));
    kg_op_output_init(&r->device, &v->y, n, p);
    return v;
}

static size_t size_of(const struct kg_mxfp4_value *v) {
    return (size_t)v->rows * v->cols;
}

/* Of element i, whose terms leave `variance`: that, and its own rounding to float16, which is uniform over the distance
 * of neighbours, 2^-10 of the power of two below it, or 2^-24. That of float32 is below every limit here. */
static void set_variance(struct kg_mxfp4_value *v, size_t i, double variance) {
    int exponent;
    (void)frexp(v->exact[i], &exponent);
    const double step = v->y.precision == KG_PRECISION_F16 ? fmax(ldexp(1, exponent - 11), ldexp(1, -24)) : 0;
    v->variance[i] = variance + step * step / 12;
}

/* What is left of each element's variance where nothing but its rounding adds to it. */
static void set_variances(struct kg_mxfp4_value *v) {
    for (size_t i = 0; i < size_of(v); i++) set_variance(v, i, v->variance[i]);
}

static const struct kg_backend_ops *ops_of(const struct kg_mxfp4_run *r) {
    return r->device.backend->ops;
}

static void put_input(struct kg_mxfp4_run *r, struct kg_mxfp4_value *v, const float *x) {
    const size_t n = size_of(v);
    const bool half = r->activations == KG_PRECISION_F16;
    kg_op_output_free(&v->y);
    kg_op_output_init_from(&r->device, &v->y, x, n, r->activations);
    for (size_t i = 0; i < n; i++) v->exact[i] = v->plain[i] = half ? kg_f16_to_f32(kg_f32_to_f16(x[i])) : x[i];
}

struct kg_mxfp4_value *kg_mxfp4_input(struct kg_mxfp4_run *r, uint32_t rows, uint32_t cols) {
    struct kg_mxfp4_value *v = new_value(r, rows, cols, r->activations, 0);
    float *x = kg_xcalloc(size_of(v), sizeof *x);
    kg_fill_normal(x, size_of(v), ++r->seed, 0, 1);
    put_input(r, v, x);
    free(x);
    return v;
}

float *kg_mxfp4_bias(struct kg_mxfp4_run *r, size_t n) {
    float *bias = own(r, kg_xcalloc(n, sizeof *bias));
    kg_fill_normal(bias, n, ++r->seed, 0, 1);
    return bias;
}

/* The blocks as the back end is to have them: MXFP4, repacked if it repacks, or float32 read by r->read. */
static void put_blocks(struct kg_mxfp4_run *r, struct kg_mxfp4_matrix *m, const uint8_t *blocks, size_t n) {
    struct kg_error err;
    struct kg_backend *b = r->device.backend;
    if (!r->read) {
        m->weight.dtype = KG_DTYPE_MXFP4;
        m->weight.data = kg_op_device_put(&r->device, blocks, n / KG_MXFP4_BLOCK_ELEMS * KG_MXFP4_BLOCK_BYTES);
        if (!r->as_in_file && b->ops->repack_weight)
            kg_op_expect_ok(b->ops->repack_weight(b, &m->weight, m->n_matrices, &err), &err);
        return;
    }
    float *values = kg_xcalloc(n, sizeof *values);
    for (size_t at = 0; at < n; at += KG_MXFP4_BLOCK_ELEMS) {
        double elems[KG_MXFP4_BLOCK_ELEMS];
        r->read(blocks + at / KG_MXFP4_BLOCK_ELEMS * KG_MXFP4_BLOCK_BYTES, elems);
        for (int i = 0; i < KG_MXFP4_BLOCK_ELEMS; i++) values[at + (size_t)i] = (float)elems[i];
    }
    m->weight.dtype = KG_DTYPE_F32;
    m->weight.data = kg_op_device_put(&r->device, values, n * sizeof *values);
    free(values);
}

struct kg_mxfp4_matrix kg_mxfp4_matrix(struct kg_mxfp4_run *r, uint32_t n_matrices, uint32_t n_out, uint32_t n_in) {
    ck_assert_uint_eq(n_in % KG_MXFP4_BLOCK_ELEMS, 0);
    struct kg_mxfp4_matrix m = { .weight = { .n_rows = n_matrices * n_out, .n_cols = n_in }, .n_matrices = n_matrices };
    const size_t n = (size_t)m.weight.n_rows * n_in;
    float *normal = kg_xcalloc(n, sizeof *normal);
    uint8_t *blocks = kg_xmalloc(n / KG_MXFP4_BLOCK_ELEMS * KG_MXFP4_BLOCK_BYTES);
    kg_fill_normal(normal, n, ++r->seed, 0, 1 / sqrt(n_in));
    for (size_t i = 0; i < n; i++) normal[i] = ldexpf(normal[i], (int)(i / KG_MXFP4_BLOCK_ELEMS % 3) - 1);
    kg_dtype_info(KG_DTYPE_MXFP4)->encode(normal, blocks, n);
    m.exact = own(r, kg_xcalloc(n, sizeof *m.exact));
    m.plain = own(r, kg_xcalloc(n, sizeof *m.plain));
    for (size_t i = 0; i < n; i++) m.plain[i] = normal[i];
    for (size_t at = 0; at < n; at += KG_MXFP4_BLOCK_ELEMS)
        kg_mxfp4_read(blocks + at / KG_MXFP4_BLOCK_ELEMS * KG_MXFP4_BLOCK_BYTES, m.exact + at);
    put_blocks(r, &m, blocks, n);
    free(blocks);
    free(normal);
    return m;
}

static float *put_bias(struct kg_mxfp4_run *r, const float *bias, size_t n) {
    return bias ? kg_op_device_put(&r->device, bias, n * sizeof *bias) : NULL;
}

struct kg_mxfp4_value *kg_mxfp4_linear(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *x,
                                       const struct kg_mxfp4_matrix *w, const float *bias, enum kg_precision output) {
    struct kg_error err;
    const uint32_t n_out = w->weight.n_rows, n_in = w->weight.n_cols;
    struct kg_mxfp4_value *y = new_value(r, x->rows, n_out, output, x->n_roundings + 1);
    const struct kg_linear_args args = { .activations = r->activations,
                                         .output = output,
                                         .x = x->y.y,
                                         .weight = w->weight,
                                         .bias = put_bias(r, bias, n_out),
                                         .y = y->y.y,
                                         .n_rows = x->rows,
                                         .workspace = r->device.workspace };
    ck_assert_uint_eq(x->cols, n_in);
    kg_op_expect_ok(ops_of(r)->linear(r->device.backend, &args, &err), &err);
    for (size_t row = 0; row < x->rows; row++) {
        kg_f64_product(x->exact + row * n_in, w->exact, bias, n_out, n_in, y->exact + row * n_out);
        kg_f64_product(x->plain + row * n_in, w->plain, bias, n_out, n_in, y->plain + row * n_out);
        kg_f64_product_variance(x->variance + row * n_in, w->exact, n_out, n_in, y->variance + row * n_out);
    }
    set_variances(y);
    return y;
}

struct kg_mxfp4_value *kg_mxfp4_embedding(struct kg_mxfp4_run *r, const struct kg_mxfp4_matrix *w, const int32_t *ids,
                                          uint32_t n_ids, const float *positions, uint32_t n_positions,
                                          uint32_t position) {
    struct kg_error err;
    const size_t n_cols = w->weight.n_cols;
    struct kg_mxfp4_value *y = new_value(r, n_ids, w->weight.n_cols, r->activations, 1);
    y->is_copy = true;
    const struct kg_embedding_args args = {
        .activations = r->activations,
        .weight = w->weight,
        .ids = kg_op_device_put(&r->device, ids, n_ids * sizeof *ids),
        .n_rows = n_ids,
        .y = y->y.y,
        .positions = { .data = positions
                                   ? kg_op_device_put(&r->device, positions, n_positions * n_cols * sizeof *positions)
                                   : NULL,
                       .dtype = KG_DTYPE_F32,
                       .n_rows = n_positions,
                       .n_cols = w->weight.n_cols },
        .position = position,
    };
    kg_op_expect_ok(ops_of(r)->embedding(r->device.backend, &args, &err), &err);
    for (size_t i = 0; i < size_of(y); i++) {
        const size_t row = i / n_cols, from = (size_t)ids[row] * n_cols + i % n_cols;
        const double added = positions ? positions[(position + row) * n_cols + i % n_cols] : 0;
        y->exact[i] = w->exact[from] + added;
        y->plain[i] = w->plain[from] + added;
    }
    set_variances(y);
    return y;
}

struct kg_mxfp4_value *kg_mxfp4_add(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *a,
                                    const struct kg_mxfp4_value *b) {
    struct kg_error err;
    struct kg_mxfp4_value *y =
        new_value(r, a->rows, a->cols, r->activations, (a->n_roundings > b->n_roundings ? a : b)->n_roundings + 1);
    const struct kg_add_args args = { r->activations, a->y.y, b->y.y, y->y.y, a->rows, a->cols };
    kg_op_expect_ok(ops_of(r)->add(r->device.backend, &args, &err), &err);
    for (size_t i = 0; i < size_of(y); i++) {
        y->exact[i] = a->exact[i] + b->exact[i];
        y->plain[i] = a->plain[i] + b->plain[i];
        set_variance(y, i, a->variance[i] + b->variance[i]);
    }
    return y;
}

/* The square of how far the farther of a and b is from y: of a function one deviation to either side. */
static double farther(double y, double a, double b) {
    return fmax((a - y) * (a - y), (b - y) * (b - y));
}

static double gelu(double x) {
    return x / 2 * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

struct kg_mxfp4_value *kg_mxfp4_gelu(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *x) {
    struct kg_error err;
    struct kg_mxfp4_value *y = new_value(r, x->rows, x->cols, r->activations, x->n_roundings + 1);
    const struct kg_gelu_args args = { r->activations, x->y.y, y->y.y, x->rows, x->cols, KG_GELU_TANH };
    kg_op_expect_ok(ops_of(r)->gelu(r->device.backend, &args, &err), &err);
    for (size_t i = 0; i < size_of(y); i++) {
        y->exact[i] = gelu(x->exact[i]);
        y->plain[i] = gelu(x->plain[i]);
        const double off = sqrt(x->variance[i]);
        set_variance(y, i, farther(y->exact[i], gelu(x->exact[i] - off), gelu(x->exact[i] + off)));
    }
    return y;
}

static double gated(double gate, double up, double limit) {
    if (limit <= 0) return gate / (1 + exp(-gate)) * up;
    gate = fmin(gate, limit);
    up = fmax(fmin(up, limit), -limit);
    return gate / (1 + exp(-1.702 * gate)) * (up + 1);
}

struct kg_mxfp4_value *kg_mxfp4_swiglu(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *gate,
                                       const struct kg_mxfp4_value *up, double limit) {
    struct kg_error err;
    struct kg_mxfp4_value *y = new_value(r, gate->rows, gate->cols, r->activations,
                                         (gate->n_roundings > up->n_roundings ? gate : up)->n_roundings + 1);
    const struct kg_swiglu_args args = { .activations = r->activations,
                                         .gate = gate->y.y,
                                         .up = up->y.y,
                                         .y = y->y.y,
                                         .n_rows = gate->rows,
                                         .n_cols = gate->cols,
                                         .limit = (float)limit,
                                         .alpha = limit > 0 ? 1.702f : 1,
                                         .up_offset = limit > 0 ? 1 : 0 };
    kg_op_expect_ok(ops_of(r)->swiglu(r->device.backend, &args, &err), &err);
    for (size_t i = 0; i < size_of(y); i++) {
        y->exact[i] = gated(gate->exact[i], up->exact[i], limit);
        y->plain[i] = gated(gate->plain[i], up->plain[i], limit);
        const double g = gate->exact[i], u = up->exact[i];
        const double off_g = sqrt(gate->variance[i]), off_u = sqrt(up->variance[i]);
        set_variance(y, i,
                     farther(y->exact[i], gated(g - off_g, u, limit), gated(g + off_g, u, limit)) +
                         farther(y->exact[i], gated(g, u - off_u, limit), gated(g, u + off_u, limit)));
    }
    return y;
}

struct kg_mxfp4_value *kg_mxfp4_softmax(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *x) {
    struct kg_error err;
    struct kg_mxfp4_value *y = new_value(r, x->rows, x->cols, x->y.precision, x->n_roundings + 1);
    const struct kg_softmax_args args = { x->y.precision, x->y.y, y->y.y, x->rows, x->cols, 1 };
    kg_op_expect_ok(ops_of(r)->softmax(r->device.backend, &args, &err), &err);
    for (size_t row = 0; row < x->rows; row++) {
        kg_f64_softmax(x->exact + row * x->cols, y->exact + row * x->cols, x->cols);
        kg_f64_softmax(x->plain + row * x->cols, y->plain + row * x->cols, x->cols);
        for (size_t i = row * x->cols; i < (row + 1) * x->cols; i++)
            set_variance(y, i, y->exact[i] * y->exact[i] * x->variance[i]);
    }
    return y;
}

/* x, whose rows are drawn until every choice is clear: 0.05 of a logit is far more than float16 or TF32 products are
 * off. */
static void draw_clear_rows(struct kg_mxfp4_run *r, struct kg_mxfp4_routes *routes, const double *router,
                            const float *bias, float *x, uint32_t n_in) {
    enum { MOST_DRAWS = 200 };
    static const double CLEAR = 0.05;
    double *row64 = kg_xcalloc(n_in, sizeof *row64), *logits = kg_xcalloc(routes->n_experts, sizeof *logits);
    for (size_t row = 0; row < routes->rows; row++) {
        double gap = 0;
        double *const weights = routes->weights + row * routes->n_used;
        for (int i = 0; i < MOST_DRAWS && gap < CLEAR; i++) {
            float *own_row = x + row * n_in;
            kg_fill_normal(own_row, n_in, ++r->seed, 0, 1);
            for (uint32_t c = 0; c < n_in; c++) {
                if (r->activations == KG_PRECISION_F16) own_row[c] = kg_f16_to_f32(kg_f32_to_f16(own_row[c]));
                row64[c] = own_row[c];
            }
            kg_f64_product(row64, router, bias, routes->n_experts, n_in, logits);
            gap = kg_f64_choose(logits, routes->n_experts, routes->n_used, routes->ids + row * routes->n_used, weights);
        }
        ck_assert_msg(gap >= CLEAR, "row %zu: no clear choice of experts", row);
        kg_f64_softmax(weights, weights, routes->n_used);
    }
    free(logits);
    free(row64);
}

struct kg_mxfp4_routes kg_mxfp4_route(struct kg_mxfp4_run *r, uint32_t rows, uint32_t n_in, uint32_t n_experts,
                                      uint32_t n_used, bool one_expert, struct kg_mxfp4_value **x) {
    struct kg_error err;
    struct kg_mxfp4_routes routes = { .rows = rows, .n_used = n_used, .n_experts = n_experts };
    const size_t n_router = (size_t)n_experts * n_in, n_routes = (size_t)rows * n_used;
    float *router = own(r, kg_xcalloc(n_router, sizeof *router)), *bias = kg_mxfp4_bias(r, n_experts);
    double *router64 = own(r, kg_xcalloc(n_router, sizeof *router64));
    float *input = own(r, kg_xcalloc((size_t)rows * n_in, sizeof *input));
    kg_fill_normal(router, n_router, ++r->seed, 0, 2 / sqrt(n_in));
    for (size_t i = 0; i < n_router; i++) router64[i] = router[i];
    for (uint32_t e = 0; one_expert && e < n_used; e++) bias[e] = 100;
    routes.ids = own(r, kg_xcalloc(n_routes, sizeof *routes.ids));
    routes.weights = own(r, kg_xcalloc(n_routes, sizeof *routes.weights));
    draw_clear_rows(r, &routes, router64, bias, input, n_in);
    *x = new_value(r, rows, n_in, r->activations, 0);
    put_input(r, *x, input);
    struct kg_mxfp4_matrix w = { .weight = { kg_op_device_put(&r->device, router, n_router * sizeof *router),
                                             KG_DTYPE_F32, n_experts, n_in },
                                 .exact = router64,
                                 .plain = router64,
                                 .n_matrices = 1 };
    struct kg_mxfp4_value *logits = kg_mxfp4_linear(r, *x, &w, bias, KG_PRECISION_F32);
    int32_t *ids = own(r, kg_xcalloc(n_routes, sizeof *ids));
    for (size_t i = 0; i < n_routes; i++) ids[i] = -1;
    routes.device_ids = kg_op_device_put(&r->device, ids, n_routes * sizeof *ids);
    routes.device_weights = kg_op_device_put(&r->device, ids, n_routes * sizeof(float)); /* NaN, as floats */
    const struct kg_router_args args = {
        logits->y.y, routes.device_ids, routes.device_weights, rows, n_experts, n_used
    };
    kg_op_expect_ok(ops_of(r)->router(r->device.backend, &args, &err), &err);
    kg_op_expect_ok(ops_of(r)->download(r->device.backend, ids, routes.device_ids, n_routes * sizeof *ids, &err), &err);
    for (size_t i = 0; i < n_routes && !r->margin; i++)
        ck_assert_msg(ids[i] == routes.ids[i], "row %zu, choice %zu: expert %d, not %d", i / n_used, i % n_used, ids[i],
                      routes.ids[i]);
    return routes;
}

struct kg_mxfp4_value *kg_mxfp4_experts(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *x,
                                        const struct kg_mxfp4_matrix *w, const float *bias,
                                        const struct kg_mxfp4_routes *routes) {
    struct kg_error err;
    const uint32_t n_rows = routes->rows * routes->n_used, n_in = w->weight.n_cols;
    const uint32_t n_out = w->weight.n_rows / w->n_matrices, n_sharing = n_rows / x->rows;
    struct kg_mxfp4_value *y = new_value(r, n_rows, n_out, r->activations, x->n_roundings + 1);
    const struct kg_experts_linear_args args = { .activations = r->activations,
                                                 .x = x->y.y,
                                                 .weight = w->weight,
                                                 .n_experts = w->n_matrices,
                                                 .bias = put_bias(r, bias, w->weight.n_rows),
                                                 .ids = routes->device_ids,
                                                 .y = y->y.y,
                                                 .n_rows = n_rows,
                                                 .n_sharing = n_sharing,
                                                 .workspace = r->device.workspace };
    kg_op_expect_ok(ops_of(r)->experts_linear(r->device.backend, &args, &err), &err);
    for (size_t row = 0; row < n_rows; row++) {
        const size_t first = (size_t)routes->ids[row] * n_out, from = row / n_sharing * n_in;
        const float *own_bias = bias ? bias + first : NULL;
        kg_f64_product(x->exact + from, w->exact + first * n_in, own_bias, n_out, n_in, y->exact + row * n_out);
        kg_f64_product(x->plain + from, w->plain + first * n_in, own_bias, n_out, n_in, y->plain + row * n_out);
        kg_f64_product_variance(x->variance + from, w->exact + first * n_in, n_out, n_in, y->variance + row * n_out);
    }
    set_variances(y);
    return y;
}

struct kg_mxfp4_value *kg_mxfp4_combine(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *x,
                                        const struct kg_mxfp4_routes *routes, const struct kg_mxfp4_value *residual) {
    struct kg_error err;
    const size_t n_cols = x->cols, n_used = routes->n_used;
    struct kg_mxfp4_value *y = new_value(r, routes->rows, x->cols, r->activations, x->n_roundings + 1);
    y->by_weights = true;
    const struct kg_experts_combine_args args = {
        r->activations, x->y.y,       routes->device_weights, residual ? residual->y.y : NULL,
        y->y.y,         routes->rows, routes->n_used,         x->cols
    };
    kg_op_expect_ok(ops_of(r)->experts_combine(r->device.backend, &args, &err), &err);
    for (size_t i = 0; i < size_of(y); i++) {
        const size_t row = i / n_cols;
        y->exact[i] = residual ? residual->exact[i] : 0;
        y->plain[i] = residual ? residual->plain[i] : 0;
        double variance = residual ? residual->variance[i] : 0;
        for (size_t j = row * n_used; j < (row + 1) * n_used; j++) {
            y->exact[i] += routes->weights[j] * x->exact[j * n_cols + i % n_cols];
            y->plain[i] += routes->weights[j] * x->plain[j * n_cols + i % n_cols];
            variance += routes->weights[j] * routes->weights[j] * x->variance[j * n_cols + i % n_cols];
        }
        set_variance(y, i, variance);
    }
    return y;
}
