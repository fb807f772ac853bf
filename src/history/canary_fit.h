/* What of one figure's history the machine's canaries explain.
 *
 * A row z is the mean of a back end's canaries by run, or one of them alone (a clock moves the figures that compute and
 * the GEMM, not the copy). Of a figure x, robustly fitted (Huber's weights, as robust regression in P. J. Huber, Ann.
 * Statist. 1 (1973) 799),
 *   x_j = a + b z_j + rest_j,   0 <= b <= 1,
 * and b z_j is taken off for the row that leaves the least sum |rest|, if that is less by 4.5 / n than without: first
 * with z the levels of the row (steps.h), which its noise does not attenuate, then with z what the row does about its
 * levels. No other figure has a say, so that what all figures do together and no canary shows stays. */
#ifndef KIGO_HISTORY_CANARY_FIT_H
#define KIGO_HISTORY_CANARY_FIT_H

#include "history/series.h"
#include <stddef.h>

struct kg_canary_fit {
    double *levels, *rests; /* n_rows x n_runs */
    size_t n_rows, n_runs;
};

/* Of the canaries of the group; rows: none without one. least_change: a logarithm. */
void kg_canary_fit_open(struct kg_canary_fit *fit, const struct kg_series *canaries, size_t n_canaries,
                        const char *group, size_t n_runs, double least_change);
/* Takes off by_run, NaN where a run has no value, what the canaries explain. */
void kg_canary_fit_take_off(const struct kg_canary_fit *fit, double *by_run);
void kg_canary_fit_close(struct kg_canary_fit *fit);

#endif
