/* The runner: makes a plan, runs every suite program as a child, and records what happens to every planned case in a
 * proof bundle. Nothing a program does (crash, hang, leave early, write garbage) can lose a case or end the run. */
#ifndef KIGO_RUN_RUNNER_H
#define KIGO_RUN_RUNNER_H

#include "run/plan.h"
#include <kigo/bundle.h>

struct kg_case_end {
    const char *key;
    const char *suite;  /* the program's name */
    const char *status; /* of bundle.h */
    const char *reason; /* NULL for a pass */
    const char *seed;
    const char *rerun; /* the command that runs it alone */
    uint64_t duration_ns;
};

/* Called as things happen, from the thread that runs; each may be NULL. */
struct kg_run_observer {
    void *arg;
    void (*planned)(void *arg, const struct kg_case_plan *plan, const struct kg_bundle *bundle);
    void (*case_started)(void *arg, const char *key);
    void (*case_ended)(void *arg, const struct kg_case_end *end);
    void (*program_ended)(void *arg, const struct kg_planned_program *program, uint64_t wall_ns);
    /* All cases have ended and nothing is sealed: files made from the records may be added. */
    enum kg_status (*before_seal)(void *arg, struct kg_bundle *bundle, struct kg_error *err);
};

struct kg_run_options {
    const char *suites_dir;
    struct kg_selection selection;
    struct kg_child_surroundings surroundings; /* scratch is made by the run */
    struct kg_bundle_options bundle;
    const char *rerun_prefix; /* "kigo check --suites X": --case and --seed are put behind it */
    bool require_gpu;         /* a skipped case of the back end cuda is a failure */
    bool stop_at_failure;     /* nothing is started after a case that failed; what runs then is ended */
    int n_jobs;               /* programs at a time, at least 1 */
    double timeout_scale;     /* every case's limit is multiplied by it */
};

struct kg_run_outcome {
    char *bundle_id, *bundle_dir; /* malloc'ed */
    struct kg_bundle_summary summary;
    int interrupted_by; /* a signal, 0 if none: then the exit code is KG_EXIT_INCOMPLETE */
    bool stopped;       /* at a failure, with cases left: then it is KG_EXIT_FAILED */
    int exit_code;
    uint64_t wall_ns, seal_ns, in_cases_ns;
    double overhead_ratio; /* of the time before sealing, the share that was not spent in cases */
};
void kg_run_outcome_free(struct kg_run_outcome *outcome);

/* KG_ERR_INCOMPLETE if nothing was selected (no bundle is made then). An error later leaves an unfinished bundle for
 * `kigo recover`. Waits for its children; handles SIGINT, SIGTERM, SIGHUP and SIGCHLD while it
 * runs: the first three end the run, which is then sealed with what there is. */
KG_WARN_UNUSED enum kg_status kg_run(const struct kg_run_options *options, const struct kg_run_observer *observer,
                                     struct kg_run_outcome *outcome, struct kg_error *err);

#endif
