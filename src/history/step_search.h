/* Steps over the history of every noisy figure. */
#ifndef KIGO_HISTORY_STEP_SEARCH_H
#define KIGO_HISTORY_STEP_SEARCH_H

#include "history/step_runs.h"

/* A commit of a branch that was merged where the step is. */
struct kg_step_suspect {
    char commit[KG_COMMIT_SIZE];
    double change; /* of the median of its runs from `before` of the step, as measured */
    size_t n_runs;
};

enum { KG_STEP_MACHINE_SIZE = 256 };
struct kg_found_step {
    const struct kg_case_info *c;
    const struct kg_figure_info *figure;
    const struct kg_run_head *last_before, *first_after;
    double before, after; /* centres, in the figure's unit, freed of drift where there are canaries */
    double change;        /* after / before - 1 */
    size_t n_before, n_after;
    double p, placed;                 /* how probable the place is among those near it */
    bool creeps;                      /* part of a creep, which has no one place */
    char merge[KG_COMMIT_SIZE];       /* the newest merge between the two runs' commits; "" if there is none */
    struct kg_step_suspect *suspects; /* of what was merged there, oldest first, those that have runs */
    size_t n_suspects;
    char machine[KG_STEP_MACHINE_SIZE]; /* what else changed at that run, in words (step_machine.h); "": nothing */
};

struct kg_step_search {
    struct kg_step_runs runs;
    struct kg_catalogue catalogue;
    struct kg_found_step *steps; /* latest first */
    size_t n_steps, n_figures;
};

struct kg_step_options {
    const char *run;
    const char *const *repositories; /* where to ask git, NULL ends them; NULL: the folder of bundles, then "." */
    size_t n_most;                   /* runs */
    double least_change;             /* relative; smaller steps are left out */
    bool rows_of_store; /* a store's rows are believed, no bundle is brought, and what else changed is not looked for:
                           for pages that decide nothing */
    bool (*wants)(void *arg, const struct kg_case_info *c, const struct kg_figure_info *figure); /* NULL: all */
    void *arg;
};

/* Looks at the runs of step_runs.h up to and including options->run, and at the cases that are wanted only. */
KG_WARN_UNUSED enum kg_status kg_step_search(struct kg_history *history, const struct kg_step_options *options,
                                             struct kg_step_search *out, struct kg_error *err);
void kg_step_search_free(struct kg_step_search *search);

#endif
