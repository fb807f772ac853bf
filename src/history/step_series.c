#include "history/step_series.h"
#include "base/buffer.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const double USUAL = 0.1; /* weight of a place where no other case steps */
enum { ROUNDS = 100 };

/* A step and the places it may have: the run that it begins with, and the run before. */
struct placed {
    struct kg_series_step step;
    size_t case_no, at; /* its place as found, among the figure's values */
    size_t first[KG_STEP_PLACES], last[KG_STEP_PLACES];
    double likelihood[KG_STEP_PLACES], posterior[KG_STEP_PLACES];
};

struct list {
    struct placed *items;
    size_t n;
};

static bool same_commit(const size_t *commits, size_t a, size_t b) {
    return commits && commits[a] == commits[b];
}

static void fill_places(const struct kg_step *step, const size_t *from, size_t n, const size_t *commits,
                        struct placed *out) {
    bool any = false;
    for (size_t i = 0; i < KG_STEP_PLACES; i++) {
        const size_t at = step->at + i - KG_STEP_REACH; /* wraps before the first value */
        out->likelihood[i] = at > 0 && at < n ? exp(-(step->costs[i] - step->costs[KG_STEP_REACH]) / 2) : 0;
        if (out->likelihood[i] <= 0) continue;
        out->first[i] = from[at];
        out->last[i] = from[at - 1];
        any = any || !same_commit(commits, out->first[i], out->last[i]);
    }
    for (size_t i = 0; any && i < KG_STEP_PLACES; i++)
        if (out->likelihood[i] > 0 && same_commit(commits, out->first[i], out->last[i])) out->likelihood[i] = 0;
}

static void find_in(const struct kg_step_figures *f, size_t series, struct list *list) {
    double *values = kg_xcalloc(f->n_runs, sizeof *values);
    size_t *from = kg_xcalloc(f->n_runs, sizeof *from), n = 0;
    struct kg_step *steps = kg_xcalloc(f->n_runs, sizeof *steps);
    for (size_t run = 0; run < f->n_runs; run++) {
        if (isnan(f->series[series].by_run[run])) continue;
        from[n] = run;
        values[n++] = f->series[series].by_run[run];
    }
    const size_t n_steps = kg_steps_find(values, n, f->least_change, steps);
    list->items = kg_xrealloc(list->items, (list->n + n_steps) * sizeof *list->items);
    for (size_t i = 0; i < n_steps; i++) {
        struct placed *placed = &list->items[list->n++];
        *placed = (struct placed){ .step = { .series = series,
                                             .before = steps[i].before,
                                             .after = steps[i].after,
                                             .n_before = steps[i].n_before,
                                             .n_after = steps[i].n_after,
                                             .p = steps[i].p,
                                             .creeps = steps[i].creeps },
                                   .case_no = f->cases[series] };
        fill_places(&steps[i], from, n, f->commits, placed);
    }
    free(steps);
    free(from);
    free(values);
}

/* P_i(t) from what the other cases say of t: `others` by run, of which the case's own part is `own`. */
static void learn(struct placed *placed, const double *all, const double *own) {
    double sum = 0;
    for (size_t i = 0; i < KG_STEP_PLACES; i++) {
        if (placed->likelihood[i] <= 0) continue;
        const size_t run = placed->first[i];
        placed->posterior[i] = placed->likelihood[i] * (USUAL + fmax(0, all[run] - own[run]));
        sum += placed->posterior[i];
    }
    for (size_t i = 0; i < KG_STEP_PLACES; i++) placed->posterior[i] /= sum > 0 ? sum : 1;
}

/* Figures of one case count once: the largest of what its steps say of a run. */
static void say(const struct placed *first, const struct placed *end, double *own) {
    for (const struct placed *p = first; p < end; p++)
        for (size_t i = 0; i < KG_STEP_PLACES; i++)
            if (p->likelihood[i] > 0) own[p->first[i]] = fmax(own[p->first[i]], p->posterior[i]);
}

