#include "base/buffer.h"
#include "suites/support/mxfp4_values.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    (r->margin && !r->is_control ? kg_record_compare : kg_record_judged)(r->rec, name, c, tol);
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

/* The limits of a result, by what rounds in it: theory's where one rounding is all, else four to ten times the worst
 * error of all forms on both back ends, within which other forms and seeds stay. */
struct limits {
    double nmse, relative;
};

static struct limits limits_of(const struct kg_mxfp4_run *r, const struct kg_mxfp4_value *value) {
    static const struct limits ONE_ROUNDING = { 0x1p-48, 0x1p-22 };     /* and one of the quotient that is compared */
    static const struct limits F16 = { 1.25e-6, RELATIVE_ERROR };       /* measured 3.3e-7, 0.0067 */
    static const struct limits WEIGHED = { 1.25e-12, RELATIVE_ERROR };  /* 3.3e-13, 9e-4 */
    static const struct limits F64_SUMS = { 3e-14, 1e-3 };              /* 1.4e-14 (a softmax), 1.4e-4 */
    static const struct limits F32_SUMS = { 1.25e-12, RELATIVE_ERROR }; /* 1.1e-13, 1.6e-3 */
    static const struct limits F16_TO_F32 = { 1e-13, 6e-4 };            /* 1.1e-14, 7.4e-5: exact inputs */
    const bool on_cpu = strcmp(r->device.backend->ops->name, "cpu") == 0;
    if (value->y.precision == KG_PRECISION_F16) return F16;
    if (value->is_copy || (on_cpu && value->n_roundings <= 1)) return ONE_ROUNDING;
    if (value->by_weights) return WEIGHED;
    return on_cpu ? F64_SUMS : r->activations == KG_PRECISION_F16 ? F16_TO_F32 : F32_SUMS;
}

void kg_mxfp4_judge(struct kg_mxfp4_run *r, const char *name, struct kg_mxfp4_value *value) {
    const struct limits limits = limits_of(r, value);
    const struct kg_tolerance nmse = {
        .nmse = limits.nmse,
        .why = "by what rounds: 2^-48 after one rounding to float32, ten times the worst of longer sums, 1.25e-6 where "
               "float16 is between the operations; swapped nibbles make 1",
    };
    const struct kg_tolerance relative_to_each = {
        .max_abs = limits.relative,
        .why = "a share of every element, or of its noise floor if that is larger: a thousandth of the outputs' root "
               "mean square, or 600 deviations of what rounding to float16 between the operations leaves in it",
    };
    const size_t n = n_of(value);
    const double rms = rms_of(value->exact, n);
    struct kg_compare c;
    char relative[96];
    kg_op_output_read(&r->device, &value->y);
    if (r->margin) kg_guarded_expect_filled(&value->y.host, name); /* a mutant's may be infinite: its margin is */
    else kg_guarded_expect_written(&value->y.host, name);
    kg_compare_f64(value->y.host.data, value->exact, n, &c);
    judge_one(r, name, &c, &nmse);
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
    judge_one(r, relative, &c, &relative_to_each);
    snprintf(relative, sizeof relative, "%s.below_floor", name);
    kg_record_metric(r->rec, relative, "ratio", (double)n_below / (double)n);
    if (!r->margin && (double)n_drowned > MOST_BELOW * (double)n)
        ck_abort_msg("%s: %zu of %zu elements are below what rounding leaves in them", name, n_drowned, n);
    record_unquantised(r, name, value);
    free(want);
    free(got);
}
