#include "base/buffer.h"
#include "suites/support/op_cases.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

/* bound[i] = what may be off of element i. With E = exp(-alpha g) in y = g / (1 + E) * (u + up_offset): -alpha g is
 * rounded once, unless alpha is 1, which moves E by |alpha g| 2^-24 of itself, and y by E / (1 + E) of that. From 2^128
 * on, less the rounding of E's exponent, E is infinite and y 0, which is off by y itself: below |g (u + up_offset)|
 * 2^-128 but for that. */
static double *swiglu_bounds(const struct kg_op_case *c, const struct kg_swiglu_args *exact, const float *reference,
                             size_t n) {
    size_t rows, cols;
    const double *golden = kg_golden_f64(c->golden, "out", &rows, &cols);
    const float *gate = exact->gate, *up = exact->up;
    double *bound = kg_xcalloc(n, sizeof *bound);
    ck_assert_uint_eq(rows * cols, n);
    for (size_t i = 0; i < n; i++) {
        const double limit = exact->limit > 0 ? (double)exact->limit : INFINITY;
        const double g = fmin((double)gate[i], limit), u = fmax(fmin((double)up[i], limit), -limit);
        const double exponent = (double)exact->alpha * g;
        const double moved = exact->alpha == 1 ? 0 : fmin(fabs(exponent), 88) / (1 + exp(exponent));
        const double want = fabs(reference ? (double)reference[i] : golden[i]);
        const double lost = fabs(g * (u + (double)exact->up_offset)) * 0x1.001p-128;
        bound[i] = (8 + moved) * KG_ROUNDOFF * want + lost + 0x1p-149;
        if (reference) bound[i] += KG_ROUNDOFF_F16 * want + KG_ROUNDOFF_F16_ABS;
    }
    return bound;
}

void kg_op_case_swiglu(struct kg_op_case *c) {
    struct kg_error err;
    size_t rows, cols;
    const float *gate = kg_op_case_input(c, "gate", &rows, &cols), *up = kg_op_case_input(c, "up", &rows, &cols);
    const size_t n = rows * cols;
    struct kg_op_output y, over_gate, over_up;
    kg_op_output_init(&c->device, &y, n, c->activations);
    kg_op_output_init_from(&c->device, &over_gate, gate, n, c->activations);
    kg_op_output_init_from(&c->device, &over_up, up, n, c->activations);
    const void *device_gate = kg_op_device_put_as(&c->device, gate, n, c->activations);
    const void *device_up = kg_op_device_put_as(&c->device, up, n, c->activations);
    const struct {
        const char *name;
        struct kg_op_output *y;
        const void *gate, *up;
    } runs[] = {
        { "swiglu", &y, device_gate, device_up },
        { "swiglu over gate", &over_gate, over_gate.y, device_up },
        { "swiglu over up", &over_up, device_gate, over_up.y },
    };
    float *reference = kg_op_case_reference(c, n);
    const struct kg_swiglu_args exact = { .gate = gate,
                                          .up = up,
                                          .y = reference,
                                          .n_rows = (uint32_t)rows,
                                          .n_cols = (uint32_t)cols,
                                          .limit = kg_op_case_number(c, "limit", 0),
                                          .alpha = kg_op_case_number(c, "alpha", 1),
                                          .up_offset = kg_op_case_number(c, "up_offset", 0) };
    if (reference) kg_op_expect_ok(kg_cpu_swiglu(NULL, &exact, &err), &err);
    double *bound = swiglu_bounds(c, &exact, reference, n);
    const struct kg_tolerance tol = { .max_abs = 1,
                                      .why = "in units of |y| 2^-24 (8 + |alpha g| E / (1 + E)): E = exp(-alpha g) "
                                             "within two units in the last place, of "
                                             "an exponent rounded once unless alpha is 1; sums, a quotient and a "
                                             "product; exp overflows at 2^128; and "
                                             "of one rounding to float16 where that is the precision" };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct kg_swiglu_args args = exact;
        args.activations = c->activations;
        args.gate = runs[i].gate, args.up = runs[i].up, args.y = runs[i].y->y;
        kg_op_expect_ok(c->device.backend->ops->swiglu(c->device.backend, &args, &err), &err);
        kg_op_output_read_all(&c->device, runs[i].y, runs[i].name);
        kg_op_case_judge(c, runs[i].name, runs[i].y, rows, cols, reference, bound, &tol);
        kg_op_output_free(runs[i].y);
    }
    free(bound);
}
