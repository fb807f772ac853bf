#include "history/step_search.h"
#include "base/buffer.h"
#include "history/internal.h"
#include "history/shelf.h"
#include "history/step_machine.h"
#include "history/step_series.h"
#include "history/step_suspects.h"
#include "history/step_values.h"
#include "history/trust.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct search {
    struct kg_step_search *out;
    const struct kg_run_head **columns; /* the line, then the side */
    struct kg_step_values figures, canaries;
};

static int latest_first(const void *a, const void *b) {
    const struct kg_found_step *const x = a, *const y = b;
    if (x->first_after != y->first_after) return x->first_after < y->first_after ? 1 : -1;
    return (fabs(x->change) < fabs(y->change)) - (fabs(x->change) > fabs(y->change));
}

/* By run of the line, a number that runs of one commit share; a changed work tree counts as another commit. */
static size_t *number_commits(const struct kg_run_heads *line) {
    size_t *numbers = kg_xcalloc(line->n_items, sizeof *numbers);
    for (size_t i = 1; i < line->n_items; i++) {
        const struct kg_run_head *run = &line->items[i], *before = run - 1;
        const bool same = run->commit && before->commit && strcmp(run->commit, before->commit) == 0;
        numbers[i] = numbers[i - 1] + (!same || run->dirty || before->dirty);
    }
    return numbers;
}

static struct kg_found_step describe(const struct search *s, const struct kg_series_step *step) {
    const struct kg_figure_info *figure = s->figures.figures[step->series];
    const double before = exp(figure->kind.worse * step->before), after = exp(figure->kind.worse * step->after);
    return (struct kg_found_step){ .c = s->figures.results[step->series]->c,
                                   .figure = figure,
                                   .last_before = &s->out->runs.line.items[step->last_before],
                                   .first_after = &s->out->runs.line.items[step->first_after],
                                   .before = before,
                                   .after = after,
                                   .change = after / before - 1,
                                   .n_before = step->n_before,
                                   .n_after = step->n_after,
                                   .p = step->p,
                                   .placed = step->placed,
                                   .creeps = step->creeps };
}

/* root: of the bundles; NULL: what else changed is not looked for. */
static enum kg_status find(struct search *s, const char *root, double least_change, struct kg_error *err) {
    struct kg_step_search *out = s->out;
    size_t *commits = number_commits(&out->runs.line);
    struct kg_series_step *steps;
    const struct kg_step_figures figures = { .series = s->figures.series,
                                             .cases = s->figures.cases,
                                             .n = s->figures.n,
                                             .n_runs = out->runs.line.n_items,
                                             .canaries = s->canaries.series,
                                             .n_canaries = s->canaries.n,
                                             .commits = commits,
                                             .least_change = log1p(least_change) };
    const size_t n = kg_series_steps(&figures, &steps);
    enum kg_status status = KG_OK;
    struct kg_merges merges = { NULL, 0 };
    struct kg_step_machines machines;
    kg_step_machines_open(&machines, root, &out->runs.line);
    out->n_figures = s->figures.n;
    out->steps = kg_xcalloc(n, sizeof *out->steps);
    for (size_t i = 0; i < n && status == KG_OK; i++) {
        struct kg_found_step *step = &out->steps[out->n_steps++];
        *step = describe(s, &steps[i]);
        status = kg_step_suspects_find(&out->runs, &merges, s->figures.series[steps[i].series].by_run, step, err);
        if (status == KG_OK && root) status = kg_step_machine_find(&machines, step, err);
    }
    qsort(out->steps, out->n_steps, sizeof *out->steps, latest_first);
    kg_step_machines_close(&machines);
    kg_merges_free(&merges);
    free(steps);
    free(commits);
    return status;
}

static void list_columns(struct search *s) {
    const struct kg_step_runs *runs = &s->out->runs;
    size_t n = 0;
    s->columns = kg_xcalloc(runs->line.n_items + runs->side.n_items, sizeof *s->columns);
    for (size_t i = 0; i < runs->line.n_items; i++) s->columns[n++] = &runs->line.items[i];
    for (size_t i = 0; i < runs->side.n_items; i++) s->columns[n++] = &runs->side.items[i];
}

static enum kg_status load(struct kg_history *history, const struct kg_step_options *o, struct search *s,
                           struct kg_run *newest, struct kg_error *err) {
    struct kg_step_search *out = s->out;
    const size_t n_line = out->runs.line.n_items, n_all = n_line + out->runs.side.n_items;
    enum kg_status status = kg_catalogue_load(history, &out->catalogue, err);
    list_columns(s);
    if (status == KG_OK) status = kg_run_load(history, s->columns[n_line - 1]->bundle_no, &out->catalogue, newest, err);
    if (status == KG_OK)
        status = kg_step_values_load(history, &out->catalogue, newest, KG_FIGURE_NOISY, o->wants, o->arg, s->columns,
                                     n_all, &s->figures, err);
    if (status == KG_OK)
        status = kg_step_values_load(history, &out->catalogue, newest, KG_FIGURE_CANARY, NULL, NULL, s->columns, n_line,
                                     &s->canaries, err);
    return status;
}

enum kg_status kg_step_search(struct kg_history *history, const struct kg_step_options *o, struct kg_step_search *out,
                              struct kg_error *err) {
    const char *const places[] = { history->store ? "." : history->root, ".", NULL };
    struct search s = { .out = out };
    struct kg_run newest = { 0 };
    *out = (struct kg_step_search){ 0 };
    const bool by_rows = o->rows_of_store && history->store;
    enum kg_status status = by_rows ? KG_OK : kg_trust_heads(history, NULL, err);
    if (status == KG_OK && !by_rows) status = kg_trust_runs(history, &o->run, 1, err);
    if (status == KG_OK)
        status = kg_step_runs_choose(history, o->run, o->repositories ? o->repositories : places, o->n_most, &out->runs,
                                     err);
    if (status == KG_OK && !by_rows) status = kg_trust_loaded(history, &out->runs.line, err);
    if (status == KG_OK && !by_rows) status = kg_trust_loaded(history, &out->runs.side, err);
    if (status == KG_OK) status = load(by_rows ? history : kg_shelf_index(history), o, &s, &newest, err);
    if (status == KG_OK) status = find(&s, by_rows ? NULL : history->root, o->least_change, err);
    kg_step_values_free(&s.figures);
    kg_step_values_free(&s.canaries);
    kg_run_free(&newest);
    free(s.columns);
    if (status != KG_OK) kg_step_search_free(out);
    return status;
}

void kg_step_search_free(struct kg_step_search *search) {
    for (size_t i = 0; i < search->n_steps; i++) free(search->steps[i].suspects);
    free(search->steps);
    kg_step_runs_free(&search->runs);
    kg_catalogue_free(&search->catalogue);
    *search = (struct kg_step_search){ 0 };
}
