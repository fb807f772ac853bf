#include "history/detectable.h"
#include <math.h>
#include <string.h>

static const double NINE_OF_TEN = 1.2815515655446004; /* normal values lie less far above the centre so often */
static const double AMONG_HUNDREDS = 4;               /* what 1 in 30000 exceed */
static const double RANKS_EFFICIENCY = 0.955;         /* of the Mann-Whitney test, for normal values */

static double detectable(const struct kg_noisy *noisy, size_t i) {
    const struct kg_screen_figure *f = &noisy->figures[i];
    if (f->n_baseline < KG_SCREEN_FEWEST || isnan(noisy->family.unit[i])) return INFINITY;
    const double own = f->z_limit * f->sigma * sqrt(1 + 1 / (RANKS_EFFICIENCY * (double)f->n_baseline));
    const double demanded = fmax(fmax(f->floor, own), noisy->family.red * noisy->family.unit[i]);
    return demanded + NINE_OF_TEN * noisy->family.unit[i];
}

static size_t runs_needed(const struct kg_noisy *noisy, size_t i, double least_change) {
    const struct kg_screen_figure *f = &noisy->figures[i];
    if (f->n_baseline < KG_SCREEN_FEWEST) return KG_SCREEN_FEWEST - f->n_baseline;
    const double errors = (AMONG_HUNDREDS + NINE_OF_TEN) * noisy->family.unit[i] / fmax(least_change, f->floor);
    return (size_t)ceil(fmax(KG_SCREEN_FEWEST, 2 * errors * errors / RANKS_EFFICIENCY));
}

static size_t group_of(double change, double least_change) {
    size_t group = 0;
    if (isinf(change)) return KG_UNSEEN_MOST - 1;
    for (double bound = 2 * least_change; change > bound && group < KG_UNSEEN_MOST - 2; bound *= 2) group++;
    return group;
}

size_t kg_unseen_find(const struct kg_noisy_runs *runs, const struct kg_noisy *noisy,
                      struct kg_unseen groups[KG_UNSEEN_MOST]) {
    size_t n = 0;
    memset(groups, 0, KG_UNSEEN_MOST * sizeof *groups);
    for (size_t i = 0; i < runs->n_figures; i++) {
        const double change = detectable(noisy, i);
        struct kg_unseen *group = &groups[group_of(change, runs->least_change)];
        const size_t n_runs = runs_needed(noisy, i, runs->least_change);
        if (n_runs > group->n_runs) group->n_runs = n_runs;
        if (group->n_figures++ > 0 && expm1(change) <= group->below) continue;
        group->below = expm1(change);
        group->worst = i;
    }
    for (size_t k = 0; k < KG_UNSEEN_MOST; k++)
        if (groups[k].n_figures > 0) groups[n++] = groups[k];
    return n;
}
