/* router, experts_linear and experts_combine against their goldens. */
#include "base/buffer.h"
#include "suites/support/op_cases.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The largest difference between two of the chosen logits of a row. */
static double largest_gap(const float *logits, size_t n_experts, const int32_t *ids, size_t rows, size_t n_used) {
    double gap = 0;
    for (size_t r = 0; r < rows; r++, logits += n_experts, ids += n_used)
        gap = fmax(gap, (double)logits[ids[0]] - (double)logits[ids[n_used - 1]]);
    return gap;
}

void kg_op_case_router(struct kg_op_case *c) {
    struct kg_error err;
    size_t rows, n_experts, out_rows, n_used, n;
    const float *logits = kg_golden_f32(c->golden, "logits", &rows, &n_experts);
    const int32_t *want_ids = kg_golden_i32(c->golden, "ids", &n);
    (void)kg_golden_f64(c->golden, "out", &out_rows, &n_used);
    ck_assert_uint_eq(out_rows, rows);
    ck_assert_int_eq(kg_golden_int(c->golden, "n_used"), (int)n_used);
    ck_assert_uint_eq(n, rows * n_used);
    struct kg_op_output ids, weights;
    kg_op_output_init(&c->device, &ids, n, KG_PRECISION_F32); /* of four bytes an element, as int32 */
    kg_op_output_init(&c->device, &weights, n, KG_PRECISION_F32);
    const struct kg_router_args args = { .logits =
                                             kg_op_device_put(&c->device, logits, rows * n_experts * sizeof *logits),
                                         .ids = ids.y,
                                         .weights = weights.y,
                                         .n_rows = (uint32_t)rows,
                                         .n_experts = (uint32_t)n_experts,
                                         .n_used = (uint32_t)n_used };
    kg_op_expect_ok(c->device.backend->ops->router(c->device.backend, &args, &err), &err);
    kg_op_output_read_all(&c->device, &ids, "router's ids");
    kg_op_output_read_all(&c->device, &weights, "router's weights");
    float *want = kg_op_device_own(&c->device, kg_xcalloc(n, sizeof *want));
    for (size_t i = 0; i < n; i++) {
        int32_t id;
        memcpy(&id, &ids.host.data[i], sizeof id);
        ids.host.data[i] = (float)id;
        want[i] = (float)want_ids[i];
    }
    const struct kg_tolerance same = { .max_abs = 0.5,
                                       .why = "the same experts in the same order: whole numbers",
                                       .far = "between the right number and any other" };
    kg_op_case_judge(c, "router's ids", &ids, rows, n_used, want, NULL, &same);
    const double gap = largest_gap(logits, n_experts, want_ids, rows, n_used);
    const struct kg_tolerance tol = {
        .mixed_rel = (2 * gap + log2((double)n_used) + 16) * KG_ROUNDOFF,
        .mixed_abs = 0x1p-147,
        .why = "a float32 exponential of a difference that is rounded once, and so by up to the row's largest, over a "
               "float32 sum of such; a few units of the smallest number",
    };
    kg_op_case_judge(c, "router's weights", &weights, rows, n_used, NULL, NULL, &tol);
    kg_op_output_free(&weights);
    kg_op_output_free(&ids);
}

/* Each row's bias, absolute products and, in f16, reference are those of a linear of one row by its expert's matrix. */
static void by_expert(const struct kg_experts_linear_args *a, const float *x, const float *values, const float *bias,
                      const int32_t *ids, double *unit, float *row_bias, float *reference) {
    const size_t k = a->weight.n_cols, n = a->weight.n_rows / a->n_experts;
    struct kg_error err;
    for (size_t r = 0; r < a->n_rows; r++) {
        const size_t first = (size_t)ids[r] * n;
        const float *row = x + r / a->n_sharing * k, *own_bias = bias ? bias + first : NULL;
        double *products = kg_absolute_products(row, values + first * k, own_bias, 1, n, k);
        for (size_t o = 0; o < n; o++) {
            unit[r * n + o] = products[o];
            row_bias[r * n + o] = own_bias ? own_bias[o] : 0;
        }
        free(products);
        const struct kg_linear_args exact = { .x = row,
                                              .weight = { values + first * k, KG_DTYPE_F32, (uint32_t)n, (uint32_t)k },
                                              .bias = own_bias,
                                              .y = reference ? reference + r * n : NULL,
                                              .n_rows = 1 };
        if (reference) kg_op_expect_ok(kg_cpu_linear(NULL, &exact, &err), &err);
    }
}

