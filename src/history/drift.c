#include "history/drift.h"
#include "base/buffer.h"
#include "history/screen.h"
#include "measure/robust.h"
#include "measure/statistics.h"
#include "measure/steps.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double ONE_OF_2000 = 3.2905;      /* as screen.c */
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
    double *away = kg_xcalloc(n_runs * n_series, sizeof *away);
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

/* The levels of what canaries do not explain; a run without a value takes its neighbour's. */
static void levels_of(const double *unexplained, size_t n_runs, double least_change, double *levels) {
    double *values = kg_xcalloc(n_runs, sizeof *values);
    size_t *from = kg_xcalloc(n_runs, sizeof *from), n = 0;
    struct kg_step *steps = kg_xcalloc(n_runs, sizeof *steps);
    for (size_t run = 0; run < n_runs; run++) {
        if (isnan(unexplained[run])) continue;
        from[n] = run;
        values[n++] = unexplained[run];
    }
    const size_t n_steps = kg_steps_find(values, n, least_change, steps);
    for (size_t run = 0, step = 0; run < n_runs; run++) {
        while (step < n_steps && run >= from[steps[step].at]) step++;
        levels[run] = n_steps == 0 ? 0 : step < n_steps ? steps[step].before : steps[step - 1].after;
    }
    free(steps);
    free(from);
    free(values);
}

/* A creep has no levels. The judged run's D against the oldest five runs', whose scatter the differences of neighbours
 * tell: a creep hardly shows in these. values: newest first. */
static bool has_crept(const double *values, size_t n, double judged, double least_change, double *change) {
    enum { OLDEST = 5 };
    if (n < 2 * OLDEST) return false;
    double *differences = kg_xcalloc(n, sizeof *differences);
    for (size_t i = 1; i < n; i++) differences[i - 1] = values[i] - values[i - 1];
    const double sigma = kg_robust_sigma(differences, n - 1) * sqrt((1 + 1.0 / OLDEST) / 2);
    const double limit = kg_student_limit(ONE_OF_2000, (double)n / 3);
    *change = judged - kg_hodges_lehmann(values + n - OLDEST, OLDEST);
    free(differences);
    return *change > least_change && *change > limit * sigma;
}

/* Holds the judged run's D against the lowest and the highest level of the baseline. */
static void judge_common(struct kg_drift *d, const double *unexplained, const double *levels, size_t n_runs,
                         double least_change) {
    double *away = kg_xcalloc(n_runs, sizeof *away), *known = kg_xcalloc(n_runs, sizeof *known);
    double low = INFINITY, high = -INFINITY;
    size_t n = 0;
    d->change = d->z = d->z_limit = NAN;
    for (size_t run = 1; run < n_runs; run++) {
        if (isnan(unexplained[run])) continue;
        known[n] = unexplained[run];
        away[n++] = unexplained[run] - levels[run];
        low = fmin(low, levels[run]);
        high = fmax(high, levels[run]);
    }
    if (!isnan(unexplained[0]) && n >= KG_SCREEN_FEWEST) {
        const double from_low = unexplained[0] - low, from_high = unexplained[0] - high;
        struct kg_screen_figure f = { .baseline = away, .n_baseline = n, .floor = least_change };
        f.value = from_low > 0 ? from_low : fmin(from_high, 0);
        kg_screen(&f, 1);
        d->change = f.change;
        d->z = f.z;
        d->z_limit = f.z_limit;
        d->worse = f.verdict == KG_SCREEN_WORSE;
        d->better = f.verdict == KG_SCREEN_BETTER;
        double crept_by = NAN;
        d->crept = !d->worse && !d->better && has_crept(known, n, unexplained[0], least_change, &crept_by);
        if (d->crept) d->change = crept_by;
        d->worse = d->worse || d->crept;
    }
    free(known);
    free(away);
}

static struct kg_drift find_one(const char *group, const struct kg_series *figures, size_t n_figures,
                                const struct kg_series *canaries, size_t n_canaries, size_t n_runs,
                                double least_change) {
    struct kg_drift d = { .group = group, .by_run = kg_xcalloc(n_runs, sizeof *d.by_run) };
    double *common = kg_xcalloc(n_runs, sizeof *common), *canary = kg_xcalloc(n_runs, sizeof *canary);
    double *unexplained = d.unexplained_by = kg_xcalloc(n_runs, sizeof *unexplained);
    double *levels = kg_xcalloc(n_runs, sizeof *levels);
    d.n_figures = shifts_of(figures, n_figures, group, n_runs, ENOUGH_FIGURES, common);
    d.n_canaries = shifts_of(canaries, n_canaries, group, n_runs, 1, canary);
    for (size_t run = 0; run < n_runs; run++) unexplained[run] = common[run] - canary[run];
    levels_of(unexplained, n_runs, least_change, levels);
    judge_common(&d, unexplained, levels, n_runs, least_change);
    for (size_t run = 0; run < n_runs; run++)
        d.by_run[run] = !isnan(common[run]) ? common[run] - levels[run] : isnan(canary[run]) ? 0 : canary[run];
    if (d.worse || d.better) d.by_run[0] = canary[0];
    d.common = common[0];
    d.canary = canary[0];
    d.unexplained = isnan(d.canary) && fabs(d.common) > least_change;
    free(levels);
    free(canary);
    free(common);
    return d;
}

void kg_drifts_free(struct kg_drift *drifts, size_t n_drifts) {
    for (size_t i = 0; i < n_drifts; i++) {
        free(drifts[i].by_run);
        free(drifts[i].unexplained_by);
    }
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
