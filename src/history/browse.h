/* What pages of a history show: runs, a run's cases, a case through runs. Every answer is small whatever the history
 * holds: its rows are counted by the caller, and a statement may take KG_BROWSE_SECONDS.
 *
 * Rows are JSON objects with a member for each column, null where the index holds NULL; the caller's reference. Texts
 * that are looked for are plain: nothing in them is a pattern. KG_ERR_NOT_FOUND only where said. */
#ifndef KIGO_HISTORY_BROWSE_H
#define KIGO_HISTORY_BROWSE_H

#include "history/run.h"
#include <jansson.h>

enum { KG_BROWSE_SECONDS = 10, KG_BROWSE_MEMORY_MIB = 512 };

/* NULL and "": any. */
struct kg_browse_runs {
    const char *machine; /* held by the GPU's or the CPU's name, in letters of either case */
    const char *branch;  /* whole */
    const char *commit;  /* its beginning */
    const char *verdict; /* whole */
    const char *runner;  /* whole; a folder's runs have none */
};
struct kg_browse_range {
    size_t n_before, n_most; /* rows that are left out first, and how many follow at most */
};

/* Newest first: bundle_id, verdict, state, started_us, sealed_us, n_planned, n_pass, n_fail, n_skip, n_lost (crash,
 * timeout and norun), git_commit, git_branch, git_dirty, machine, runner (of a fleet; else null). */
KG_WARN_UNUSED enum kg_status kg_browse_runs(struct kg_history *history, const struct kg_browse_runs *wanted,
                                             struct kg_browse_range range, json_t **rows, struct kg_error *err);
/* One run: the same columns and bundle_no, seed, manifest_sha256, sig_state, gpu_name, gpu_driver, cuda_runtime,
 * cpu_model, n_cpus, os, kernel, compiler, cflags, runner. KG_ERR_NOT_FOUND if the index has no run of that id. */
KG_WARN_UNUSED enum kg_status kg_browse_run(struct kg_history *history, const char *bundle_id, json_t **run,
                                            struct kg_error *err);
/* The id of the newest run before this one with its machine, build and request; NULL: there is none. malloc'ed. */
KG_WARN_UNUSED enum kg_status kg_browse_run_before(struct kg_history *history, const char *bundle_id, char **before,
                                                   struct kg_error *err);

/* Cases of a run by layer and operation: layer, op, n, n_pass, n_skip, n_red (neither), duration_ns. */
KG_WARN_UNUSED enum kg_status kg_browse_groups(struct kg_history *history, const char *bundle_id, json_t **rows,
                                               struct kg_error *err);
/* Reasons of a run's skips: reason, n, case_key (one of them); most cases first. */
KG_WARN_UNUSED enum kg_status kg_browse_skips(struct kg_history *history, const char *bundle_id, size_t n_most,
                                              json_t **rows, struct kg_error *err);
struct kg_browse_cases {
    const char *layer, *op; /* NULL: any */
    const char *status;     /* of the record, or "red": neither pass nor skip; NULL: any */
};
/* By key: case_id, case_key, status, reason, duration_ns, margin (the worst error over its limit). */
KG_WARN_UNUSED enum kg_status kg_browse_cases(struct kg_history *history, const char *bundle_id,
                                              const struct kg_browse_cases *wanted, struct kg_browse_range range,
                                              json_t **rows, struct kg_error *err);

/* The key of a case's number in the index; malloc'ed. KG_ERR_NOT_FOUND if there is none. */
KG_WARN_UNUSED enum kg_status kg_browse_key(struct kg_history *history, int64_t case_id, char **key,
                                            struct kg_error *err);
/* A case in the newest runs that have it, whatever its definition: bundle_id, started_us, git_commit, machine, def_sha,
 * status, reason, duration_ns, margin. */
KG_WARN_UNUSED enum kg_status kg_browse_case(struct kg_history *history, const char *key, struct kg_browse_range range,
                                             json_t **rows, struct kg_error *err);
/* All figures of a case in one run: name, unit, value, tol, n, mad, ci_lo, ci_hi, valid. */
KG_WARN_UNUSED enum kg_status kg_browse_figures(struct kg_history *history, const char *bundle_id, const char *key,
                                                json_t **rows, struct kg_error *err);
/* Its valid timings in the newest n_runs that have it, by name and then oldest first: name, unit, bundle_id, value. */
KG_WARN_UNUSED enum kg_status kg_browse_timings(struct kg_history *history, const char *key, size_t n_runs,
                                                json_t **rows, struct kg_error *err);

/* Runs whose id, commit or branch begins with the text (bundle_id, started_us, verdict, git_commit, git_branch); and
 * cases whose key holds it, in letters of either case (case_id, case_key; one of those that share a key). */
KG_WARN_UNUSED enum kg_status kg_browse_find_runs(struct kg_history *history, const char *text, size_t n_most,
                                                  json_t **rows, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_browse_find_cases(struct kg_history *history, const char *text, size_t n_most,
                                                   json_t **rows, struct kg_error *err);

/* Annotations, newest first: kind, bundle_id, case_key, until_us, utc_us, author, text; not what confirm and selfcheck
 * wrote. */
KG_WARN_UNUSED enum kg_status kg_browse_annotations(struct kg_history *history, size_t n_most, json_t **rows,
                                                    struct kg_error *err);
/* The newest complete run of each machine, build and request, newest first: bundle_id, started_us, machine, git_branch,
 * verdict. */
KG_WARN_UNUSED enum kg_status kg_browse_newest(struct kg_history *history, size_t n_most, json_t **rows,
                                               struct kg_error *err);

/* A run whole, as comparisons need it: results and figures point into the catalogue. KG_ERR_NOT_FOUND as above. */
KG_WARN_UNUSED enum kg_status kg_browse_load(struct kg_history *history, const char *bundle_id,
                                             const struct kg_catalogue *catalogue, struct kg_run *run,
                                             struct kg_error *err);

#endif
