#include "suites/support/op_cases.h"
#include "base/buffer.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double kg_largest(const float *x, size_t n) {
    double largest = 0;
    for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)x[i]));
    return largest;
}

static void judge(struct kg_op_case *c, const char *name, const float *got, const double *want, size_t n,
                  const struct kg_tolerance *tol) {
    if (!c->margin) {
        kg_expect_close_f64(c->rec, name, got, want, n, tol);
        return;
    }
    struct kg_compare compare;
    double margin;
    kg_compare_f64(got, want, n, &compare);
    (void)kg_within(&compare, tol, &margin);
    (c->is_control ? kg_record_judged : kg_record_compare)(c->rec, name, &compare, tol);
    *c->margin = fmax(*c->margin, margin);
}

const float *kg_op_case_input(struct kg_op_case *c, const char *name, size_t *rows, size_t *cols) {
    const float *x = kg_golden_f32(c->golden, name, rows, cols);
    return kg_op_device_rounded(&c->device, x, *rows * *cols, c->activations);
}

float *kg_op_case_reference(struct kg_op_case *c, size_t n) {
    if (c->activations == KG_PRECISION_F32) return NULL;
    float *reference = kg_op_device_own(&c->device, kg_xcalloc(n, sizeof *reference));
    for (size_t i = 0; i < n; i++) reference[i] = NAN;
    return reference;
}

struct kg_tolerance kg_op_case_tolerance(const struct kg_op_case *c, double mixed_rel, double mixed_abs,
                                         const char *why_f32, const char *why_f16) {
    if (c->activations == KG_PRECISION_F32)
        return (struct kg_tolerance){ .mixed_rel = mixed_rel, .mixed_abs = mixed_abs, .why = why_f32 };
    return (struct kg_tolerance){ .mixed_rel = mixed_rel + KG_ROUNDOFF_F16,
                                  .mixed_abs = mixed_abs + KG_ROUNDOFF_F16_ABS,
                                  .why = why_f16 };
}

void kg_op_case_judge(struct kg_op_case *c, const char *name, const struct kg_op_output *y, size_t rows, size_t cols,
                      const float *reference, const double *unit, const struct kg_tolerance *tol) {
    size_t want_rows, want_cols;
    const double *golden = kg_golden_f64(c->golden, "out", &want_rows, &want_cols);
    ck_assert_uint_eq(rows, want_rows);
    ck_assert_uint_eq(cols, want_cols);
    ck_assert_uint_eq(y->host.n, rows * cols);
    float *got = kg_xcalloc(y->host.n, sizeof *got);
    double *want = kg_xcalloc(y->host.n, sizeof *want);
    for (size_t i = 0; i < y->host.n; i++) {
        got[i] = unit ? (float)(y->host.data[i] / unit[i]) : y->host.data[i];
        want[i] = (reference ? (double)reference[i] : golden[i]) / (unit ? unit[i] : 1);
    }
    judge(c, name, got, want, y->host.n, tol);
    free(want);
    free(got);
}

void kg_op_expect_same_bits(const char *name, const struct kg_op_output *a, const struct kg_op_output *b) {
    ck_assert_uint_eq(a->host.n, b->host.n);
    for (size_t i = 0; i < a->host.n; i++)
        if (!kg_same_bits(a->host.data[i], b->host.data[i]))
            ck_abort_msg("%s: differs at [%zu] of %zu: %.9g and %.9g", name, i, a->host.n, a->host.data[i],
                         b->host.data[i]);
}

struct kg_weight kg_op_case_weight(struct kg_op_case *c, float **values) {
    struct kg_error err;
    size_t rows, cols, n_bytes;
    if (kg_golden_has(c->golden, "weight")) {
        const float *data = kg_golden_f32(c->golden, "weight", &rows, &cols);
        n_bytes = rows * cols * sizeof *data;
        *values = kg_xmalloc(n_bytes);
        memcpy(*values, data, n_bytes);
        return (struct kg_weight){ kg_op_device_put(&c->device, data, n_bytes), KG_DTYPE_F32, (uint32_t)rows,
                                   (uint32_t)cols };
    }
    const uint8_t *data = kg_golden_u8(c->golden, "weight_bytes", &rows, &n_bytes);
    struct kg_weight w = { .n_rows = (uint32_t)rows };
    kg_op_expect_ok(kg_dtype_from_gguf((uint32_t)kg_golden_int(c->golden, "weight_dtype"), &w.dtype, &err), &err);
    const struct kg_dtype_info *info = kg_dtype_info(w.dtype);
    ck_assert_uint_eq(n_bytes % info->block_bytes, 0);
    cols = n_bytes / info->block_bytes * info->block_elems;
    w.n_cols = (uint32_t)cols;
    *values = kg_xcalloc(rows * cols, sizeof **values);
    for (size_t r = 0; r < rows; r++) info->decode(data + r * n_bytes, *values + r * cols, cols);
    w.data = kg_op_device_put(&c->device, data, rows * n_bytes);
    return w;
}

