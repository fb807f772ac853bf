/* The steps of many series over the same runs: each freed of what canaries explain (canary_fit.h), split into levels
 * (measure/steps.h), and its steps placed at the commit that the steps of other cases share. */
#ifndef KIGO_HISTORY_STEP_SERIES_H
#define KIGO_HISTORY_STEP_SERIES_H

#include "history/canary_fit.h"
#include "measure/steps.h"
#include <stdbool.h>

struct kg_step_figures {
    struct kg_series *series; /* oldest run first */
    const size_t *cases;      /* by series: figures of one case have equal noise, and count once */
    size_t n, n_runs;
    const struct kg_series *canaries;
    size_t n_canaries;
    const size_t *commits; /* by run: a number, equal for equal commits; NULL: every run has its own */
    double least_change;   /* a logarithm */
};

struct kg_series_step {
    size_t series;
    size_t last_before, first_after; /* runs */
    double before, after;            /* centres of the levels, logarithms freed of drift */
    size_t n_before, n_after;
    double p;
    double placed; /* how probable this place is among those near it */
    bool creeps;   /* part of a creep, which has no one place */
};

/* Lists the steps by series, then run; *steps is malloc'ed, the count is returned. The series lose what canaries
 * explain.
 *
 * Place: a program changes between commits, and a commit that slows one case slows others. Of a step i and a place t
 * near it, with the likelihood l_i(t) of its values,
 *   P_i(t) ~ l_i(t) (0.1 + sum over steps j of other cases of P_j(t)),
 * iterated from P_j ~ l_j: the posterior under a prior which all others teach (empirical Bayes, B. Efron and C. Morris,
 * J. Am. Statist. Assoc. 70 (1975) 311). Places between runs of one commit count only where there is no other. A step
 * of three sigmas alone is placed exactly in 85%, whatever the rule. */
size_t kg_series_steps(const struct kg_step_figures *figures, struct kg_series_step **steps);

#endif
