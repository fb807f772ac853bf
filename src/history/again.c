#include "history/again.h"
#include "base/buffer.h"
#include "base/size.h"
#include "measure/robust.h"
#include "measure/statistics.h"
#include <math.h>
#include <stdlib.h>

enum { N_VALUES = 2 * KG_AGAIN_MOST_RUNS };

static const struct look {
    size_t n; /* runs of each build */
    double drop_below;
    bool confirms;
} LOOKS[] = {
    { 2, 0, false },       { 4, 1.0 / 3, false }, { 8, 1.0 / 2, true },
    { 12, 1.0 / 2, true }, { 16, 1.0 / 2, true }, { KG_AGAIN_MOST_RUNS, 1.0 / 2, true },
};
static const double N_CONFIRMING = 4, ERROR_RATE = 0.05, DOUBTFUL = 1.0 / 2000;

struct again {
    const struct kg_again_source *source;
    struct kg_again_item *items;
    size_t n_items, n_figures;
    double least; /* as a logarithm */
    double (*values)[N_VALUES];
    double machine[N_VALUES];
    size_t n_runs[2]; /* of each build; run r of build b is value 2 r + b */
    bool *is_open;    /* items */
    size_t *open;     /* figures of open items */
    size_t n_open;
};

static void find_open(struct again *a) {
    bool *wanted = kg_xcalloc(a->n_figures, sizeof *wanted);
    for (size_t i = 0; i < a->n_items; i++)
        for (size_t k = 0; k < a->items[i].n_figures && a->is_open[i]; k++) wanted[a->items[i].figures[k]] = true;
    a->n_open = 0;
    for (size_t i = 0; i < a->n_figures; i++)
        if (wanted[i]) a->open[a->n_open++] = i;
    free(wanted);
}

static enum kg_status measure_one(struct again *a, int build, struct kg_error *err) {
    double *values = kg_xcalloc(a->n_open, sizeof *values);
    const size_t place = 2 * a->n_runs[build] + (size_t)build;
    const enum kg_status status =
        a->source->run(a->source->context, build, a->open, a->n_open, values, &a->machine[place], err);
    for (size_t i = 0; i < a->n_open; i++) a->values[a->open[i]][place] = values[i];
    a->n_runs[build]++; /* of no use after an error */
    free(values);
    return status;
}

/* Distances from the centre of both builds' runs together. */
static void centred(const double *values, size_t n_runs, double *out) {
    double known[N_VALUES];
    size_t n = 0;
    for (size_t j = 0; j < 2 * n_runs; j++)
        if (!isnan(values[j])) known[n++] = values[j];
    const double centre = n > 0 ? kg_median(known, n) : NAN;
    for (size_t j = 0; j < 2 * n_runs; j++) out[j] = values[j] - centre;
}

/* An item's values: its figure's, or the median over its figures' in each run. */
static void values_of(const struct again *a, const struct kg_again_item *item, size_t n_runs, double *out) {
    double(*away)[N_VALUES] = kg_xcalloc(item->n_figures, sizeof *away), *column;
    column = kg_xcalloc(item->n_figures, sizeof *column);
    for (size_t k = 0; k < item->n_figures; k++) centred(a->values[item->figures[k]], n_runs, away[k]);
    for (size_t j = 0; j < 2 * n_runs; j++) {
        size_t n = 0;
        for (size_t k = 0; k < item->n_figures; k++)
            if (!isnan(away[k][j])) column[n++] = away[k][j];
        out[j] = n > 0 ? kg_median(column, n) : NAN;
    }
    free(column);
    free(away);
}

static double scatter(const double *values, const double *machine, size_t n_runs) {
    double known[N_VALUES];
    size_t n = 0;
    for (size_t j = 0; j < 2 * n_runs; j++) {
        const double value = values[j] - (machine ? machine[j] : 0);
        if (!isnan(value)) known[n++] = value;
    }
    return n > 1 ? fmax(kg_robust_sigma(known, n), 1e-6) : NAN;
}

/* Whether canaries make the open items' values scatter less. */
static bool canaries_help(const struct again *a, double (*values)[N_VALUES], size_t n_runs) {
    double gain = 0;
    for (size_t i = 0; i < a->n_items; i++) {
        if (!a->is_open[i]) continue;
        const double ratio = scatter(values[i], a->machine, n_runs) / scatter(values[i], NULL, n_runs);
        if (isnan(ratio)) continue;
        gain -= log(ratio);
    }
    return gain > 0;
}

