/* Suspects measured again: the second stage of a judgement. A sensitive screen names them, fresh runs of both builds
 * decide.
 *
 * Runs of the two builds alternate (baseline, judged; judged, baseline; ...), so that what the machine does meanwhile
 * meets both alike. After 2, 4, 8, 12, 16 and 20 runs of each build every open item is looked at:
 *   confirmed   n >= 8, and p * (items) * 4 <= 5%: p of the exact one-sided Mann-Whitney test, 4 the looks that may
 *               confirm. So an unchanged program has a confirmed item in 5% of runs at most, whatever the noise (G.
 *               Bonferroni; the looks before only drop items, which confirms none).
 *   dropped     the Hodges-Lehmann change lies below 0, 1/3, 1/2, 1/2, 1/2, 1/2 of the least change; after the last
 *               look p > 1/2000 too. Not for what the run itself was flagged for: that is refuted by an interval, or
 *               stays undecided.
 * Items that are decided are not measured further, so that most of the time goes into the few that matter.
 *
 * Values may be freed of each run's speed as canaries tell it. That is done where it makes the values of both builds,
 * thrown together, scatter less: whose run a value is of does not enter. */
#ifndef KIGO_HISTORY_AGAIN_H
#define KIGO_HISTORY_AGAIN_H

#include "history/confirm.h"

enum { KG_AGAIN_MOST_RUNS = 20 }; /* of each build */

/* Where fresh values come from: programs, or a simulation. */
struct kg_again_source {
    void *context;
    /* One run of a build (0: the baseline's, 1: the judged one's) of the figures `open`. values[i] is figure open[i]'s:
     * a logarithm, more is worse; NaN: none. *machine: how slow the canaries say the machine was; NaN: there are none.
     */
    enum kg_status (*run)(void *context, int build, const size_t *open, size_t n_open, double *values, double *machine,
                          struct kg_error *err);
    /* Whether there is time for a run of each build. */
    bool (*has_time)(void *context, size_t n_open);
};

struct kg_again_item {
    const size_t *figures; /* one; or several, of which each run's median distance from their centres counts */
    size_t n_figures;
    bool flagged; /* by the run that is judged: is not dropped */
    /* What follows is the answer; p is adjusted for all items and looks. */
    struct kg_confirmation found; /* its flagged, worse and names are given; KG_UNDECIDED: time was up, or 20 runs */
};

/* n_figures: figures are below it. */
KG_WARN_UNUSED enum kg_status kg_again_measure(const struct kg_again_source *source, size_t n_figures,
                                               double least_change, struct kg_again_item *items, size_t n_items,
                                               struct kg_error *err);

#endif
