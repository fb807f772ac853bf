#include "suites/harness/compare.h"
#include <check.h>
#include <math.h>

static double wanted(const struct kg_compare *c, size_t i) {
    return c->want_f64 ? c->want_f64[i] : (double)c->want_f32[i];
}

/* NaN and infinities would hide in sums and maxima: with any, every figure is infinite. */
static void set_infinite(struct kg_compare *c) {
    c->max_abs = c->max_rel = c->rms_rel = c->nmse = c->one_minus_cos = INFINITY;
}

/* 1 - cos = |got/|got| - want/|want||^2 / 2, which keeps its digits where 1 - dot/(|got||want|) loses all. */
static double one_minus_cosine(const struct kg_compare *c, double got_norm, double want_norm) {
    if (got_norm == 0 || want_norm == 0) return got_norm == want_norm ? 0 : 1;
    double sum = 0;
    for (size_t i = 0; i < c->n; i++) {
        const double d = c->got[i] / got_norm - wanted(c, i) / want_norm;
        sum += d * d;
    }
    return sum / 2;
}

static void compute(struct kg_compare *c) {
    double sum_error2 = 0, sum_got2 = 0, sum_want2 = 0;
    for (size_t i = 0; i < c->n; i++) {
        const double got = c->got[i], want = wanted(c, i);
        const bool finite = isfinite(got) && isfinite(want);
        const double error = fabs(got - want);
        if (!finite && c->n_nonfinite++ == 0) c->worst_index = i; /* the first, whatever else is wrong */
        if (!finite) continue;
        if (error > c->max_abs) {
            c->max_abs = error;
            if (c->n_nonfinite == 0) c->worst_index = i;
        }
        if (want != 0 && error / fabs(want) > c->max_rel) c->max_rel = error / fabs(want);
        sum_error2 += error * error;
        sum_got2 += got * got;
        sum_want2 += want * want;
    }
    if (c->n == 0) return;
    c->worst_got = c->got[c->worst_index];
    c->worst_want = wanted(c, c->worst_index);
    if (c->n_nonfinite > 0 || !isfinite(sum_error2 + sum_got2 + sum_want2)) {
        set_infinite(c);
        return;
    }
    c->nmse = sum_error2 == 0 ? 0 : sum_error2 / sum_want2; /* infinite where all wanted values are zero */
    c->rms_rel = sqrt(c->nmse);
    c->one_minus_cos = one_minus_cosine(c, sqrt(sum_got2), sqrt(sum_want2));
}

void kg_compare_f64(const float *got, const double *want, size_t n, struct kg_compare *out) {
    *out = (struct kg_compare){ .n = n, .got = got, .want_f64 = want };
    compute(out);
}

void kg_compare_f32(const float *got, const float *want, size_t n, struct kg_compare *out) {
    *out = (struct kg_compare){ .n = n, .got = got, .want_f32 = want };
    compute(out);
}

const char *kg_tolerance_problem(const struct kg_tolerance *tol) {
    const double limits[] = { tol->max_abs, tol->nmse, tol->one_minus_cos, tol->mixed_abs, tol->mixed_rel };
    bool any = false;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (!(limits[i] >= 0) || !isfinite(limits[i])) return "a limit is negative or not finite";
        any = any || limits[i] > 0;
    }
    if (!any) return "no limit is set, so nothing could fail";
    if (!tol->why || !*tol->why) return "it does not say why";
    return NULL;
}

static double ratio(double error, double limit) {
    if (error == 0) return 0;
    return limit > 0 ? error / limit : INFINITY;
}

/* The largest |got - want| / (abs + rel |want|) of all elements. */
static double mixed_margin(const struct kg_compare *c, const struct kg_tolerance *tol) {
    double largest = 0;
    for (size_t i = 0; i < c->n; i++) {
        const double want = wanted(c, i);
        largest = fmax(largest, ratio(fabs(c->got[i] - want), tol->mixed_abs + tol->mixed_rel * fabs(want)));
    }
    return largest;
}

bool kg_within(const struct kg_compare *c, const struct kg_tolerance *tol, double *margin) {
    const char *problem = kg_tolerance_problem(tol);
    if (problem) ck_abort_msg("a tolerance cannot be judged: %s", problem);
    if (c->n == 0) ck_abort_msg("nothing was compared: n = 0");
    double largest = 0;
    if (tol->max_abs > 0) largest = fmax(largest, c->max_abs / tol->max_abs);
    if (tol->nmse > 0) largest = fmax(largest, c->nmse / tol->nmse);
    if (tol->one_minus_cos > 0) largest = fmax(largest, c->one_minus_cos / tol->one_minus_cos);
    if (c->n_nonfinite > 0) largest = INFINITY;
    else if (tol->mixed_abs > 0 || tol->mixed_rel > 0) largest = fmax(largest, mixed_margin(c, tol));
    if (margin) *margin = largest;
    return largest <= 1;
}
