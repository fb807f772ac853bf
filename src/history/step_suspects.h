/* Steps that came in by a merge: the merge, and the merged commits that have runs. */
#ifndef KIGO_HISTORY_STEP_SUSPECTS_H
#define KIGO_HISTORY_STEP_SUSPECTS_H

#include "history/step_search.h"

/* What git says of the places asked about so far. */
struct kg_merges {
    struct kg_merge *items;
    size_t n;
};
void kg_merges_free(struct kg_merges *merges);

/* Fills in the step's merge and suspects. by_run: the step's figure in the runs of the line, then of the side. */
KG_WARN_UNUSED enum kg_status kg_step_suspects_find(const struct kg_step_runs *runs, struct kg_merges *merges,
                                                    const double *by_run, struct kg_found_step *step,
                                                    struct kg_error *err);

#endif
