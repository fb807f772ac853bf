/* How often the judgement cries wolf: runs of one program on one machine, each judged against the others. */
#ifndef KIGO_HISTORY_SELFCHECK_H
#define KIGO_HISTORY_SELFCHECK_H

#include "history/regress.h"

struct kg_selfcheck {
    size_t n_runs;
    size_t n_comparisons, n_false_alarms; /* of times and rates */
    double rate, rate_most;               /* false alarms per comparison; its one-sided 95% limit (Clopper-Pearson) */
    size_t n_exact, n_exact_events;       /* exact figures compared, and found to differ between equal programs */
    char *comparison_key;
    char **unsteady; /* figures called exact that are not, "case figure", each once */
    size_t n_unsteady;
};

/* At least KG_SCREEN_FEWEST + 1 and at most KG_BASELINE_RUNS + 1 runs; KG_ERR_USAGE if they differ in commit or
 * comparison key: that would measure something else. */
KG_WARN_UNUSED enum kg_status kg_selfcheck(struct kg_history *history, const char *root, char *const *ids, size_t n_ids,
                                           double least_change, struct kg_selfcheck *out, struct kg_error *err);
void kg_selfcheck_free(struct kg_selfcheck *selfcheck);

/* The rate that one would exceed, with n alarms of m comparisons or fewer, in 95 of 100 cases: 1 - 0.05^(1/m) for n =
 * 0. */
double kg_rate_most(size_t n, size_t m);

#endif
