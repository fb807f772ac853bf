#include "history/confirm.h"
#include "base/buffer.h"
#include "history/canary_fit.h"
#include "history/trust.h"
#include "measure/rank_test.h"
#include "measure/statistics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double FALSE_DISCOVERY_RATE = 0.05, LEAST_CHANGE = 0.03; /* of the canaries' levels */
const char *const KG_CONFIRMED_NAMES[KG_CONFIRMED_COUNT] = { "confirmed", "small", "refuted", "inconclusive",
                                                             "undecided" };

struct side {
    struct kg_run *runs;
    int64_t *started_us; /* beside runs */
    size_t n;
};

/* The runs of both builds in the order in which they were taken, and their canaries by run. */
struct taken {
    struct taken_run {
        const struct kg_run *run;
        int64_t started_us;
        bool is_after; /* of the build that is judged */
    } * items;
    size_t n;
    struct kg_series *canaries;
    double *values; /* what canaries point into */
    size_t n_canaries;
};

static enum kg_status load(struct kg_history *history, char *const *ids, size_t n_ids,
                           const struct kg_catalogue *catalogue, struct side *side, struct kg_error *err) {
    enum kg_status status = KG_OK;
    side->runs = kg_xcalloc(n_ids, sizeof *side->runs);
    side->started_us = kg_xcalloc(n_ids, sizeof *side->started_us);
    for (size_t i = 0; i < n_ids && status == KG_OK; i++) {
        const char *const args[] = { ids[i] };
        struct kg_run_heads heads = { NULL, 0 };
        status = kg_run_heads_load(history, "WHERE bundle_id = ?1", args, 1, &heads, err);
        if (status == KG_OK && heads.n_items == 0)
            status = kg_fail(err, KG_ERR_NOT_FOUND, "the index holds no run '%s'", ids[i]);
        if (status == KG_OK) {
            side->started_us[side->n] = heads.items[0].started_us;
            status = kg_run_load(history, heads.items[0].bundle_no, catalogue, &side->runs[side->n], err);
            side->n += status == KG_OK;
        }
        kg_run_heads_free(&heads);
    }
    return status;
}

static void unload(struct side *side) {
    for (size_t i = 0; i < side->n; i++) kg_run_free(&side->runs[i]);
    free(side->runs);
    free(side->started_us);
}

static int by_start(const void *a, const void *b) {
    const struct taken_run *x = a, *y = b;
    return (x->started_us > y->started_us) - (x->started_us < y->started_us);
}

/* A canary's figure in every run. */
static void add_canary(const struct kg_run *run, const struct kg_run_result *r, size_t place, struct taken *taken) {
    const struct kg_run_figure *figure = &run->figures[r->first_figure + place];
    double *by_run = taken->values + taken->n_canaries * taken->n;
    for (size_t i = 0; i < taken->n; i++) {
        const struct kg_run *other = taken->items[i].run;
        const struct kg_run_result *found = kg_run_find(other, r->c->same);
        by_run[i] = kg_run_figure_log(found ? kg_run_figure(other, found, figure) : NULL);
    }
    taken->canaries[taken->n_canaries++] = (struct kg_series){ r->c->backend, by_run };
}

static void add_runs(const struct side *side, bool is_after, struct taken *taken) {
    for (size_t i = 0; i < side->n; i++)
        taken->items[taken->n++] = (struct taken_run){ &side->runs[i], side->started_us[i], is_after };
}

static void taken_open(const struct side *before, const struct side *after, struct taken *taken) {
    *taken = (struct taken){ .items = kg_xcalloc(before->n + after->n + 1, sizeof *taken->items) };
    add_runs(before, false, taken);
    add_runs(after, true, taken);
    if (taken->n == 0) return;
    qsort(taken->items, taken->n, sizeof *taken->items, by_start);
    const struct kg_run *first = taken->items[0].run;
    taken->canaries = kg_xcalloc(first->n_figures + 1, sizeof *taken->canaries);
    taken->values = kg_xcalloc((first->n_figures + 1) * taken->n, sizeof *taken->values);
    for (size_t i = 0; i < first->n_results; i++)
        for (size_t k = 0; k < first->results[i].n_figures; k++) {
            const struct kg_run_result *r = &first->results[i];
            if (kg_figure_class_in(r->c, first->figures[r->first_figure + k].info) == KG_FIGURE_CANARY)
                add_canary(first, r, k, taken);
        }
}

