#include "suites/harness/compare.h"
#include "base/size.h"
#include "suites/harness/record.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *tolerance_json(const struct kg_tolerance *tol) {
    const struct {
        const char *name;
        double limit;
    } rows[] = {
        { "max_abs", tol->max_abs },     { "nmse", tol->nmse },           { "one_minus_cos", tol->one_minus_cos },
        { "mixed_abs", tol->mixed_abs }, { "mixed_rel", tol->mixed_rel },
    };
    json_t *object = json_object();
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++)
        if (rows[i].limit > 0) json_object_set_new(object, rows[i].name, json_real(rows[i].limit));
    return object;
}

const char *kg_far_on_cpu(const struct kg_record *rec) {
    return rec->c->backend && strcmp(rec->c->backend, "cpu") == 0
               ? "the limit is the GPU's: cpu sums in double and is its own reference, so that at most a rounding "
                 "differs"
               : NULL;
}

/* Of so many significant decimal digits: what an error has beyond six tells nothing, and is most of what a bundle would
 * keep of it; nine tell all float32 apart. */
enum { ERROR_DIGITS = 6, ELEMENT_DIGITS = 9 };
static double rounded(double value, int digits) {
    char text[32];
    if (!isfinite(value)) return value;
    snprintf(text, sizeof text, "%.*e", digits - 1, value);
    return strtod(text, NULL);
}

static json_t *error_json(double value) {
    return kg_record_json_number(rounded(value, ERROR_DIGITS));
}
static json_t *element_json(double value) {
    return kg_record_json_number(rounded(value, ELEMENT_DIGITS));
}
/* Never to the other side of the limit, 1. */
static json_t *margin_json(double margin) {
    const double nearest = rounded(margin, ERROR_DIGITS);
    return kg_record_json_number((nearest > 1) == (margin > 1) ? nearest : margin);
}

/* judged: whether being outside fails the case. */
static void append_errors(struct kg_record *rec, const char *name, const struct kg_compare *c,
                          const struct kg_tolerance *tol, double margin, bool judged) {
    json_t *error =
        json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:s, s:o, s:b}", "name", name, "n",
                  (json_int_t)c->n, "n_nonfinite", (json_int_t)c->n_nonfinite, "max_abs", error_json(c->max_abs),
                  "max_rel", error_json(c->max_rel), "rms_rel", error_json(c->rms_rel), "nmse", error_json(c->nmse),
                  "one_minus_cos", error_json(c->one_minus_cos), "worst_index", (json_int_t)c->worst_index, "worst_got",
                  element_json(c->worst_got), "worst_want", element_json(c->worst_want), "tolerance",
                  tolerance_json(tol), "why", tol->why, "margin", margin_json(margin), "judged", judged);
    if (tol->far) json_object_set_new(error, "far", json_string(tol->far));
    json_array_append_new(rec->errors, error);
}

static void append_compared(struct kg_record *rec, const char *name, const struct kg_compare *c,
                            const struct kg_tolerance *tol, bool judged) {
    double margin;
    (void)kg_within(c, tol, &margin);
    append_errors(rec, name, c, tol, margin, judged);
}

void kg_record_judged(struct kg_record *rec, const char *name, const struct kg_compare *c,
                      const struct kg_tolerance *tol) {
    append_compared(rec, name, c, tol, true);
}

void kg_record_compare(struct kg_record *rec, const char *name, const struct kg_compare *c,
                       const struct kg_tolerance *tol) {
    append_compared(rec, name, c, tol, false);
}

static void expect_close(struct kg_record *rec, const char *name, const struct kg_compare *c,
                         const struct kg_tolerance *tol) {
    double margin;
    const bool within = kg_within(c, tol, &margin);
    append_errors(rec, name, c, tol, margin, true);
    if (!within)
        ck_abort_msg("%s: outside its tolerance by a factor of %.4g (%s): at [%zu] of %zu got %.9g, want %.9g; "
                     "%zu not finite, max_abs %.3g, max_rel %.3g, nmse %.3g, 1-cos %.3g",
                     name, margin, tol->why, c->worst_index, c->n, c->worst_got, c->worst_want, c->n_nonfinite,
                     c->max_abs, c->max_rel, c->nmse, c->one_minus_cos);
}

void kg_expect_close_f32(struct kg_record *rec, const char *name, const float *got, const float *want, size_t n,
                         const struct kg_tolerance *tol) {
    struct kg_compare c;
    kg_compare_f32(got, want, n, &c);
    expect_close(rec, name, &c, tol);
}

void kg_expect_close_f64(struct kg_record *rec, const char *name, const float *got, const double *want, size_t n,
                         const struct kg_tolerance *tol) {
    struct kg_compare c;
    kg_compare_f64(got, want, n, &c);
    expect_close(rec, name, &c, tol);
}