static void clear(const struct placed *first, const struct placed *end, double *own) {
    for (const struct placed *p = first; p < end; p++)
        for (size_t i = 0; i < KG_STEP_PLACES; i++)
            if (p->likelihood[i] > 0) own[p->first[i]] = 0;
}

static int by_case(const void *a, const void *b) {
    const struct placed *x = a, *y = b;
    if (x->case_no != y->case_no) return x->case_no < y->case_no ? -1 : 1;
    if (x->step.series != y->step.series) return x->step.series < y->step.series ? -1 : 1;
    return (x->step.first_after > y->step.first_after) - (x->step.first_after < y->step.first_after);
}

static size_t end_of_case(const struct list *list, size_t begin) {
    size_t end = begin + 1;
    while (end < list->n && list->items[end].case_no == list->items[begin].case_no) end++;
    return end;
}

static void place_all(const struct list *list, size_t n_runs) {
    double *all = kg_xcalloc(n_runs, sizeof *all), *own = kg_xcalloc(n_runs, sizeof *own);
    for (int round = 0; round < ROUNDS; round++) {
        double *next = kg_xcalloc(n_runs, sizeof *next);
        for (size_t begin = 0, end; begin < list->n; begin = end) {
            end = end_of_case(list, begin);
            if (round > 0) say(list->items + begin, list->items + end, own);
            for (size_t i = begin; i < end; i++) learn(&list->items[i], all, own);
            clear(list->items + begin, list->items + end, own);
            say(list->items + begin, list->items + end, own);
            for (size_t i = begin; i < end; i++)
                for (size_t k = 0; k < KG_STEP_PLACES; k++) {
                    const size_t run = list->items[i].first[k];
                    if (list->items[i].likelihood[k] <= 0) continue;
                    next[run] += own[run];
                    own[run] = 0; /* once for a case */
                }
        }
        free(all);
        all = next;
    }
    free(own);
    free(all);
}

static void settle(struct placed *placed) {
    size_t best = KG_STEP_REACH;
    for (size_t i = 0; i < KG_STEP_PLACES; i++)
        if (placed->posterior[i] > placed->posterior[best]) best = i;
    placed->step.first_after = placed->first[best];
    placed->step.last_before = placed->last[best];
    placed->step.placed = placed->posterior[best];
    placed->step.n_before += best - KG_STEP_REACH; /* wraps as it should */
    placed->step.n_after -= best - KG_STEP_REACH;
}

/* What the canaries of each back end say, found once. */
struct fits {
    struct fit {
        const char *group;
        struct kg_canary_fit fit;
    } * items;
    size_t n;
};

static const struct kg_canary_fit *fit_of(struct fits *fits, const struct kg_step_figures *f, const char *group) {
    for (size_t i = 0; i < fits->n; i++)
        if (strcmp(fits->items[i].group, group) == 0) return &fits->items[i].fit;
    fits->items = kg_xrealloc(fits->items, (fits->n + 1) * sizeof *fits->items);
    struct fit *one = &fits->items[fits->n++];
    one->group = group;
    kg_canary_fit_open(&one->fit, f->canaries, f->n_canaries, group, f->n_runs, f->least_change);
    return &one->fit;
}

size_t kg_series_steps(const struct kg_step_figures *f, struct kg_series_step **steps) {
    struct list list = { NULL, 0 };
    struct fits fits = { NULL, 0 };
    for (size_t i = 0; i < f->n; i++) {
        kg_canary_fit_take_off(fit_of(&fits, f, f->series[i].group), f->series[i].by_run);
        find_in(f, i, &list);
    }
    for (size_t i = 0; i < fits.n; i++) kg_canary_fit_close(&fits.items[i].fit);
    free(fits.items);
    if (list.n > 1) qsort(list.items, list.n, sizeof *list.items, by_case);
    place_all(&list, f->n_runs);
    *steps = kg_xcalloc(list.n, sizeof **steps);
    for (size_t i = 0; i < list.n; i++) {
        settle(&list.items[i]);
        (*steps)[i] = list.items[i].step;
    }
    free(list.items);
    return list.n;
}
