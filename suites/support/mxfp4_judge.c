#include "base/buffer.h"
#include "suites/support/mxfp4_values.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static size_t n_of(const struct kg_mxfp4_value *v) {
    return (size_t)v->rows * v->cols;
}

/* What an element may be off where one percent of it is less. Sums in float32 leave up to 1e-6 of the outputs' root
 * mean square in elements of any size: 1e-5 of it serves. What operations round to float16 between them is
 * NOISE_DEVIATIONS of the element's own deviation: a term of a sum is off by 2e-4 of itself for each rounding on its
 * way, and where large terms cancel that is percents of the rest. An error beyond six deviations comes once in 5e8
 * elements, the suites have 1e7. */
static const double RELATIVE_ERROR = 0.01, NOISE_DEVIATIONS = 6, OF_RMS = 1e-5;

/* So that the floor does not become the test: a product after one nonlinearity has a sixth of its elements below, a
 * gate a third, those that saturated. */
static const double MOST_BELOW = 0.4;

static double noise_floor(const struct kg_mxfp4_value *v, size_t i, double rms) {
    return fmax(OF_RMS * rms, NOISE_DEVIATIONS * sqrt(v->variance[i]));
}

static double rms_of(const double *exact, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += exact[i] * exact[i];
    return sqrt(sum / (double)n);
}

static void judge_one(struct kg_mxfp4_run *r, const char *name, const struct kg_compare *c,
                      const struct kg_tolerance *tol) {
    double margin = INFINITY;
    const bool within = kg_within(c, tol, &margin);
    (r->margin ? kg_record_compare : kg_record_judged)(r->rec, name, c, tol);
    if (r->margin) *r->margin = fmax(*r->margin, margin);
    else
        ck_assert_msg(within, "%s: at %.4g of its limit, NMSE %.4g, largest difference %.4g: element %zu is %g, not %g",
                      name, margin, c->nmse, c->max_abs, c->worst_index, c->worst_got, c->worst_want);
}

/* As metrics, not as errors: nothing limits them. */
static void record_unquantised(struct kg_mxfp4_run *r, const char *name, const struct kg_mxfp4_value *value) {
    struct kg_compare c;
    char metric[96];
    kg_compare_f64(value->y.host.data, value->plain, n_of(value), &c);
    snprintf(metric, sizeof metric, "%s.unquantised.nmse", name);
    kg_record_metric(r->rec, metric, "abs", c.nmse);
    snprintf(metric, sizeof metric, "%s.unquantised.max_abs", name);
    kg_record_metric(r->rec, metric, "abs", c.max_abs);
}

void kg_mxfp4_judge(struct kg_mxfp4_run *r, const char *name, struct kg_mxfp4_value *value) {
    static const struct kg_tolerance NMSE = {
        .nmse = 1e-5,
        .why = "an error of 0.3% of the outputs' size; float16 between operations makes 2e-7, swapped nibbles 1"
    };
    static const struct kg_tolerance RELATIVE = {
        .max_abs = 0.01,
        .why =
            "1% of every element, or the noise floor if that is larger: 1e-5 of the outputs' root mean square, or six "
            "deviations of what rounding to float16 between the operations leaves in that element"
    };
    const size_t n = n_of(value);
    const double rms = rms_of(value->exact, n);
    struct kg_compare c;
    char relative[96];
    kg_op_output_read(&r->device, &value->y);
    if (r->margin) kg_guarded_expect_filled(&value->y.host, name); /* a mutant's may be infinite: its margin is */
    else kg_guarded_expect_written(&value->y.host, name);
    kg_compare_f64(value->y.host.data, value->exact, n, &c);
    judge_one(r, name, &c, &NMSE);
    float *got = kg_xcalloc(n, sizeof *got);
    double *want = kg_xcalloc(n, sizeof *want);
    size_t n_below = 0, n_drowned = 0; /* the second: by rounding, not by being small among large ones */
    for (size_t i = 0; i < n; i++) {
        const double one_percent = RELATIVE_ERROR * fabs(value->exact[i]), floor = noise_floor(value, i, rms);
        const double unit = fmax(one_percent, floor) / RELATIVE_ERROR;
        n_below += one_percent < floor;
        n_drowned += one_percent < floor && floor > OF_RMS * rms;
        want[i] = value->exact[i] / unit;
        got[i] = (float)(value->y.host.data[i] / unit);
    }
    kg_compare_f64(got, want, n, &c);
    snprintf(relative, sizeof relative, "%s.relative", name);
    judge_one(r, relative, &c, &RELATIVE);
    snprintf(relative, sizeof relative, "%s.below_floor", name);
    kg_record_metric(r->rec, relative, "ratio", (double)n_below / (double)n);
    if (!r->margin && (double)n_drowned > MOST_BELOW * (double)n)
        ck_abort_msg("%s: %zu of %zu elements are below what rounding leaves in them", name, n_drowned, n);
    record_unquantised(r, name, value);
    free(want);
    free(got);
}
