/* The runs that a search for steps goes through. */
#ifndef KIGO_HISTORY_STEP_RUNS_H
#define KIGO_HISTORY_STEP_RUNS_H

#include "history/ancestry.h"
#include "history/run.h"

struct kg_step_runs {
    struct kg_run_heads line; /* oldest commit first; of a commit, the oldest first; the run asked for is the last */
    struct kg_run_heads side; /* of other commits: branches, merged or not */
    char *repository;         /* that knows the line; NULL: none does, and line has all runs by time */
    char *why_by_time;        /* then: why; NULL otherwise */
};

/* Of the complete, clean runs with the run's comparison key up to it: those whose commits its own commit reaches by
 * first parents (a branch that was merged is no measure of what it was merged into), the newest n_most, and as many
 * others. repositories: where to ask git; NULL ends them. */
KG_WARN_UNUSED enum kg_status kg_step_runs_choose(struct kg_history *history, const char *run,
                                                  const char *const *repositories, size_t n_most,
                                                  struct kg_step_runs *out, struct kg_error *err);
void kg_step_runs_free(struct kg_step_runs *runs);

#endif
