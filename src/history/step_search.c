#include "history/step_search.h"
#include "base/buffer.h"
#include "history/drift.h"
#include "measure/steps.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct search {
    struct kg_step_search *out;
    struct kg_run *runs; /* as out->runs */
    size_t n_runs, newest;
    double least;
    struct kg_drift *drifts;
    size_t n_drifts;
};

struct collected {
    const struct kg_run_result **results; /* of the newest run */
    const struct kg_figure_info **figures;
    struct kg_series *series;
    double *values;
    size_t n;
};

static void collected_free(struct collected *c) {
    free(c->results);
    free(c->figures);
    free(c->series);
    free(c->values);
}

/* Every figure of one class that the newest run gives, through all runs. */
static void collect(const struct search *s, enum kg_figure_class class, struct collected *out) {
    const struct kg_run *newest = &s->runs[s->newest];
    const size_t room = newest->n_figures + 1;
    *out = (struct collected){ kg_xcalloc(room, sizeof *out->results), kg_xcalloc(room, sizeof *out->figures),
                               kg_xcalloc(room, sizeof *out->series), kg_xcalloc(room * s->n_runs, sizeof *out->values),
                               0 };
    for (size_t i = 0; i < newest->n_results; i++) {
        const struct kg_run_result *r = &newest->results[i];
        for (size_t k = 0; k < r->n_figures; k++) {
            const struct kg_figure_info *info = newest->figures[r->first_figure + k].info;
            const size_t occurrence = kg_run_occurrence(newest, r, k);
            if (kg_figure_class_in(r->c, info) != class) continue;
            out->results[out->n] = r;
            out->figures[out->n] = info;
            out->series[out->n] = (struct kg_series){ r->c->backend, out->values + out->n * s->n_runs };
            for (size_t run = 0; run < s->n_runs; run++) {
                const struct kg_run_result *past = kg_run_find(&s->runs[run], r->c->same);
                out->series[out->n].by_run[run] =
                    kg_run_figure_log(past ? kg_run_figure(&s->runs[run], past, info, occurrence) : NULL);
            }
            out->n++;
        }
    }
}

/* A figure's values without the gaps, freed of drift where canaries tell of it; from[i]: the run of value i. */
static size_t series_of(const struct search *s, const struct kg_series *series, double *values, size_t *from) {
    const struct kg_drift *drift = kg_drift_of(s->drifts, s->n_drifts, series->group);
    size_t n = 0;
    for (size_t run = 0; run < s->n_runs; run++) {
        if (isnan(series->by_run[run])) continue;
        from[n] = run;
        values[n++] = series->by_run[run] - (drift && drift->n_canaries > 0 ? drift->by_run[run] : 0);
    }
    return n;
}

static void add_steps(struct search *s, const struct kg_run_result *r, const struct kg_figure_info *figure,
                      const struct kg_series *series) {
    struct kg_step_search *out = s->out;
    double *values = kg_xcalloc(s->n_runs, sizeof *values);
    size_t *from = kg_xcalloc(s->n_runs, sizeof *from);
    struct kg_step *steps = kg_xcalloc(s->n_runs, sizeof *steps);
    const size_t n = series_of(s, series, values, from), n_steps = kg_steps_find(values, n, s->least, steps);
    out->n_figures++;
    for (size_t i = 0; i < n_steps; i++) {
        const double before = exp(figure->kind.worse * steps[i].before),
                     after = exp(figure->kind.worse * steps[i].after);
        if ((out->n_steps & (out->n_steps + 1)) == 0) /* full at 2^n - 1 */
            out->steps = kg_xrealloc(out->steps, (out->n_steps + 1) * 2 * sizeof *out->steps);
        out->steps[out->n_steps++] = (struct kg_found_step){ .c = r->c,
                                                             .figure = figure,
                                                             .last_before = &out->runs.items[from[steps[i].at - 1]],
                                                             .first_after = &out->runs.items[from[steps[i].at]],
                                                             .before = before,
                                                             .after = after,
                                                             .change = after / before - 1,
                                                             .n_before = steps[i].n_before,
                                                             .n_after = steps[i].n_after,
                                                             .p = steps[i].p };
    }
    free(steps);
    free(from);
    free(values);
}

