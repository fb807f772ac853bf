/* layernorm, gelu and softmax: operations from x to a y of its shape, each element within a separate bound, and the
 * same bits in place. */
#include "base/buffer.h"
#include "suites/support/op_cases.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

/* One run. Pointers are in host memory for the reference, which has no back end. */
struct run {
    struct kg_backend *backend;
    enum kg_precision activations;
    const void *x;
    const float *weight, *bias;
    void *y;
    size_t n_rows, n_cols;
    float number; /* eps, scale */
    enum kg_gelu_form form;
};

struct activation {
    const char *name;
    enum kg_status (*run)(const struct run *r, struct kg_error *err);
    /* bound[i] = what float32 arithmetic may err by, of want[i], from inputs in host memory. */
    void (*bounds)(const struct run *r, const double *want, double *bound);
    const char *why;
};

static void read_vector(struct kg_op_case *c, const char *name, size_t n, struct run *host, struct run *device) {
    const bool is_weight = strcmp(name, "weight") == 0;
    size_t rows, cols;
    if (!kg_golden_has(c->golden, name)) return;
    const float *values = kg_golden_f32(c->golden, name, &rows, &cols);
    ck_assert_uint_eq(rows * cols, n);
    const float *put = kg_op_device_put(&c->device, values, n * sizeof *values);
    *(is_weight ? &host->weight : &host->bias) = values;
    *(is_weight ? &device->weight : &device->bias) = put;
}

static double *bounds_of(const struct kg_op_case *c, const struct activation *a, const struct run *host,
                         const float *reference) {
    const size_t n = host->n_rows * host->n_cols;
    size_t rows, cols;
    const double *golden = kg_golden_f64(c->golden, "out", &rows, &cols);
    double *want = kg_xcalloc(n, sizeof *want), *bound = kg_xcalloc(n, sizeof *bound);
    ck_assert_uint_eq(rows * cols, n);
    for (size_t i = 0; i < n; i++) want[i] = reference ? (double)reference[i] : golden[i];
    a->bounds(host, want, bound);
    for (size_t i = 0; i < n && reference; i++) bound[i] += KG_ROUNDOFF_F16 * fabs(want[i]) + KG_ROUNDOFF_F16_ABS;
    free(want);
    return bound;
}

static void run_and_judge(struct kg_op_case *c, const struct activation *a, struct run host) {
    struct kg_error err;
    struct kg_op_output y, in_place;
    const float *x = kg_op_case_input(c, "x", &host.n_rows, &host.n_cols);
    const size_t n = host.n_rows * host.n_cols;
    kg_op_output_init(&c->device, &y, n, c->activations);
    kg_op_output_init_from(&c->device, &in_place, x, n, c->activations);
    struct run device = host;
    device.backend = c->device.backend;
    device.activations = c->activations;
    read_vector(c, "weight", host.n_cols, &host, &device);
    read_vector(c, "bias", host.n_cols, &host, &device);
    device.x = kg_op_device_put_as(&c->device, x, n, c->activations);
    device.y = y.y;
    kg_op_expect_ok(a->run(&device, &err), &err);
    kg_op_output_read_all(&c->device, &y, a->name);

    float *reference = kg_op_case_reference(c, n);
    host.x = x;
    host.y = reference;
    if (reference) kg_op_expect_ok(a->run(&host, &err), &err);
    double *bound = bounds_of(c, a, &host, reference);
    const struct kg_tolerance tol = { .max_abs = 1, .why = a->why };
    kg_op_case_judge(c, a->name, &y, host.n_rows, host.n_cols, reference, bound, &tol);
    free(bound);

    device.x = device.y = in_place.y;
    kg_op_expect_ok(a->run(&device, &err), &err);
    kg_op_output_read_all(&c->device, &in_place, "in place");
    kg_op_expect_same_bits(a->name, &in_place, &y);
    kg_op_output_free(&in_place);
    kg_op_output_free(&y);
}

