#include "history/noisy_again.h"
#include "base/buffer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_flagged(const struct kg_screen_figure *f) {
    return f->verdict == KG_SCREEN_WORSE || f->verdict == KG_SCREEN_SUSPECT ||
           (f->verdict == KG_SCREEN_TOO_FEW && f->change > 0);
}

static bool is_suspect(const struct kg_screen_figure *f) {
    return is_flagged(f) || f->change > f->floor / 6;
}

static bool is_common_suspect(const struct kg_drift *d, double least_change) {
    const double above = isnan(d->canary) ? d->common : d->change;
    return d->worse || (d->unexplained && d->common > 0) || above > least_change / 6;
}

struct candidate {
    size_t place;
    bool flagged;
    double z;
};

static int strongest_first(const void *a, const void *b) {
    const struct candidate *const x = a, *const y = b;
    if (x->flagged != y->flagged) return y->flagged - x->flagged;
    return (x->z < y->z) - (x->z > y->z);
}

static struct kg_again_item item_of(const size_t *figures, size_t n, bool flagged, double change) {
    return (struct kg_again_item){ .figures = figures,
                                   .n_figures = n,
                                   .flagged = flagged,
                                   .found = { .key = "", .figure = "", .unit = "", .worse = 1, .flagged = change } };
}

static void add_figures(const struct kg_noisy_runs *runs, const struct kg_noisy *noisy, size_t most,
                        struct kg_noisy_again *out) {
    struct candidate *candidates = kg_xcalloc(runs->n_figures, sizeof *candidates);
    size_t n = 0;
    for (size_t i = 0; i < runs->n_figures; i++) {
        const struct kg_screen_figure *f = &noisy->figures[i];
        if (is_suspect(f))
            candidates[n++] = (struct candidate){ i, is_flagged(f), isnan(f->z) ? f->change / f->floor : f->z };
    }
    if (n > 1) qsort(candidates, n, sizeof *candidates, strongest_first);
    out->n_left_out = n > most ? n - most : 0;
    for (size_t i = 0; i < n - out->n_left_out; i++) {
        const size_t place = candidates[i].place;
        out->figures[i] = place;
        out->places[i] = place;
        out->items[out->n_items++] =
            item_of(&out->figures[i], 1, candidates[i].flagged, expm1(noisy->figures[place].change));
    }
    out->n_of_figures = out->n_items;
    free(candidates);
}

/* A sample of the group's figures, spread over all. */
static size_t sample(const struct kg_noisy_runs *runs, const char *group, size_t *figures) {
    size_t n_group = 0, n = 0, seen = 0;
    for (size_t i = 0; i < runs->n_figures; i++) n_group += strcmp(runs->figures[i].group, group) == 0;
    const size_t n_wanted = n_group < KG_AGAIN_SAMPLE ? n_group : KG_AGAIN_SAMPLE;
    for (size_t i = 0; i < runs->n_figures && n < n_wanted; i++) {
        if (strcmp(runs->figures[i].group, group) != 0) continue;
        if (seen++ * n_wanted >= n * n_group) figures[n++] = i;
    }
    return n;
}

void kg_noisy_suspects(const struct kg_noisy_runs *runs, const struct kg_noisy *noisy, size_t most,
                       struct kg_noisy_again *out) {
    const size_t room = runs->n_figures + noisy->n_drifts * KG_AGAIN_SAMPLE + 1;
    *out = (struct kg_noisy_again){ .items = kg_xcalloc(room, sizeof *out->items),
                                    .places = kg_xcalloc(room, sizeof *out->places),
                                    .figures = kg_xcalloc(room, sizeof *out->figures) };
    add_figures(runs, noisy, most, out);
    size_t n_used = out->n_items;
    for (size_t i = 0; i < noisy->n_drifts; i++) {
        const struct kg_drift *d = &noisy->drifts[i];
        if (!is_common_suspect(d, runs->least_change)) continue;
        const size_t n = sample(runs, d->group, out->figures + n_used);
        out->places[out->n_items] = i;
        out->items[out->n_items++] =
            item_of(out->figures + n_used, n, d->worse || d->unexplained, expm1(d->worse ? d->change : d->common));
        n_used += n;
    }
}

void kg_noisy_again_free(struct kg_noisy_again *again) {
    free(again->items);
    free(again->places);
    free(again->figures);
    *again = (struct kg_noisy_again){ 0 };
}

static void apply_to_figure(enum kg_confirmed found, bool flagged, struct kg_screen_figure *f) {
    if (found == KG_CONFIRMED) f->verdict = KG_SCREEN_WORSE;
    else if (found == KG_UNDECIDED) f->verdict = KG_SCREEN_SUSPECT;
    else if (found != KG_UNCONFIRMED && flagged) f->verdict = KG_SCREEN_SAME;
}

static void apply_to_drift(enum kg_confirmed found, struct kg_drift *d) {
    if (found == KG_UNCONFIRMED) return;
    d->worse = found == KG_CONFIRMED;
    d->undecided = found == KG_UNDECIDED;
    d->unexplained = false;
}

enum kg_status kg_noisy_decide(const struct kg_noisy_runs *runs, struct kg_noisy *noisy, struct kg_noisy_again *again,
                               const struct kg_again_source *source, struct kg_error *err) {
    const enum kg_status status =
        kg_again_measure(source, runs->n_figures, expm1(runs->least_change), again->items, again->n_items, err);
    if (status != KG_OK) return status;
    for (size_t i = 0; i < again->n_items; i++) {
        const struct kg_again_item *item = &again->items[i];
        if (i < again->n_of_figures)
            apply_to_figure(item->found.verdict, item->flagged, &noisy->figures[again->places[i]]);
        else apply_to_drift(item->found.verdict, &noisy->drifts[again->places[i]]);
    }
    return KG_OK;
}

/* Whether run j lies nearer to where the series was than to the judged value, and the two before it do. */
static bool lies_before(const double *by_run, size_t n_runs, size_t j, double middle) {
    enum { TOGETHER = 3 };
    size_t n = 0;
    if (isnan(by_run[j])) return false;
    for (size_t k = j; k < n_runs && n < TOGETHER; k++) {
        if (isnan(by_run[k])) continue;
        if (by_run[k] > middle) return false;
        n++;
    }
    return true;
}

size_t kg_noisy_baseline(const struct kg_noisy_runs *runs, const struct kg_noisy *noisy) {
    size_t *n_agree = kg_xcalloc(runs->n_runs, sizeof *n_agree), best = 1;
    for (size_t i = 0; i < runs->n_figures; i++) {
        const double *by_run = noisy->by_run + i * runs->n_runs;
        if (!is_flagged(&noisy->figures[i])) continue;
        for (size_t j = 1; j < runs->n_runs; j++)
            n_agree[j] += lies_before(by_run, runs->n_runs, j, by_run[0] - noisy->figures[i].change / 2);
    }
    for (size_t i = 0; i < noisy->n_drifts; i++) {
        const struct kg_drift *d = &noisy->drifts[i];
        /* Half of a creep is no step. */
        const double middle = d->unexplained_by[0] - d->change * (d->crept ? 0.9 : 0.5);
        for (size_t j = 1; j < runs->n_runs && d->worse; j++)
            n_agree[j] += d->n_figures * lies_before(d->unexplained_by, runs->n_runs, j, middle);
    }
    for (size_t j = 1; j < runs->n_runs; j++)
        if (n_agree[j] > n_agree[best]) best = j;
    free(n_agree);
    return best;
}
