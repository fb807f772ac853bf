/* Suspect times and rates of a run, measured again. */
#include "history/again.h"
#include "history/noisy_again.h"
#include "history/regress_parts.h"
#include "base/buffer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* By simulation a suspect is measured ten times in all, most of them less. */
static const double RUNS_PER_SUSPECT = 11;

struct asking {
    const struct kg_regress_again *again;
    const struct kg_confirmation *names; /* of all noisy figures */
};

static enum kg_status run_once(void *context, int build, const size_t *open, size_t n_open, double *values,
                               double *machine, struct kg_error *err) {
    const struct asking *asking = context;
    const struct kg_confirmation **figures = kg_xcalloc(n_open, sizeof *figures);
    for (size_t i = 0; i < n_open; i++) figures[i] = &asking->names[open[i]];
    const enum kg_status status =
        asking->again->run(asking->again->context, build, figures, n_open, values, machine, err);
    free(figures);
    return status;
}

static bool has_time(void *context, size_t n_open) {
    const struct asking *asking = context;
    return asking->again->has_time(asking->again->context, n_open);
}

/* How many suspects the budget is enough for, if a case takes as long as it did in the judged run. */
static size_t room(const struct kg_comparison *comparison) {
    const double case_s = (double)comparison->out->run.duration_us / 1e6 / (double)(comparison->run.n_results + 1);
    const double n = comparison->options->again->budget_s / (RUNS_PER_SUSPECT * fmax(case_s, 1e-3));
    return n < 1 ? 1 : n < 1e6 ? (size_t)n : 1000000;
}

static void name_items(const struct kg_confirmation *names, const struct kg_noisy *noisy,
                       struct kg_noisy_again *again) {
    for (size_t i = 0; i < again->n_items; i++) {
        struct kg_confirmation *c = &again->items[i].found;
        const double flagged = log1p(c->flagged);
        if (i < again->n_of_figures) {
            *c = names[again->places[i]];
        } else {
            c->key = noisy->drifts[again->places[i]].group;
            c->figure = "every case";
        }
        c->flagged = expm1(c->worse * flagged);
    }
}

static void keep_found(struct kg_regression *out, const struct kg_noisy_again *again) {
    out->again = kg_xcalloc(again->n_items, sizeof *out->again);
    for (size_t i = 0; i < again->n_items; i++) {
        const struct kg_again_item *item = &again->items[i];
        if (item->flagged || item->found.verdict != KG_REFUTED) out->again[out->n_again++] = item->found;
    }
    out->n_again_all = again->n_items;
    out->n_again_left_out = again->n_left_out;
}

void kg_regress_measure_again(struct kg_comparison *comparison, const struct kg_noisy_runs *runs,
                              const struct kg_confirmation *names, struct kg_noisy *noisy) {
    const struct kg_regress_again *asked = comparison->options->again;
    struct kg_regression *out = comparison->out;
    struct asking asking = { asked, names };
    const struct kg_again_source source = { &asking, run_once, has_time };
    struct kg_noisy_again again;
    struct kg_error err;
    kg_noisy_suspects(runs, noisy, room(comparison), &again);
    if (again.n_items > 0) {
        name_items(names, noisy, &again);
        enum kg_status status = asked->open(asked->context, comparison->options->root, &out->run,
                                            &out->baseline.items[out->build_against], &err);
        if (status == KG_OK) status = kg_noisy_decide(runs, noisy, &again, &source, &err);
        if (status == KG_OK) keep_found(out, &again);
        else kg_regress_reason(out, "%zu suspects were not measured again: %s", again.n_items, err.message);
    }
    kg_noisy_again_free(&again);
}