void kg_op_case_experts_linear(struct kg_op_case *c) {
    struct kg_error err;
    float *values;
    size_t x_rows, k, n_rows, n_experts, n = 0, out_rows, n_bias = 0;
    const float *x = kg_op_case_input(c, "x", &x_rows, &k), *bias = NULL;
    const int32_t *ids = kg_golden_i32(c->golden, "ids", &n_rows);
    const struct kg_weight weight = kg_op_case_weight(c, &values);
    (void)kg_golden_f64(c->golden, "out", &out_rows, &n);
    ck_assert_uint_eq(out_rows, n_rows);
    n_experts = weight.n_rows / n;
    if (kg_golden_has(c->golden, "bias")) {
        size_t bias_rows;
        bias = kg_golden_f32(c->golden, "bias", &bias_rows, &n_bias);
        ck_assert_uint_eq(bias_rows, n_experts);
        ck_assert_uint_eq(n_bias, n);
    }
    kg_op_device_workspace(&c->device, (uint32_t)n_rows, (uint32_t)(k > n ? k : n), 1, 1, 64, 64);
    struct kg_op_output y;
    kg_op_output_init(&c->device, &y, n_rows * n, c->activations);
    const struct kg_experts_linear_args args = {
        .activations = c->activations,
        .x = kg_op_device_put_as(&c->device, x, x_rows * k, c->activations),
        .weight = weight,
        .n_experts = (uint32_t)n_experts,
        .bias = bias ? kg_op_device_put(&c->device, bias, n_experts * n * sizeof *bias) : NULL,
        .ids = kg_op_device_put(&c->device, ids, n_rows * sizeof *ids),
        .y = y.y,
        .n_rows = (uint32_t)n_rows,
        .n_sharing = (uint32_t)(n_rows / x_rows),
        .workspace = c->device.workspace,
    };
    kg_op_expect_ok(c->device.backend->ops->experts_linear(c->device.backend, &args, &err), &err);
    kg_op_output_read_all(&c->device, &y, "experts_linear");
    double *unit = kg_xcalloc(n_rows * n, sizeof *unit);
    float *row_bias = kg_xcalloc(n_rows * n, sizeof *row_bias), *reference = kg_op_case_reference(c, n_rows * n);
    by_expert(&args, x, values, bias, ids, unit, row_bias, reference);
    const struct kg_tolerance tol =
        kg_op_case_products(unit, n_rows * n, k, weight.dtype, reference, row_bias, n_rows * n);
    kg_op_case_judge(c, "experts_linear", &y, n_rows, n, reference, unit, &tol);
    free(row_bias);
    free(unit);
    kg_op_output_free(&y);
    free(values);
}

void kg_op_case_experts_combine(struct kg_op_case *c) {
    struct kg_error err;
    size_t all_rows, cols, rows, n_used, residual_rows, residual_cols;
    const float *x = kg_op_case_input(c, "x", &all_rows, &cols), *residual = NULL;
    const float *weights = kg_golden_f32(c->golden, "weights", &rows, &n_used);
    ck_assert_uint_eq(all_rows, rows * n_used);
    if (kg_golden_has(c->golden, "residual"))
        residual = kg_op_case_input(c, "residual", &residual_rows, &residual_cols);
    struct kg_op_output y, in_place;
    kg_op_output_init(&c->device, &y, rows * cols, c->activations);
    struct kg_experts_combine_args args = {
        .activations = c->activations,
        .x = kg_op_device_put_as(&c->device, x, all_rows * cols, c->activations),
        .weights = kg_op_device_put(&c->device, weights, rows * n_used * sizeof *weights),
        .residual = residual ? kg_op_device_put_as(&c->device, residual, rows * cols, c->activations) : NULL,
        .y = y.y,
        .n_rows = (uint32_t)rows,
        .n_used = (uint32_t)n_used,
        .n_cols = (uint32_t)cols,
    };
    kg_op_expect_ok(c->device.backend->ops->experts_combine(c->device.backend, &args, &err), &err);
    kg_op_output_read_all(&c->device, &y, "experts_combine");
    float *reference = kg_op_case_reference(c, rows * cols);
    if (reference) {
        const struct kg_experts_combine_args exact = { KG_PRECISION_F32, x,           weights,     residual,
                                                       reference,        args.n_rows, args.n_used, args.n_cols };
        kg_op_expect_ok(kg_cpu_experts_combine(NULL, &exact, &err), &err);
    }
    const double largest = kg_largest(x, all_rows * cols) + (residual ? kg_largest(residual, rows * cols) : 0);
    const struct kg_tolerance tol = kg_op_case_tolerance(
        c, KG_ROUNDOFF, ((double)n_used + 1) * KG_ROUNDOFF * largest,
        "a product and a sum in float32 for each expert, of weights that sum to 1, and one for the residual",
        "the float32 result, then one rounding to float16");
    kg_op_case_judge(c, "experts_combine", &y, rows, cols, reference, NULL, &tol);
    if (residual) {
        kg_op_output_init_from(&c->device, &in_place, residual, rows * cols, c->activations);
        args.residual = args.y = in_place.y;
        kg_op_expect_ok(c->device.backend->ops->experts_combine(c->device.backend, &args, &err), &err);
        kg_op_output_read_all(&c->device, &in_place, "experts_combine over the residual");
        kg_op_expect_same_bits("experts_combine over the residual", &in_place, &y);
        kg_op_output_free(&in_place);
    }
    kg_op_output_free(&y);
}
