/* Steps over the history of every noisy figure. */
#ifndef KIGO_HISTORY_STEP_SEARCH_H
#define KIGO_HISTORY_STEP_SEARCH_H

#include "history/run.h"

struct kg_found_step {
    const struct kg_case_info *c;
    const struct kg_figure_info *figure;
    const struct kg_run_head *last_before, *first_after;
    double before, after; /* medians, in the figure's unit, freed of drift where there are canaries */
    double change;        /* after / before - 1 */
    size_t n_before, n_after;
    double p;
};

struct kg_step_search {
    struct kg_run_heads runs; /* oldest first */
    struct kg_catalogue catalogue;
    struct kg_found_step *steps; /* latest first */
    size_t n_steps, n_figures;
};

/* Looks at the complete, clean runs with the comparison key of the run, the newest `n_most` up to and including it;
 * steps smaller than least_change (relative) are left out. wants (may be NULL) chooses cases and figures. */
KG_WARN_UNUSED enum kg_status kg_step_search(struct kg_history *history, const char *run, size_t n_most,
                                             double least_change,
                                             bool (*wants)(void *arg, const struct kg_case_info *c,
                                                           const struct kg_figure_info *figure),
                                             void *arg, struct kg_step_search *out, struct kg_error *err);
void kg_step_search_free(struct kg_step_search *search);

#endif