static void taken_close(struct taken *taken) {
    free(taken->values);
    free(taken->canaries);
    free(taken->items);
}

/* The first valid figure of that name in a run's case, *info. NaN: none. */
static double value_of(const struct kg_run *run, const struct kg_confirmation *c, const struct kg_case_info **info) {
    for (size_t i = 0; i < run->n_results; i++) {
        const struct kg_run_result *r = &run->results[i];
        if (r->outcome != KG_OUTCOME_PASS || strcmp(r->c->key, c->key) != 0) continue;
        *info = r->c;
        for (size_t k = 0; k < r->n_figures; k++) {
            const struct kg_run_figure *f = &run->figures[r->first_figure + k];
            if (strcmp(f->info->name, c->figure) == 0 && strcmp(f->info->unit, c->unit) == 0)
                return f->valid && f->value > 0 ? f->value : NAN;
        }
    }
    return NAN;
}

static double canaries_of(const struct kg_run *run) {
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < run->n_figures; i++) {
        const double value = kg_run_figure_log(&run->figures[i]);
        if (run->figures[i].info->kind.class != KG_FIGURE_CANARY || isnan(value)) continue;
        sum += value;
        n++;
    }
    return n > 0 ? sum / (double)n : NAN;
}

enum kg_status kg_confirm_values(struct kg_history *history, char *id, const struct kg_confirmation *const *figures,
                                 size_t n_figures, double *values, double *machine, char **comparison_key,
                                 struct kg_error *err) {
    const char *const args[] = { id };
    struct kg_catalogue catalogue;
    struct kg_run_heads heads = { NULL, 0 };
    struct side side = { 0 };
    enum kg_status status = kg_trust_runs(history, args, 1, err);
    if (status == KG_OK) status = kg_catalogue_load(history, &catalogue, err);
    if (status != KG_OK) return status;
    status = load(history, &id, 1, &catalogue, &side, err);
    if (status == KG_OK) status = kg_run_heads_load(history, "WHERE bundle_id = ?1", args, 1, &heads, err);
    if (status == KG_OK && heads.n_items > 0) {
        for (size_t i = 0; i < n_figures; i++) {
            const struct kg_case_info *info;
            values[i] = figures[i]->worse * log(value_of(&side.runs[0], figures[i], &info));
        }
        *machine = canaries_of(&side.runs[0]);
        *comparison_key = kg_xstrdup(heads.items[0].comparison_key);
    }
    kg_run_heads_free(&heads);
    unload(&side);
    kg_catalogue_free(&catalogue);
    return status;
}

void kg_confirm_take_off(const struct kg_series *canaries, size_t n_canaries, const char *group, size_t n_runs,
                         double *by_run) {
    struct kg_canary_fit fit;
    kg_canary_fit_open(&fit, canaries, n_canaries, group, n_runs, LEAST_CHANGE);
    kg_canary_fit_take_off(&fit, by_run);
    kg_canary_fit_close(&fit);
}

/* How many of n_x n_y ascending differences lie below the 95% interval of the shift, by the normal approximation of the
 * rank sum, which is the exact count for 5 against 5 and 10 against 10. */
static size_t differences_below(size_t n_x, size_t n_y) {
    const double n = (double)n_x * (double)n_y;
    return (size_t)fmax(0, floor(n / 2 - 1.959964 * sqrt(n * (double)(n_x + n_y + 1) / 12)) - 1);
}

static double relative(const struct kg_confirmation *c, double log_change) {
    return expm1(c->worse * log_change);
}

void kg_confirm_compare(const double *x, size_t n_x, const double *y, size_t n_y, struct kg_confirmation *c) {
    double *differences = kg_xcalloc(n_x * n_y, sizeof *differences);
    for (size_t i = 0; i < n_x; i++)
        for (size_t k = 0; k < n_y; k++) differences[i * n_y + k] = y[k] - x[i];
    c->n_before = n_x;
    c->n_after = n_y;
    c->p = kg_mann_whitney_greater(x, n_x, y, n_y);
    c->change = relative(c, kg_median(differences, n_x * n_y));
    const size_t n = n_x * n_y, below = differences_below(n_x, n_y);
    const double lo = relative(c, kg_nth(differences, n, below)),
                 hi = relative(c, kg_nth(differences, n, n - 1 - below));
    c->change_lo = fmin(lo, hi);
    c->change_hi = fmax(lo, hi);
    c->verdict = KG_UNDECIDED;
    free(differences);
}

