/* What of a run's timings is the machine's doing: its drift, found by canaries, which time the same work in every run.
 *
 * Values are logarithms, more is slower, by run: first the run that is judged, then its baseline. Figures and canaries
 * come in groups (back ends), whose machines drift apart. Of a group and a run j:
 *   canary_j = median over its canaries of (value - centre of that canary's baseline)
 *   common_j = the same over its figures, of at least 10
 *   D_j      = common_j - canary_j: what all figures did and no canary explains; its levels L_j are found by steps.h
 *   drift_j  = common_j - L_j, which is taken off every figure
 * A median over many figures is far sharper than a few canaries, so that D scatters by the canaries' noise, which is
 * the machine's; but where D changes its level, the program did, and that stays in the figures. With fewer figures
 * drift_j = canary_j.
 *
 * The judged run's D is a separate event: `worse` (or `better`) if it lies beyond the least change and beyond the
 * Student limit of the scatter about the levels, from the lowest level of the baseline (highest, for better); the drift
 * of the judged run is then what its canaries say. A creep has no levels: `worse` too if it lies as far from the oldest
 * five runs, by the scatter that neighbours' differences tell. Without canaries nothing tells machine and program
 * apart: drift = common, and a judged run beyond the least change is `unexplained`. */
#ifndef KIGO_HISTORY_DRIFT_H
#define KIGO_HISTORY_DRIFT_H

#include "history/series.h"
#include <stdbool.h>
#include <stddef.h>

struct kg_drift {
    const char *group;
    double *by_run, *unexplained_by; /* drift_j and D_j; NaN: none */
    double common, canary;           /* of the run that is judged; NaN: none */
    size_t n_figures, n_canaries;
    double change, z, z_limit; /* of the judged run's D from the level that it is held against; NaN: none */
    bool worse, better, unexplained;
    bool crept;     /* worse than the oldest runs, by `change`, without a step */
    bool undecided; /* measured again (again.h), and neither confirmed nor refuted */
};

/* One drift for each group that figures have, in the order in which they come. n_runs counts the
 * judged run as well. least_change: a logarithm. */
void kg_drift_find(const struct kg_series *figures, size_t n_figures, const struct kg_series *canaries,
                   size_t n_canaries, size_t n_runs, double least_change, struct kg_drift **drifts, size_t *n_drifts);
void kg_drifts_free(struct kg_drift *drifts, size_t n_drifts);

/* The drift of a group; NULL if there is none. */
const struct kg_drift *kg_drift_of(const struct kg_drift *drifts, size_t n_drifts, const char *group);

#endif