/* Learned positions in float32, or none. */
static struct kg_weight positions_of(struct kg_op_case *c, uint32_t n_cols) {
    size_t rows, cols;
    if (!kg_golden_has(c->golden, "positions")) return (struct kg_weight){ 0 };
    const float *data = kg_golden_f32(c->golden, "positions", &rows, &cols);
    ck_assert_uint_eq(cols, n_cols);
    return (struct kg_weight){ kg_op_device_put(&c->device, data, rows * cols * sizeof *data), KG_DTYPE_F32,
                               (uint32_t)rows, n_cols };
}

/* A parameter that not every golden has. */
static uint32_t count_of(const struct kg_op_case *c, const char *name) {
    return kg_golden_has(c->golden, name) ? (uint32_t)kg_golden_int(c->golden, name) : 0;
}

float kg_op_case_number(const struct kg_op_case *c, const char *name, float fallback) {
    return kg_golden_has(c->golden, name) ? kg_golden_float(c->golden, name) : fallback;
}

void kg_op_case_embedding(struct kg_op_case *c) {
    struct kg_error err;
    float *values;
    size_t n;
    const struct kg_weight weight = kg_op_case_weight(c, &values);
    const int32_t *ids = kg_golden_i32(c->golden, "ids", &n);
    struct kg_op_output y;
    kg_op_output_init(&c->device, &y, n * weight.n_cols, c->activations);
    const struct kg_embedding_args args = { .activations = c->activations,
                                            .weight = weight,
                                            .ids = kg_op_device_put(&c->device, ids, n * sizeof *ids),
                                            .n_rows = (uint32_t)n,
                                            .y = y.y,
                                            .positions = positions_of(c, weight.n_cols),
                                            .position = count_of(c, "first_position") };
    kg_op_expect_ok(c->device.backend->ops->embedding(c->device.backend, &args, &err), &err);
    kg_op_output_read_all(&c->device, &y, "embedding");
    const struct kg_tolerance tol = kg_op_case_tolerance(
        c, 2 * KG_ROUNDOFF, 4 * KG_ROUNDOFF,
        "F32 rows are copied; a block format's scale * quant - min is rounded at most twice, its min below 4",
        "a block format's scale * quant - min in float32, its min below 4, then one rounding to float16");
    kg_op_case_judge(c, "embedding", &y, n, weight.n_cols, NULL, NULL, &tol);
    kg_op_output_free(&y);
    free(values);
}

void kg_op_case_rmsnorm(struct kg_op_case *c) {
    struct kg_error err;
    size_t rows, cols, weight_rows, weight_cols;
    const float *x = kg_op_case_input(c, "x", &rows, &cols);
    const float *weight = kg_golden_f32(c->golden, "weight", &weight_rows, &weight_cols);
    ck_assert_uint_eq(weight_rows * weight_cols, cols);
    struct kg_op_output y, in_place;
    kg_op_output_init(&c->device, &y, rows * cols, c->activations);
    kg_op_output_init_from(&c->device, &in_place, x, rows * cols, c->activations);
    struct kg_rmsnorm_args args = {
        .activations = c->activations,
        .x = kg_op_device_put_as(&c->device, x, rows * cols, c->activations),
        .weight = kg_op_device_put(&c->device, weight, cols * sizeof *weight),
        .y = y.y,
        .n_rows = (uint32_t)rows,
        .n_cols = (uint32_t)cols,
        .eps = kg_golden_float(c->golden, "eps"),
    };
    kg_op_expect_ok(c->device.backend->ops->rmsnorm(c->device.backend, &args, &err), &err);
    kg_op_output_read_all(&c->device, &y, "rmsnorm");
    float *reference = kg_op_case_reference(c, rows * cols);
    if (reference) {
        const struct kg_rmsnorm_args exact = { KG_PRECISION_F32, x,           weight,   reference,
                                               args.n_rows,      args.n_cols, args.eps, false };
        kg_op_expect_ok(kg_cpu_rmsnorm(NULL, &exact, &err), &err);
    }
    const struct kg_tolerance tol = kg_op_case_tolerance(
        c, (log2((double)cols) + 6) * KG_ROUNDOFF, 0,
        "a float32 tree sum of n squares rounds log2(n) times, root, quotient, product and result a few more",
        "a float32 tree sum of n squares, root, quotient and product, then one rounding to float16");
    kg_op_case_judge(c, "rmsnorm", &y, rows, cols, reference, NULL, &tol);
    args.x = args.y = in_place.y;
    kg_op_expect_ok(c->device.backend->ops->rmsnorm(c->device.backend, &args, &err), &err);
    kg_op_output_read_all(&c->device, &in_place, "rmsnorm in place");
    kg_op_expect_same_bits("rmsnorm in place", &in_place, &y);
    kg_op_output_free(&in_place);
    kg_op_output_free(&y);
}

