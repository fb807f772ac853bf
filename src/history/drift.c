#include "history/drift.h"
#include "base/buffer.h"
#include "measure/robust.h"
#include "measure/statistics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double AGREEMENT = 0.01;
enum { ENOUGH_FIGURES = 10, MANY_RUNS = 100 }; /* many: a median is sharp enough, and quicker */

/* NaN without a baseline. */
static double centre_of(const struct kg_series *series, size_t n_runs) {
    double *values = kg_xcalloc(n_runs, sizeof *values);
    size_t n = 0;
    for (size_t run = 1; run < n_runs; run++)
        if (!isnan(series->by_run[run])) values[n++] = series->by_run[run];
    const double centre = n == 0 ? NAN : n <= MANY_RUNS ? kg_hodges_lehmann(values, n) : kg_median(values, n);
    free(values);
    return centre;
}

/* Median over the group's series of how far each run lies from the series' centre; NaN where fewer than `enough` have
 * it. */
static size_t shifts_of(const struct kg_series *series, size_t n_series, const char *group, size_t n_runs,
                        size_t enough, double *shifts) {
    double *away = kg_xcalloc(n_runs * n_series + 1, sizeof *away);
    size_t *n_in = kg_xcalloc(n_runs, sizeof *n_in), n_group = 0;
    for (size_t i = 0; i < n_series; i++) {
        if (strcmp(series[i].group, group) != 0) continue;
        const double centre = centre_of(&series[i], n_runs);
        n_group += !isnan(centre);
        for (size_t run = 0; run < n_runs; run++)
            if (!isnan(series[i].by_run[run] - centre))
                away[run * n_series + n_in[run]++] = series[i].by_run[run] - centre;
    }
    for (size_t run = 0; run < n_runs; run++)
        shifts[run] = n_in[run] >= enough ? kg_median(away + run * n_series, n_in[run]) : NAN;
    free(n_in);
    free(away);
    return n_group;
}

/* How far canaries and figures of a run may differ and still tell of the same drift. */
static double agreement_of(const double *common, const double *canary, size_t n_runs) {
    double *differences = kg_xcalloc(n_runs, sizeof *differences);
    size_t n = 0;
    for (size_t run = 1; run < n_runs; run++)
        if (!isnan(common[run] - canary[run])) differences[n++] = common[run] - canary[run];
    const double agreement = fmax(AGREEMENT, 3 * kg_robust_sigma(differences, n));
    free(differences);
    return agreement;
}

static struct kg_drift find_one(const char *group, const struct kg_series *figures, size_t n_figures,
                                const struct kg_series *canaries, size_t n_canaries, size_t n_runs,
                                double least_change) {
    struct kg_drift d = { .group = group, .by_run = kg_xcalloc(n_runs, sizeof *d.by_run) };
    double *common = kg_xcalloc(n_runs, sizeof *common), *canary = kg_xcalloc(n_runs, sizeof *canary);
    d.n_figures = shifts_of(figures, n_figures, group, n_runs, ENOUGH_FIGURES, common);
    d.n_canaries = shifts_of(canaries, n_canaries, group, n_runs, 1, canary);
    const double agreement = agreement_of(common, canary, n_runs);
    for (size_t run = 0; run < n_runs; run++) {
        const bool agree = !isnan(common[run]) && (isnan(canary[run]) || fabs(common[run] - canary[run]) <= agreement);
        d.by_run[run] = agree ? common[run] : isnan(canary[run]) ? 0 : canary[run];
    }
    d.common = common[0];
    d.canary = canary[0];
    d.unexplained = isnan(d.canary) && fabs(d.common) > least_change;
    free(canary);
    free(common);
    return d;
}

void kg_drifts_free(struct kg_drift *drifts, size_t n_drifts) {
    for (size_t i = 0; i < n_drifts; i++) free(drifts[i].by_run);
    free(drifts);
}

const struct kg_drift *kg_drift_of(const struct kg_drift *drifts, size_t n_drifts, const char *group) {
    for (size_t i = 0; i < n_drifts; i++)
        if (strcmp(drifts[i].group, group) == 0) return &drifts[i];
    return NULL;
}

void kg_drift_find(const struct kg_series *figures, size_t n_figures, const struct kg_series *canaries,
                   size_t n_canaries, size_t n_runs, double least_change, struct kg_drift **drifts, size_t *n_drifts) {
    *drifts = NULL;
    *n_drifts = 0;
    for (size_t i = 0; i < n_figures; i++) {
        if (kg_drift_of(*drifts, *n_drifts, figures[i].group)) continue;
        *drifts = kg_xrealloc(*drifts, (*n_drifts + 1) * sizeof **drifts);
        (*drifts)[(*n_drifts)++] =
            find_one(figures[i].group, figures, n_figures, canaries, n_canaries, n_runs, least_change);
    }
}
