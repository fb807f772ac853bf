/* Comparing computed numbers with expected ones: every element, NaN-safe, with the figures recorded on passes too. */
#ifndef KIGO_SUITES_COMPARE_H
#define KIGO_SUITES_COMPARE_H

#include "suites/harness/case.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kg_compare {
    size_t n;
    size_t n_nonfinite;   /* NaN or infinite in got or want; any fails every tolerance */
    double max_abs;       /* max |got - want| */
    double max_rel;       /* max |got - want| / |want| where |want| > 0 */
    double rms_rel;       /* sqrt(mean (got - want)^2) / sqrt(mean want^2) */
    double nmse;          /* sum (got - want)^2 / sum want^2 */
    double one_minus_cos; /* 1 - cosine of the angle between them */
    size_t worst_index;   /* where max_abs is */
    double worst_got, worst_want;
    /* What was compared (one of the wants), for limits judged element by element; must live until then. */
    const float *got;
    const float *want_f32;
    const double *want_f64;
};

/* With any value that is not finite every figure is infinite and worst_index is the first such value.
 * want in double so that float64 references keep their digits. */
void kg_compare_f64(const float *got, const double *want, size_t n, struct kg_compare *out);
void kg_compare_f32(const float *got, const float *want, size_t n, struct kg_compare *out);

/* Limits; 0 means not limited, at least one must be. A mixed limit accepts |got - want| <= abs + rel * |want|. */
struct kg_tolerance {
    double max_abs;
    double nmse;
    double one_minus_cos;
    double mixed_abs, mixed_rel;
    const char *why; /* required: where the figure comes from */
    const char *far; /* why the limit may be more than 30 times the worst error measured; NULL: it is not */
};

/* For limits that all back ends share: the reason on cpu, NULL on any other. */
const char *kg_far_on_cpu(const struct kg_record *rec);

/* Why a tolerance cannot be judged (no limit, a negative one, no why), NULL if it can. */
const char *kg_tolerance_problem(const struct kg_tolerance *tol);

/* True if within; *margin (may be NULL) is the largest err/limit, infinite for non-finite values. A tolerance that
 * cannot be judged, or n = 0, fails the case, so that neither a check nor a mutant's check can pass by it. */
bool kg_within(const struct kg_compare *c, const struct kg_tolerance *tol, double *margin);

/* Compares, records the figures, rule, reason and margin under `name`, and fails the case if outside. */
void kg_expect_close_f32(struct kg_record *rec, const char *name, const float *got, const float *want, size_t n,
                         const struct kg_tolerance *tol);
void kg_expect_close_f64(struct kg_record *rec, const char *name, const float *got, const double *want, size_t n,
                         const struct kg_tolerance *tol);
/* Records the figures of a comparison that the caller fails the case for if it is outside; the runner does not take a
 * case that passed with one that is. */
void kg_record_judged(struct kg_record *rec, const char *name, const struct kg_compare *c,
                      const struct kg_tolerance *tol);
/* Records figures without judging, of mutants alone: the caller asserts that the tolerance is exceeded. */
void kg_record_compare(struct kg_record *rec, const char *name, const struct kg_compare *c,
                       const struct kg_tolerance *tol);

/* An output buffer of n floats, poisoned with NaN, with sentinels before and after. */
struct kg_guarded {
    float *data; /* n elements */
    size_t n;
    void *block; /* sentinels, data, sentinels: block_bytes in all */
    size_t block_bytes;
};
void kg_guarded_init(struct kg_guarded *g, size_t n);
/* Fails the case if a sentinel changed. */
void kg_guarded_expect_intact(const struct kg_guarded *g, const char *name);
/* Fails the case if a sentinel changed or an element is still poisoned (or is NaN or infinite). */
void kg_guarded_expect_written(const struct kg_guarded *g, const char *name);
/* As kg_guarded_expect_written, but NaN and infinities are let be: for answers that are to be wrong. */
void kg_guarded_expect_filled(const struct kg_guarded *g, const char *name);
void kg_guarded_free(struct kg_guarded *g);

/* Fills all of x with distinct, non-zero normal values from the seed. */
void kg_fill_normal(float *x, size_t n, uint64_t seed, double mean, double deviation);

#endif
