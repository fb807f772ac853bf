/* Times and rates of a run against their baseline. */
#include "history/regress_parts.h"
#include "base/buffer.h"
#include "history/confirm.h"
#include "history/noisy_again.h"
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
    const struct kg_matched *matched = kg_regress_matched(comparison, r);
    size_t n = 0;
    series->group = r->c->backend;
    series->by_run[0] = kg_run_figure_log(own);
    for (size_t i = 0; i < comparison->n_baseline; i++) {
        const struct kg_run_result *b = matched->results[i];
        series->by_run[1 + i] = kg_run_figure_log(b ? kg_run_figure(&comparison->baseline[i], b, own) : NULL);
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

/* What measuring it again found; NULL: it was not. */
static const struct kg_confirmation *found_again(const struct kg_regression *out, const struct noisy *figure) {
    for (size_t i = 0; i < out->n_again; i++) {
        const struct kg_confirmation *c = &out->again[i];
        if (c->key == figure->r->c->key && c->figure == figure->info->name && c->unit == figure->info->unit) return c;
    }
    return NULL;
}

static struct kg_judgement *add_found(struct kg_comparison *comparison, const struct noisy *figure,
                                      enum kg_screen_verdict verdict, const struct kg_confirmation *c) {
    return kg_regress_add(comparison, verdict == KG_SCREEN_WORSE ? KG_JUDGED_WORSE : KG_JUDGED_INCONCLUSIVE,
                          figure->info->kind.subject, figure->r->c->key, figure->info,
                          "measured again, %zu runs of each build: %s, %+.1f%% (%+.1f%% to %+.1f%%), p %.2g",
                          c->n_after, KG_CONFIRMED_NAMES[c->verdict], 100 * c->change, 100 * c->change_lo,
                          100 * c->change_hi, c->adjusted);
}

static struct kg_judgement *add_judgement(struct kg_comparison *comparison, const struct noisy *figure,
                                          const struct kg_screen_figure *s, size_t since) {
    const char *subject = figure->info->kind.subject, *key = figure->r->c->key;
    const struct kg_confirmation *found = found_again(comparison->out, figure);
    if (found && (s->verdict == KG_SCREEN_WORSE || s->verdict == KG_SCREEN_SUSPECT) && found->n_after > 0)
        return add_found(comparison, figure, s->verdict, found);
    if (since > 0)
        return kg_regress_add(comparison, KG_JUDGED_WORSE, subject, key, figure->info,
                              "it has been so since %s: it counts until it is fixed or accepted",
                              comparison->out->baseline.items[since - 1].bundle_id);
    switch (s->verdict) {
    case KG_SCREEN_SAME: return NULL;
    case KG_SCREEN_TOO_FEW:
        return s->change < 0 ? NULL
                             : kg_regress_add(comparison, KG_JUDGED_INCONCLUSIVE, subject, key, figure->info,
                                              "%zu baseline runs, fewer than the %d that tell how noisy it is",
                                              s->n_baseline, KG_SCREEN_FEWEST);
    case KG_SCREEN_SUSPECT:
        return kg_regress_add(comparison, KG_JUDGED_INCONCLUSIVE, subject, key, figure->info,
                              "suspect: beyond %.1f sigmas of %.2f%%, where unchanged figures of these runs have lain "
                              "too; 'kigo confirm' measures it again",
                              s->z_limit, 100 * s->sigma);
    default:
        return kg_regress_add(comparison, s->verdict == KG_SCREEN_WORSE ? KG_JUDGED_WORSE : KG_JUDGED_BETTER, subject,
                              key, figure->info,
                              "beyond %.1f%% and %.1f sigmas of %.2f%%; 'kigo confirm' measures it again",
                              100 * expm1(s->floor), s->z_limit, 100 * s->sigma);
    }
}

static void tell(struct kg_comparison *comparison, const struct noisy *figure, const struct kg_screen_figure *s,
                 size_t since) {
    struct kg_judgement *j = add_judgement(comparison, figure, s, since);
    if (!j) return;
    const int worse = figure->info->kind.worse;
    j->after = figure->value;
    j->change = expm1(worse * s->change);
    j->before = figure->value / (1 + j->change);
    j->z = s->z;
    j->z_limit = s->z_limit;
    j->n_baseline = s->n_baseline;
    j->noisy = true;
}

/* All figures of a back end that moved together, and not the machine, are one event. */
static void tell_common(struct kg_comparison *comparison, const struct kg_drift *d) {
    if (!d->worse && !d->better && !d->undecided) return;
    char *key = kg_xasprintf("every case of %s", *d->group ? d->group : "no back end");
    struct kg_judgement *j = kg_regress_add(
        comparison,
        d->undecided ? KG_JUDGED_INCONCLUSIVE
        : d->worse   ? KG_JUDGED_WORSE
                     : KG_JUDGED_BETTER,
        "common", key, NULL,
        "%zu figures moved together by %+.1f%% (median) and %zu canaries by %+.1f%%: the machine does not explain it",
        d->n_figures, 100 * expm1(d->common), d->n_canaries, 100 * expm1(d->canary));
    j->change = expm1(d->change);
    j->z = d->z;
    j->z_limit = d->z_limit;
    j->n_baseline = comparison->n_baseline;
    j->noisy = true;
    free(key);
}

static double floor_of(const struct kg_comparison *comparison, const struct noisy *figure) {
    const double resolution = figure->info->kind.resolution_ns / figure->value;
    return log1p(fmax(comparison->options->least_change, resolution));
}

static void measure_again(struct kg_comparison *comparison, const struct figures *figures,
                          const struct kg_noisy_runs *runs, struct kg_noisy *noisy) {
    struct kg_confirmation *names = kg_xcalloc(figures->n, sizeof *names);
    for (size_t i = 0; i < figures->n; i++) {
        const struct noisy *figure = &figures->items[i];
        names[i] = (struct kg_confirmation){ .key = figure->r->c->key,
                                             .figure = figure->info->name,
                                             .unit = figure->info->unit,
                                             .worse = figure->info->kind.worse,
                                             .flagged = expm1(noisy->figures[i].change) };
    }
    kg_regress_measure_again(comparison, runs, names, noisy);
    free(names);
}

void kg_regress_noisy(struct kg_comparison *comparison) {
    struct kg_regression *out = comparison->out;
    struct figures figures, canaries;
    struct kg_noisy noisy;
    if (*out->other_key) return;
    collect(comparison, KG_FIGURE_NOISY, &figures);
    collect(comparison, KG_FIGURE_CANARY, &canaries);
    double *floors = kg_xcalloc(figures.n, sizeof *floors);
    for (size_t i = 0; i < figures.n; i++) floors[i] = floor_of(comparison, &figures.items[i]);
    const struct kg_noisy_runs runs = { .figures = figures.series,
                                        .floors = floors,
                                        .n_figures = figures.n,
                                        .canaries = canaries.series,
                                        .n_canaries = canaries.n,
                                        .n_runs = 1 + comparison->n_baseline,
                                        .least_change = log1p(comparison->options->least_change) };
    kg_noisy_judge(&runs, &noisy);
    out->n_unseen = kg_unseen_find(&runs, &noisy, out->unseen);
    for (size_t i = 0; i < out->n_unseen; i++) out->unseen_worst[i] = figures.items[out->unseen[i].worst].r->c->key;
    out->build_against = kg_noisy_baseline(&runs, &noisy) - 1;
    if (comparison->options->again) measure_again(comparison, &figures, &runs, &noisy);
    for (size_t i = 0; i < figures.n; i++) tell(comparison, &figures.items[i], &noisy.figures[i], noisy.since[i]);
    for (size_t i = 0; i < noisy.n_drifts; i++) tell_common(comparison, &noisy.drifts[i]);
    for (size_t i = 0; i < noisy.n_drifts; i++)
        if (noisy.drifts[i].unexplained)
            kg_regress_reason(out,
                              "%zu figures of the back end '%s' moved together by %+.1f%%, and no canary tells whether "
                              "it was the machine",
                              noisy.drifts[i].n_figures, noisy.drifts[i].group, 100 * expm1(noisy.drifts[i].common));
    out->n_noisy = figures.n;
    out->drifts = noisy.drifts;
    out->n_drifts = noisy.n_drifts;
    noisy.drifts = NULL;
    noisy.n_drifts = 0;
    kg_noisy_free(&noisy);
    free(floors);
    figures_free(&figures);
    figures_free(&canaries);
}
