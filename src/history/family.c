#include "history/family.h"
#include "base/buffer.h"
#include "measure/robust.h"
#include "measure/statistics.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const double LEAST_SIGMA = 1e-4;
static const double TENTH = 1.2815515655446004; /* of normal values, a tenth lies further below the centre, in sigmas */
enum { FEWEST = 5, WIDE_ENOUGH = 30 };          /* runs; figures whose lower tenth is a tenth */

static int descending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static size_t values_of(const double *by_run, size_t n_runs, double *values) {
    size_t n = 0;
    for (size_t j = 0; j < n_runs; j++)
        if (!isnan(by_run[j])) values[n++] = by_run[j];
    return n;
}

/* Own tails: the third highest value tells of a second mode, or of a tail on one side, that a median distance does not
 * see. */
static double upper_reach(double *values, size_t n, double centre) {
    enum { THIRD = 2 };
    if (n <= 2 * THIRD) return 0;
    qsort(values, n, sizeof *values, descending);
    return values[THIRD] - centre;
}

struct fit {
    double centre, sigma, own, reach;
    size_t n;
};

/* Draws own sigmas towards their median, by as much as their scatter is no more than few values explain, and no further
 * than their own error: a noisy figure among quiet ones stays noisy. */
static void share_scales(struct fit *fits, size_t n_figures) {
    double *logs = kg_xcalloc(n_figures + 1, sizeof *logs);
    double explained = 0;
    size_t n = 0;
    for (size_t i = 0; i < n_figures; i++) {
        fits[i].sigma = fits[i].own;
        if (fits[i].n < FEWEST) continue;
        logs[n++] = log(fits[i].own);
        explained += kg_robust_sigma_log_variance(fits[i].n);
    }
    if (n >= 10) {
        const double spread = kg_robust_sigma(logs, n), middle = kg_median(logs, n);
        const double spread2 = fmax(0, spread * spread - explained / (double)n);
        for (size_t i = 0; i < n_figures; i++) {
            if (fits[i].n < FEWEST) continue;
            const double own2 = kg_robust_sigma_log_variance(fits[i].n), away = log(fits[i].own) - middle;
            const double pulled = away * own2 / (spread2 + own2), most = sqrt(own2);
            fits[i].sigma = fits[i].own * exp(-fmax(-3 * most, fmin(most, pulled)));
        }
    }
    free(logs);
}

/* Per run: how much wider than a usual one its lower side is. */
static double width_of(const double *below, size_t n) {
    return n >= WIDE_ENOUGH ? fmax(1, kg_percentile_sorted(below, n, 90) / TENTH) : 1;
}

static int ascending(const void *a, const void *b) {
    return -descending(a, b);
}

/* The rank alone says 1 in n + 1; the margin is what makes it less, and what makes up for few runs. */
static double margin_of(size_t n_baseline) {
    return n_baseline >= 20 ? 1.1 : 1.1 + 0.5 * (20.0 / (double)n_baseline - 1) / 3;
}

static void find_limits(const double *farthest, size_t n_runs, struct kg_family *out) {
    double *sorted = kg_xcalloc(n_runs, sizeof *sorted);
    size_t n = 0;
    for (size_t j = 1; j < n_runs; j++)
        if (farthest[j] > -INFINITY) sorted[n++] = farthest[j];
    out->red = out->suspect = INFINITY;
    if (n >= FEWEST) {
        qsort(sorted, n, sizeof *sorted, descending);
        out->red = margin_of(n) * sorted[0];
        out->suspect = sorted[n / 5 - 1];
    }
    free(sorted);
}

void kg_family_find(double *const *by_run, size_t n_figures, size_t n_runs, struct kg_family *out) {
    struct fit *fits = kg_xcalloc(n_figures + 1, sizeof *fits);
    double *values = kg_xcalloc(n_runs + 1, sizeof *values), *farthest = kg_xcalloc(n_runs + 1, sizeof *farthest);
    double *below = kg_xcalloc(n_figures + 1, sizeof *below);
    *out = (struct kg_family){ .t = kg_xcalloc(n_figures + 1, sizeof *out->t),
                               .unit = kg_xcalloc(n_figures + 1, sizeof *out->unit) };
    for (size_t i = 0; i < n_figures; i++) {
        struct fit *f = &fits[i];
        f->n = values_of(by_run[i], n_runs, values);
        if (f->n < FEWEST) continue;
        f->centre = kg_hodges_lehmann(values, f->n);
        f->own = fmax(kg_robust_sigma(values, f->n), LEAST_SIGMA);
        f->reach = upper_reach(values, f->n, f->centre);
    }
    share_scales(fits, n_figures);
    for (size_t i = 0; i < n_figures; i++) fits[i].sigma = fmax(fits[i].sigma, fits[i].reach / 1.5);
    for (size_t j = n_runs; j-- > 0;) {
        size_t n = 0;
        for (size_t i = 0; i < n_figures; i++)
            if (fits[i].n >= FEWEST && !isnan(by_run[i][j]))
                below[n++] = (fits[i].centre - by_run[i][j]) / fits[i].sigma;
        qsort(below, n, sizeof *below, ascending);
        const double width = width_of(below, n);
        farthest[j] = n > 0 ? -below[0] / width : -INFINITY;
        for (size_t i = 0; i < n_figures && j == 0; i++) {
            const bool known = fits[i].n >= FEWEST && !isnan(by_run[i][0]);
            out->unit[i] = known ? fits[i].sigma * width : NAN;
            out->t[i] = known ? (by_run[i][0] - fits[i].centre) / out->unit[i] : NAN;
        }
    }
    find_limits(farthest, n_runs, out);
    free(below);
    free(farthest);
    free(values);
    free(fits);
}

void kg_family_free(struct kg_family *family) {
    free(family->t);
    free(family->unit);
    *family = (struct kg_family){ 0 };
}