static int latest_first(const void *a, const void *b) {
    const struct kg_found_step *const x = a, *const y = b;
    if (x->first_after != y->first_after) return x->first_after < y->first_after ? 1 : -1;
    return (fabs(x->change) < fabs(y->change)) - (fabs(x->change) > fabs(y->change));
}

static enum kg_status load_runs(struct kg_history *history, const char *run, size_t n_most, struct search *s,
                                struct kg_error *err) {
    char most[32];
    snprintf(most, sizeof most, "%zu", n_most);
    const char *const args[] = { run, most };
    enum kg_status status = kg_run_heads_load(
        history,
        "WHERE bundle_id IN (SELECT o.bundle_id FROM bundle o JOIN bundle own ON own.bundle_id = ?1 WHERE"
        " o.comparison_key = own.comparison_key AND o.state = 'complete' AND o.started_us <= own.started_us AND"
        " (coalesce(o.git_dirty, 0) = 0 OR o.bundle_id = ?1) ORDER BY o.started_us DESC, o.bundle_id DESC"
        " LIMIT CAST(?2 AS INTEGER)) ORDER BY started_us, bundle_id",
        args, 2, &s->out->runs, err);
    if (status == KG_OK && s->out->runs.n_items == 0)
        status = kg_fail(err, KG_ERR_NOT_FOUND, "the index holds no complete run '%s'", run);
    if (status == KG_OK) status = kg_catalogue_load(history, &s->out->catalogue, err);
    s->runs = kg_xcalloc(s->out->runs.n_items, sizeof *s->runs);
    for (size_t i = 0; i < s->out->runs.n_items && status == KG_OK; i++) {
        status = kg_run_load(history, s->out->runs.items[i].bundle_no, &s->out->catalogue, &s->runs[i], err);
        s->n_runs += status == KG_OK;
    }
    s->newest = s->n_runs > 0 ? s->n_runs - 1 : 0;
    return status;
}

enum kg_status kg_step_search(struct kg_history *history, const char *run, size_t n_most, double least_change,
                              bool (*wants)(void *arg, const struct kg_case_info *c,
                                            const struct kg_figure_info *figure),
                              void *arg, struct kg_step_search *out, struct kg_error *err) {
    struct search s = { .out = out, .least = log1p(least_change) };
    *out = (struct kg_step_search){ 0 };
    const enum kg_status status = load_runs(history, run, n_most, &s, err);
    if (status == KG_OK) {
        struct collected figures, canaries;
        collect(&s, KG_FIGURE_NOISY, &figures);
        collect(&s, KG_FIGURE_CANARY, &canaries);
        kg_drift_find(figures.series, figures.n, canaries.series, canaries.n, s.n_runs, s.least, &s.drifts,
                      &s.n_drifts);
        for (size_t i = 0; i < figures.n; i++)
            if (!wants || wants(arg, figures.results[i]->c, figures.figures[i]))
                add_steps(&s, figures.results[i], figures.figures[i], &figures.series[i]);
        if (out->n_steps > 1) qsort(out->steps, out->n_steps, sizeof *out->steps, latest_first);
        collected_free(&figures);
        collected_free(&canaries);
    }
    kg_drifts_free(s.drifts, s.n_drifts);
    for (size_t i = 0; i < s.n_runs; i++) kg_run_free(&s.runs[i]);
    free(s.runs);
    if (status != KG_OK) kg_step_search_free(out);
    return status;
}

void kg_step_search_free(struct kg_step_search *search) {
    free(search->steps);
    kg_run_heads_free(&search->runs);
    kg_catalogue_free(&search->catalogue);
    *search = (struct kg_step_search){ 0 };
}