/* The table's entry for a back end, the reference without one. */
#define RUN(op, r, args, err)                                                                                          \
    ((r)->backend ? (r)->backend->ops->op((r)->backend, (args), (err)) : kg_cpu_##op(NULL, (args), (err)))

static enum kg_status layernorm(const struct run *r, struct kg_error *err) {
    const struct kg_layernorm_args args = {
        .activations = r->activations,
        .x = r->x,
        .weight = r->weight,
        .bias = r->bias,
        .y = r->y,
        .n_rows = (uint32_t)r->n_rows,
        .n_cols = (uint32_t)r->n_cols,
        .eps = r->number,
    };
    return RUN(layernorm, r, &args, err);
}

/* x - mean errs by a share of itself and by that share of the deviation, for the mean is corrected by what is left; so
 * the bound knows nothing of how large the mean is. */
static void layernorm_bounds(const struct run *r, const double *want, double *bound) {
    const double sums = (log2((double)r->n_cols) + 8) * KG_ROUNDOFF;
    for (size_t i = 0; i < r->n_rows * r->n_cols; i++) {
        const double weight = fabs((double)r->weight[i % r->n_cols]);
        const double bias = r->bias ? fabs((double)r->bias[i % r->n_cols]) : 0;
        bound[i] = sums * (fabs(want[i]) + bias + weight) + 0x1p-149;
    }
}

void kg_op_case_layernorm(struct kg_op_case *c) {
    const struct activation a = {
        "layernorm",
        layernorm,
        layernorm_bounds,
        "in units of (log2(n) + 8) 2^-24 (|y| + |bias| + |weight|): float32 tree sums of n differences and squares, "
        "root, "
        "quotient, products and sum; and of one rounding to float16 where that is the precision",
    };
    run_and_judge(c, &a, (struct run){ .number = kg_golden_float(c->golden, "eps") });
}

static enum kg_status gelu(const struct run *r, struct kg_error *err) {
    const struct kg_gelu_args args = {
        .activations = r->activations,
        .x = r->x,
        .y = r->y,
        .n_rows = (uint32_t)r->n_rows,
        .n_cols = (uint32_t)r->n_cols,
        .form = r->form,
    };
    return RUN(gelu, r, &args, err);
}

static void gelu_bounds(const struct run *r, const double *want, double *bound) {
    for (size_t i = 0; i < r->n_rows * r->n_cols; i++) {
        const double x = ((const float *)r->x)[i];
        const double exponent = r->form == KG_GELU_TANH ? 1.6 * fabs(x) + 0.072 * fabs(x * x * x) : 0;
        bound[i] = (12 + 4 * fmin(exponent, 88)) * KG_ROUNDOFF * fabs(want[i]) + 0x1p-120;
    }
}

void kg_op_case_gelu(struct kg_op_case *c) {
    const struct activation a = {
        "gelu",
        gelu,
        gelu_bounds,
        "in units of |y| 2^-24 (12 + 4 |2u|): an exponential within two units in the last place of an exponent 2u "
        "rounded "
        "four times, a sum, a quotient; erf's distribution function is within five units; below 2^-120 exp overflows; "
        "and "
        "of one rounding to float16 where that is the precision",
    };
    const bool erf_form = kg_golden_int(c->golden, "erf") != 0;
    run_and_judge(c, &a, (struct run){ .form = erf_form ? KG_GELU_ERF : KG_GELU_TANH });
}

static enum kg_status softmax(const struct run *r, struct kg_error *err) {
    const struct kg_softmax_args args = {
        .activations = r->activations,
        .x = r->x,
        .y = r->y,
        .n_rows = (uint32_t)r->n_rows,
        .n_cols = (uint32_t)r->n_cols,
        .scale = r->number,
    };
    return RUN(softmax, r, &args, err);
}

static void softmax_bounds(const struct run *r, const double *want, double *bound) {
    const double sums = 2 * log2((double)r->n_cols) + 16;
    for (size_t row = 0; row < r->n_rows; row++) {
        const float *x = (const float *)r->x + row * r->n_cols;
        double largest = -INFINITY;
        for (size_t i = 0; i < r->n_cols; i++) largest = fmax(largest, (double)x[i]);
        for (size_t i = 0; i < r->n_cols; i++) {
            const double y = want[row * r->n_cols + i];
            const double exponent = y > 0 ? ((double)x[i] - largest) * (double)r->number : 0;
            bound[row * r->n_cols + i] = (sums + 2 * fabs(exponent)) * KG_ROUNDOFF * y + 0x1p-147;
        }
    }
}

void kg_op_case_softmax(struct kg_op_case *c) {
    const struct activation a = {
        "softmax",
        softmax,
        softmax_bounds,
        "in units of y 2^-24 (2 log2(n) + 16 + 2 |exponent|): a difference and a product rounded once each make the "
        "exponent, exponentials within two units in the last place, a tree sum of n, a quotient and a product; and of "
        "one "
        "rounding to float16 where that is the precision",
    };
    run_and_judge(c, &a, (struct run){ .number = kg_golden_float(c->golden, "scale") });
}