double *kg_absolute_products(const float *x, const float *w, const float *bias, size_t m, size_t n, size_t k) {
    double *unit = kg_xcalloc(m * n, sizeof *unit);
    for (size_t r = 0; r < m; r++)
        for (size_t o = 0; o < n; o++) {
            double sum = bias ? fabs((double)bias[o]) : 0;
            for (size_t i = 0; i < k; i++) sum += fabs((double)x[r * k + i] * (double)w[o * k + i]);
            unit[r * n + o] = sum;
        }
    return unit;
}

struct kg_tolerance kg_op_case_products(double *unit, size_t n_elems, size_t k, enum kg_dtype dtype,
                                        const float *reference, const float *bias, size_t n_bias) {
    const double sums = (8 + sqrt((double)k)) * KG_ROUNDOFF;
    const double decoding = kg_dtype_info(dtype)->block_elems > 1 ? KG_ROUNDOFF_F16 : 0;
    if (!reference)
        return (struct kg_tolerance){
            .max_abs = sums,
            .why = "in units of sum|x w|: float32 sums of K products err by about sqrt(K) roundings, a few more for "
                   "decoding",
        };
    for (size_t i = 0; i < n_elems; i++)
        unit[i] = unit[i] * (sums + decoding) + KG_ROUNDOFF_F16_ABS * 2 +
                  KG_ROUNDOFF_F16 * (2 * fabs((double)reference[i]) + (bias ? fabs((double)bias[i % n_bias]) : 0));
    return (struct kg_tolerance){ .max_abs = 1,
                                  .why = "in units of (8 + sqrt(K)) 2^-24 sum|x w| for float32 sums, 2^-11 sum|x w| "
                                         "for block formats decoded to float16, and product and sum with the bias "
                                         "rounded to float16" };
}

void kg_op_case_linear(struct kg_op_case *c) {
    struct kg_error err;
    float *values;
    size_t m, k;
    const float *x = kg_op_case_input(c, "x", &m, &k), *bias = NULL;
    const struct kg_weight weight = kg_op_case_weight(c, &values);
    ck_assert_uint_eq(weight.n_cols, k);
    const size_t n = weight.n_rows;
    if (kg_golden_has(c->golden, "bias")) {
        size_t bias_rows, bias_cols;
        bias = kg_golden_f32(c->golden, "bias", &bias_rows, &bias_cols);
        ck_assert_uint_eq(bias_rows * bias_cols, n);
    }
    kg_op_device_workspace(&c->device, (uint32_t)m, (uint32_t)(k > n ? k : n), 1, 1, 64, 64);
    struct kg_op_output y;
    kg_op_output_init(&c->device, &y, m * n, c->activations);
    const struct kg_linear_args args = {
        .activations = c->activations,
        .output = c->activations,
        .x = kg_op_device_put_as(&c->device, x, m * k, c->activations),
        .weight = weight,
        .bias = bias ? kg_op_device_put(&c->device, bias, n * sizeof *bias) : NULL,
        .y = y.y,
        .n_rows = (uint32_t)m,
        .workspace = c->device.workspace,
    };
    kg_op_expect_ok(c->device.backend->ops->linear(c->device.backend, &args, &err), &err);
    kg_op_output_read_all(&c->device, &y, "linear");
    double *unit = kg_absolute_products(x, values, bias, m, n, k);
    float *reference = kg_op_case_reference(c, m * n);
    if (reference) {
        const struct kg_weight decoded = { values, KG_DTYPE_F32, weight.n_rows, weight.n_cols };
        const struct kg_linear_args exact = {
            .x = x, .weight = decoded, .bias = bias, .y = reference, .n_rows = args.n_rows
        };
        kg_op_expect_ok(kg_cpu_linear(NULL, &exact, &err), &err);
    }
    const struct kg_tolerance tol = kg_op_case_products(unit, m * n, k, weight.dtype, reference, bias, n);
    kg_op_case_judge(c, "linear", &y, m, n, reference, unit, &tol);
    free(unit);
    kg_op_output_free(&y);
    free(values);
}

