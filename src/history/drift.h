/* What of a run's timings is the machine's doing: its drift, found by canaries, which time the same work in every run.
 *
 * Values are logarithms, more is slower, by run: first the run that is judged, then its baseline. Figures and canaries
 * come in groups (back ends), whose machines drift apart. Of a group and a run: canary = median over its canaries of
 * (value - centre of that canary's baseline), common = the same over its figures (of at least 10); drift = common where
 * canary agrees with it, else canary. A median over many figures is far sharper than a few canaries, but only canaries
 * can tell that the machine, and not the program, has changed: the two agree if they differ by no more than 1% or three
 * times their scatter over the baseline. Without canaries drift = common, and a run whose common shift is beyond the
 * least change is `unexplained`. */
#ifndef KIGO_HISTORY_DRIFT_H
#define KIGO_HISTORY_DRIFT_H

#include <stdbool.h>
#include <stddef.h>

struct kg_series {
    const char *group;
    double *by_run; /* NaN where the run has none */
};

struct kg_drift {
    const char *group;
    double *by_run;
    double common, canary; /* of the run that is judged; NaN: none */
    size_t n_figures, n_canaries;
    bool unexplained;
};

/* One drift for each group that figures have, in the order in which they come. n_runs counts the
 * judged run as well. least_change: a logarithm. */
void kg_drift_find(const struct kg_series *figures, size_t n_figures, const struct kg_series *canaries,
                   size_t n_canaries, size_t n_runs, double least_change, struct kg_drift **drifts, size_t *n_drifts);
void kg_drifts_free(struct kg_drift *drifts, size_t n_drifts);

/* The drift of a group; NULL if there is none. */
const struct kg_drift *kg_drift_of(const struct kg_drift *drifts, size_t n_drifts, const char *group);

#endif