/* The values of one build; how many there are. */
static size_t values_of(const struct taken *taken, bool is_after, const double *by_run, double *values) {
    size_t n = 0;
    for (size_t i = 0; i < taken->n; i++)
        if (taken->items[i].is_after == is_after && !isnan(by_run[i])) values[n++] = by_run[i];
    return n;
}

static void compare(const struct taken *taken, struct kg_confirmation *c) {
    double *by_run = kg_xcalloc(taken->n, sizeof *by_run), *x = kg_xcalloc(taken->n, sizeof *x),
           *y = kg_xcalloc(taken->n, sizeof *y);
    const struct kg_case_info *info[2] = { NULL, NULL };
    for (size_t i = 0; i < taken->n; i++)
        by_run[i] = c->worse * log(value_of(taken->items[i].run, c, &info[taken->items[i].is_after]));
    c->n_before = values_of(taken, false, by_run, x);
    c->n_after = values_of(taken, true, by_run, y);
    c->before = c->after = c->change = c->change_lo = c->change_hi = NAN;
    c->p = c->adjusted = 1;
    c->verdict = KG_UNCONFIRMED;
    if (c->n_before >= KG_CONFIRM_FEWEST && c->n_after >= KG_CONFIRM_FEWEST && info[0]->same == info[1]->same) {
        c->before = exp(c->worse * kg_median(x, c->n_before));
        c->after = exp(c->worse * kg_median(y, c->n_after));
        kg_confirm_take_off(taken->canaries, taken->n_canaries, info[0]->backend, taken->n, by_run);
        values_of(taken, false, by_run, x);
        values_of(taken, true, by_run, y);
        kg_confirm_compare(x, c->n_before, y, c->n_after, c);
    }
    free(y);
    free(x);
    free(by_run);
}

enum kg_confirmed kg_confirm_verdict(const struct kg_confirmation *c, double rate, double least_change) {
    const double least = log1p(least_change);
    const double most = c->worse > 0 ? log1p(c->change_hi) : -log1p(c->change_lo); /* by which it may be worse */
    const double half = isnan(c->flagged) ? least : c->worse * log1p(c->flagged) / 2;
    if (c->adjusted <= rate) return most >= least ? KG_CONFIRMED : KG_CONFIRMED_SMALL;
    return most < fmax(least, half) ? KG_REFUTED : KG_UNDECIDED;
}

void kg_confirm_decide(struct kg_confirmation *c, size_t n, double least_change) {
    double *p = kg_xcalloc(n, sizeof *p), *adjusted = kg_xcalloc(n, sizeof *adjusted);
    size_t n_tests = 0;
    for (size_t i = 0; i < n; i++)
        if (c[i].verdict != KG_UNCONFIRMED) p[n_tests++] = c[i].p;
    kg_benjamini_hochberg(p, n_tests, adjusted);
    n_tests = 0;
    for (size_t i = 0; i < n; i++) {
        if (c[i].verdict == KG_UNCONFIRMED) continue;
        c[i].adjusted = adjusted[n_tests++];
        c[i].verdict = kg_confirm_verdict(&c[i], FALSE_DISCOVERY_RATE, least_change);
    }
    free(adjusted);
    free(p);
}

enum kg_status kg_confirm(struct kg_history *history, char *const *before_ids, size_t n_before, char *const *after_ids,
                          size_t n_after, double least_change, struct kg_confirmation *confirmations,
                          size_t n_confirmations, struct kg_error *err) {
    struct side before = { 0 }, after = { 0 };
    struct kg_catalogue catalogue;
    enum kg_status status = kg_trust_runs(history, (const char *const *)before_ids, n_before, err);
    if (status == KG_OK) status = kg_trust_runs(history, (const char *const *)after_ids, n_after, err);
    if (status == KG_OK) status = kg_catalogue_load(history, &catalogue, err);
    if (status != KG_OK) return status;
    status = load(history, before_ids, n_before, &catalogue, &before, err);
    if (status == KG_OK) status = load(history, after_ids, n_after, &catalogue, &after, err);
    if (status == KG_OK) {
        struct taken taken;
        taken_open(&before, &after, &taken);
        for (size_t i = 0; i < n_confirmations; i++) compare(&taken, &confirmations[i]);
        taken_close(&taken);
    }
    if (status == KG_OK) kg_confirm_decide(confirmations, n_confirmations, least_change);
    unload(&before);
    unload(&after);
    kg_catalogue_free(&catalogue);
    return status;
}