static void compare(struct kg_confirmation *c, const double *values, const double *machine, size_t n_runs) {
    double sides[2][KG_AGAIN_MOST_RUNS];
    size_t n[2] = { 0, 0 };
    for (size_t j = 0; j < 2 * n_runs; j++) {
        const double value = values[j] - (machine ? machine[j] : 0);
        if (!isnan(value)) sides[j % 2][n[j % 2]++] = value;
    }
    c->n_before = n[0];
    c->n_after = n[1];
    c->verdict = KG_UNCONFIRMED;
    if (n[0] >= 2 && n[1] >= 2) kg_confirm_compare(sides[0], n[0], sides[1], n[1], c);
}

/* True if the item is decided. */
static bool decide(const struct again *a, const struct look *look, struct kg_again_item *item) {
    struct kg_confirmation *c = &item->found;
    const bool is_last = look->n == KG_AGAIN_MOST_RUNS;
    c->adjusted = fmin(1, c->p * (double)a->n_items * N_CONFIRMING);
    if (c->verdict == KG_UNCONFIRMED) return is_last; /* too few values */
    const double change = c->worse * log1p(c->change);
    const enum kg_confirmed verdict = kg_confirm_verdict(c, ERROR_RATE, expm1(a->least));
    c->verdict = KG_UNDECIDED;
    if (look->confirms && c->adjusted <= ERROR_RATE) c->verdict = verdict;
    else if (look->confirms && item->flagged && verdict == KG_REFUTED) c->verdict = KG_REFUTED;
    else if (!item->flagged && (change < look->drop_below * a->least || (is_last && c->p > DOUBTFUL)))
        c->verdict = KG_REFUTED;
    return is_last || c->verdict != KG_UNDECIDED;
}

static void look_at(struct again *a, const struct look *look) {
    double(*values)[N_VALUES] = kg_xcalloc(a->n_items, sizeof *values);
    for (size_t i = 0; i < a->n_items; i++)
        if (a->is_open[i]) values_of(a, &a->items[i], look->n, values[i]);
    const double *machine = canaries_help(a, values, look->n) ? a->machine : NULL;
    for (size_t i = 0; i < a->n_items; i++) {
        if (!a->is_open[i]) continue;
        compare(&a->items[i].found, values[i], machine, look->n);
        a->is_open[i] = !decide(a, look, &a->items[i]);
    }
    find_open(a);
    free(values);
}

enum kg_status kg_again_measure(const struct kg_again_source *source, size_t n_figures, double least_change,
                                struct kg_again_item *items, size_t n_items, struct kg_error *err) {
    struct again a = { .source = source,
                       .items = items,
                       .n_items = n_items,
                       .n_figures = n_figures,
                       .least = log1p(least_change),
                       .values = kg_xcalloc(n_figures, sizeof *a.values),
                       .is_open = kg_xcalloc(n_items, sizeof *a.is_open),
                       .open = kg_xcalloc(n_figures, sizeof *a.open) };
    enum kg_status status = KG_OK;
    bool has_time = true;
    for (size_t i = 0; i < n_figures; i++)
        for (size_t j = 0; j < N_VALUES; j++) a.values[i][j] = NAN;
    for (size_t i = 0; i < n_items; i++) {
        struct kg_confirmation *c = &items[i].found;
        a.is_open[i] = true;
        c->verdict = KG_UNDECIDED;
        c->before = c->after = c->change = c->change_lo = c->change_hi = NAN;
        c->p = c->adjusted = 1;
    }
    find_open(&a);
    for (size_t i = 0; i < KG_COUNT_OF(LOOKS) && status == KG_OK && has_time && a.n_open > 0; i++) {
        while (a.n_runs[1] < LOOKS[i].n && status == KG_OK && has_time) {
            const int first = (int)(a.n_runs[1] % 2);
            has_time = source->has_time(source->context, a.n_open);
            if (has_time) status = measure_one(&a, first, err);
            if (has_time && status == KG_OK) status = measure_one(&a, 1 - first, err);
        }
        if (status == KG_OK && a.n_runs[1] == LOOKS[i].n) look_at(&a, &LOOKS[i]);
    }
    free(a.open);
    free(a.is_open);
    free(a.values);
    return status;
}