void kg_op_case_rope(struct kg_op_case *c) {
    struct kg_error err;
    size_t rows, cols, factor_rows, n_factors;
    const float *x = kg_op_case_input(c, "x", &rows, &cols), *factors = NULL;
    if (kg_golden_has(c->golden, "factors")) factors = kg_golden_f32(c->golden, "factors", &factor_rows, &n_factors);
    struct kg_op_output y, in_place;
    kg_op_output_init(&c->device, &y, rows * cols, c->activations);
    kg_op_output_init_from(&c->device, &in_place, x, rows * cols, c->activations);
    struct kg_rope_args args = {
        .activations = c->activations,
        .x = kg_op_device_put_as(&c->device, x, rows * cols, c->activations),
        .y = y.y,
        .n_rows = (uint32_t)rows,
        .n_heads = (uint32_t)kg_golden_int(c->golden, "n_heads"),
        .head_dim = (uint32_t)kg_golden_int(c->golden, "head_dim"),
        .position = (uint32_t)kg_golden_int(c->golden, "first_position"),
        .n_rot = (uint32_t)kg_golden_int(c->golden, "n_rot"),
        .pairing = kg_golden_int(c->golden, "interleaved") ? KG_ROPE_INTERLEAVED : KG_ROPE_HALF,
        .freq_base = kg_golden_float(c->golden, "base"),
        .freq_scale = kg_golden_float(c->golden, "scale"),
        .freq_factors = factors ? kg_op_device_put(&c->device, factors, n_factors * sizeof *factors) : NULL,
        .magnitude = kg_op_case_number(c, "magnitude", 1),
    };
    ck_assert_uint_eq((size_t)args.n_heads * args.head_dim, cols);
    if (factors) ck_assert_uint_eq(n_factors, args.n_rot / 2);
    kg_op_expect_ok(c->device.backend->ops->rope(c->device.backend, &args, &err), &err);
    kg_op_output_read_all(&c->device, &y, "rope");
    float *reference = kg_op_case_reference(c, rows * cols);
    if (reference) {
        struct kg_rope_args exact = args;
        exact.activations = KG_PRECISION_F32;
        exact.x = x;
        exact.y = reference;
        exact.freq_factors = factors;
        kg_op_expect_ok(kg_cpu_rope(NULL, &exact, &err), &err);
    }
    const struct kg_tolerance tol = kg_op_case_tolerance(
        c, 0, 4 * KG_ROUNDOFF * sqrt(2) * kg_largest(x, rows * cols) * fmax(1, (double)args.magnitude),
        "cos, sin, two products and a sum in float32 of a pair no longer than sqrt(2) max|x| magnitude; angles are "
        "double",
        "float32 rotations of a pair no longer than sqrt(2) max|x| magnitude, then one rounding to float16");
    kg_op_case_judge(c, "rope", &y, rows, cols, reference, NULL, &tol);
    args.x = args.y = in_place.y;
    kg_op_expect_ok(c->device.backend->ops->rope(c->device.backend, &args, &err), &err);
    kg_op_output_read_all(&c->device, &in_place, "rope in place");
    kg_op_expect_same_bits("rope in place", &in_place, &y);
    kg_op_output_free(&in_place);
    kg_op_output_free(&y);
}

void kg_op_case_add(struct kg_op_case *c) {
    struct kg_error err;
    size_t rows, cols;
    const float *a = kg_op_case_input(c, "a", &rows, &cols), *b = kg_op_case_input(c, "b", &rows, &cols);
    const size_t n = rows * cols;
    struct kg_op_output y, over_a, over_b;
    kg_op_output_init(&c->device, &y, n, c->activations);
    kg_op_output_init_from(&c->device, &over_a, a, n, c->activations);
    kg_op_output_init_from(&c->device, &over_b, b, n, c->activations);
    const void *device_a = kg_op_device_put_as(&c->device, a, n, c->activations);
    const void *device_b = kg_op_device_put_as(&c->device, b, n, c->activations);
    const struct {
        const char *name;
        struct kg_op_output *y;
        const void *a, *b;
    } runs[] = { { "add", &y, device_a, device_b },
                 { "add over a", &over_a, over_a.y, device_b },
                 { "add over b", &over_b, device_a, over_b.y } };
    float *reference = kg_op_case_reference(c, n);
    if (reference) {
        const struct kg_add_args exact = { KG_PRECISION_F32, a, b, reference, (uint32_t)rows, (uint32_t)cols };
        kg_op_expect_ok(kg_cpu_add(NULL, &exact, &err), &err);
    }
    const struct kg_tolerance tol =
        kg_op_case_tolerance(c, KG_ROUNDOFF, 0, "one rounding to float32", "a float32 sum, rounded once to float16");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const struct kg_add_args args = { .activations = c->activations,
                                          .a = runs[i].a,
                                          .b = runs[i].b,
                                          .y = runs[i].y->y,
                                          .n_rows = (uint32_t)rows,
                                          .n_cols = (uint32_t)cols };
        kg_op_expect_ok(c->device.backend->ops->add(c->device.backend, &args, &err), &err);
        kg_op_output_read_all(&c->device, runs[i].y, runs[i].name);
        kg_op_case_judge(c, runs[i].name, runs[i].y, rows, cols, reference, NULL, &tol);
        kg_op_output_free(runs[i].y);
    }
}
