/* Times and rates of a run against their baseline. */
#include "history/regress_parts.h"
#include "history/screen.h"
#include "base/buffer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct noisy {
    const struct kg_run_result *r;
    const struct kg_figure_info *info;
    double value; /* of the run, in its unit */
};

struct figures {
    struct noisy *items;
    struct kg_series *series; /* beside items */
    double *values;           /* what series point into */
    size_t n;
};

static void figures_free(struct figures *figures) {
    free(figures->items);
    free(figures->series);
    free(figures->values);
}

/* A figure in every run; how many runs of the baseline have it. */
static size_t fill_series(const struct kg_comparison *comparison, const struct kg_run_result *r, size_t place,
                          struct kg_series *series) {
    const struct kg_run_figure *own = &comparison->run.figures[r->first_figure + place];
    const size_t occurrence = kg_run_occurrence(&comparison->run, r, place);
    size_t n = 0;
    series->group = r->c->backend;
    series->by_run[0] = kg_run_figure_log(own);
    for (size_t i = 0; i < comparison->n_baseline; i++) {
        const struct kg_run *run = &comparison->baseline[i];
        const struct kg_run_result *b = kg_run_find(run, r->c->same);
        const bool counts = b && kg_regress_counts(comparison, i, r->c->key);
        series->by_run[1 + i] = kg_run_figure_log(counts ? kg_run_figure(run, b, own->info, occurrence) : NULL);
        n += !isnan(series->by_run[1 + i]);
    }
    return n;
}

/* The figures of one class that both sides have. */
static void collect(struct kg_comparison *comparison, enum kg_figure_class class, struct figures *out) {
    const size_t n_runs = 1 + comparison->n_baseline;
    *out = (struct figures){ 0 };
    out->items = kg_xcalloc(comparison->run.n_figures + 1, sizeof *out->items);
    out->series = kg_xcalloc(comparison->run.n_figures + 1, sizeof *out->series);
    out->values = kg_xcalloc((comparison->run.n_figures + 1) * n_runs, sizeof *out->values);
    for (size_t i = 0; i <= comparison->run.n_figures; i++) out->series[i].by_run = out->values + i * n_runs;
    for (size_t i = 0; i < comparison->run.n_results; i++) {
        const struct kg_run_result *r = &comparison->run.results[i];
        for (size_t k = 0; k < r->n_figures && r->outcome == KG_OUTCOME_PASS; k++) {
            const struct kg_run_figure *f = &comparison->run.figures[r->first_figure + k];
            if (kg_figure_class_in(r->c, f->info) != class) continue;
            const size_t n = fill_series(comparison, r, k, &out->series[out->n]);
            if (n == 0) continue;
            out->items[out->n] = (struct noisy){ r, f->info, f->value };
            if (!isnan(out->series[out->n].by_run[0])) out->n++;
            else if (class == KG_FIGURE_NOISY)
                kg_regress_add(comparison, KG_JUDGED_INCONCLUSIVE, f->info->kind.subject, r->c->key, f->info,
                               "the timing is not valid: its samples were discarded")
                    ->noisy = true;
        }
    }
}

static void tell(struct kg_comparison *comparison, const struct noisy *figure, const struct kg_screen_figure *s) {
    static const enum kg_judged JUDGED[] = { [KG_SCREEN_WORSE] = KG_JUDGED_WORSE,
                                             [KG_SCREEN_BETTER] = KG_JUDGED_BETTER,
                                             [KG_SCREEN_TOO_FEW] = KG_JUDGED_INCONCLUSIVE };
    if (s->verdict == KG_SCREEN_SAME || (s->verdict == KG_SCREEN_TOO_FEW && s->change < 0)) return;
    struct kg_judgement *j =
        s->verdict == KG_SCREEN_TOO_FEW
            ? kg_regress_add(comparison, KG_JUDGED_INCONCLUSIVE, figure->info->kind.subject, figure->r->c->key,
                             figure->info, "%zu baseline runs, fewer than the %d that tell how noisy it is",
                             s->n_baseline, KG_SCREEN_FEWEST)
            : kg_regress_add(comparison, JUDGED[s->verdict], figure->info->kind.subject, figure->r->c->key,
                             figure->info, "beyond %.1f%% and %.1f sigmas of %.2f%%; 'kigo confirm' measures it again",
                             100 * expm1(s->floor), s->z_limit, 100 * s->sigma);
    const int worse = figure->info->kind.worse;
    j->after = figure->value;
    j->change = expm1(worse * s->change);
    j->before = figure->value / (1 + j->change);
    j->z = s->z;
    j->z_limit = s->z_limit;
    j->n_baseline = s->n_baseline;
    j->noisy = true;
}

static double floor_of(const struct kg_comparison *comparison, const struct noisy *figure) {
    const double resolution = figure->info->kind.resolution_ns / figure->value;
    return log1p(fmax(comparison->options->least_change, resolution));
}

static void screen(struct kg_comparison *comparison, const struct figures *figures) {
    const struct kg_regression *out = comparison->out;
    struct kg_screen_figure *screened = kg_xcalloc(figures->n + 1, sizeof *screened);
    double(*values)[KG_BASELINE_RUNS] = kg_xcalloc(figures->n + 1, sizeof *values);
    for (size_t i = 0; i < figures->n; i++) {
        const struct kg_series *s = &figures->series[i];
        const struct kg_drift *drift = kg_drift_of(out->drifts, out->n_drifts, s->group);
        screened[i] = (struct kg_screen_figure){ .baseline = values[i],
                                                 .value = s->by_run[0] - drift->by_run[0],
                                                 .floor = floor_of(comparison, &figures->items[i]) };
        for (size_t run = 1; run <= comparison->n_baseline; run++)
            if (!isnan(s->by_run[run])) values[i][screened[i].n_baseline++] = s->by_run[run] - drift->by_run[run];
    }
    kg_screen(screened, figures->n);
    for (size_t i = 0; i < figures->n; i++) tell(comparison, &figures->items[i], &screened[i]);
    free(values);
    free(screened);
}

void kg_regress_noisy(struct kg_comparison *comparison) {
    struct kg_regression *out = comparison->out;
    struct figures figures, canaries;
    if (*out->other_key) return;
    const double least = log1p(comparison->options->least_change);
    collect(comparison, KG_FIGURE_NOISY, &figures);
    collect(comparison, KG_FIGURE_CANARY, &canaries);
    kg_drift_find(figures.series, figures.n, canaries.series, canaries.n, 1 + comparison->n_baseline, least,
                  &out->drifts, &out->n_drifts);
    for (size_t i = 0; i < out->n_drifts; i++)
        if (out->drifts[i].unexplained)
            kg_regress_reason(out,
                              "%zu figures of the back end '%s' moved together by %+.1f%%, and no canary tells whether "
                              "it was the machine",
                              out->drifts[i].n_figures, out->drifts[i].group, 100 * expm1(out->drifts[i].common));
    screen(comparison, &figures);
    out->n_noisy = figures.n;
    figures_free(&figures);
    figures_free(&canaries);
}
