#include "history/family.h"
#include "base/buffer.h"
#include "measure/robust.h"
#include "measure/statistics.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const double LEAST_SIGMA = 1e-4;
static const double ONE_OF_2000 = 3.2905; /* as screen.c */
static const double REACH_IN_SIGMAS = 1.5;
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
    return kg_nth(values, n, n - 1 - THIRD) - centre;
}

struct fit {
    double centre, sigma, own, reach;
    size_t n;
};

/* Of the values that are no NaN; `values` has room for them. */
static struct fit fit_of(const double *by_run, size_t n_runs, double *values) {
    struct fit f = { .n = values_of(by_run, n_runs, values) };
    if (f.n < FEWEST) return f;
    f.centre = kg_hodges_lehmann(values, f.n);
    f.own = fmax(kg_robust_sigma(values, f.n), LEAST_SIGMA);
    f.reach = upper_reach(values, f.n, f.centre);
    return f;
}

/* How much of a distance from the other figures' sigmas is the figure's own; the rest is that few values measured it.
 */
static double drawn(const struct kg_family *family, double own, size_t n) {
    const double own2 = kg_robust_sigma_log_variance(n), away = log(own) - family->middle, most = sqrt(own2);
    if (isinf(family->spread2)) return own;
    return own * exp(-fmax(-3 * most, fmin(most, away * own2 / (family->spread2 + own2))));
}

/* Draws own sigmas towards their median, by as much as their scatter is no more than few values explain, and no further
 * than their own error: a noisy figure among quiet ones stays noisy. */
static void share_scales(struct fit *fits, size_t n_figures, struct kg_family *out) {
    double *logs = kg_xcalloc(n_figures, sizeof *logs);
    double explained = 0;
    size_t n = 0;
    for (size_t i = 0; i < n_figures; i++) {
        if (fits[i].n < FEWEST) continue;
        logs[n++] = log(fits[i].own);
        explained += kg_robust_sigma_log_variance(fits[i].n);
    }
    out->spread2 = INFINITY;
    if (n >= 10) {
        const double spread = kg_robust_sigma(logs, n);
        out->middle = kg_median(logs, n);
        out->spread2 = fmax(0, spread * spread - explained / (double)n);
    }
    for (size_t i = 0; i < n_figures; i++)
        if (fits[i].n >= FEWEST)
            fits[i].sigma = fmax(drawn(out, fits[i].own, fits[i].n), fits[i].reach / REACH_IN_SIGMAS);
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

void kg_family_find(const double *const *by_run, size_t n_figures, size_t n_runs, struct kg_family *out) {
    struct fit *fits = kg_xcalloc(n_figures, sizeof *fits);
    double *values = kg_xcalloc(n_runs, sizeof *values);
    double *below = kg_xcalloc(n_figures, sizeof *below);
    *out = (struct kg_family){ .t = kg_xcalloc(n_figures, sizeof *out->t),
                               .unit = kg_xcalloc(n_figures, sizeof *out->unit),
                               .farthest = kg_xcalloc(n_runs, sizeof *out->farthest),
                               .width = kg_xcalloc(n_runs, sizeof *out->width) };
    for (size_t i = 0; i < n_figures; i++) {
        fits[i] = fit_of(by_run[i], n_runs, values);
    }
    share_scales(fits, n_figures, out);
    for (size_t j = n_runs; j-- > 0;) {
        size_t n = 0;
        for (size_t i = 0; i < n_figures; i++)
            if (fits[i].n >= FEWEST && !isnan(by_run[i][j]))
                below[n++] = (fits[i].centre - by_run[i][j]) / fits[i].sigma;
        qsort(below, n, sizeof *below, ascending);
        const double width = out->width[j] = width_of(below, n);
        out->farthest[j] = n > 0 ? -below[0] / width : -INFINITY;
        for (size_t i = 0; i < n_figures && j == 0; i++) {
            const bool known = fits[i].n >= FEWEST && !isnan(by_run[i][0]);
            out->unit[i] = known ? fits[i].sigma * width : NAN;
            out->t[i] = known ? (by_run[i][0] - fits[i].centre) / out->unit[i] : NAN;
        }
    }
    find_limits(out->farthest, n_runs, out);
    free(below);
    free(values);
    free(fits);
}

/* Of the runs before, what the other figures and this one did. */
static double farthest_before(const struct kg_family *family, const double *by_run, size_t first, size_t n_runs,
                              const struct fit *f) {
    double farthest = -INFINITY;
    for (size_t j = first; j < n_runs; j++) {
        farthest = fmax(farthest, family->farthest[j]);
        if (!isnan(by_run[j])) farthest = fmax(farthest, (by_run[j] - f->centre) / (f->sigma * family->width[j]));
    }
    return farthest;
}

/* INFINITY: there is none. */
static double lowest_of(const double *by_run, size_t n_runs) {
    double lowest = INFINITY;
    for (size_t j = 0; j < n_runs; j++) lowest = by_run[j] < lowest ? by_run[j] : lowest;
    return lowest;
}

bool kg_family_stays_worse(const struct kg_family *family, const double *by_run, size_t n_runs, double floor,
                           struct kg_family_since *since) {
    double *values = kg_xcalloc(n_runs, sizeof *values);
    double nearest = by_run[0];
    bool stays = false;
    *since = (struct kg_family_since){ 0 };
    for (size_t k = 1; k + FEWEST < n_runs && !stays && !isnan(nearest); k++) {
        if (isnan(by_run[k])) continue;
        nearest = fmin(nearest, by_run[k]);
        /* No centre lies below the lowest value: most figures need none. */
        if (nearest - lowest_of(by_run + k + 1, n_runs - k - 1) <= floor) continue;
        struct fit f = fit_of(by_run + k + 1, n_runs - k - 1, values);
        if (f.n < FEWEST) break;
        if (nearest - f.centre <= floor) continue;
        f.sigma = fmax(drawn(family, f.own, f.n), f.reach / REACH_IN_SIGMAS);
        double t = INFINITY;
        for (size_t j = 0; j <= k; j++)
            if (!isnan(by_run[j])) t = fmin(t, (by_run[j] - f.centre) / (f.sigma * family->width[j]));
        const double own2 = kg_robust_sigma_log_variance(f.n);
        const double trust = isinf(family->spread2) ? 1 : family->spread2 / (family->spread2 + own2);
        const double limit = fmax(kg_student_limit(ONE_OF_2000, 1 / (2 * trust * own2)),
                                  margin_of(f.n) * farthest_before(family, by_run, k + 1, n_runs, &f));
        *since = (struct kg_family_since){ k, f.centre, f.sigma, t, limit };
        stays = t > limit;
    }
    free(values);
    return stays;
}

void kg_family_free(struct kg_family *family) {
    free(family->t);
    free(family->unit);
    free(family->farthest);
    free(family->width);
    *family = (struct kg_family){ 0 };
}
