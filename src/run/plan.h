/* What a run will do: the suite programs found, and the cases they list that were asked for.
 *
 * A program is an executable file test_* (bench_* for `kigo bench`) in the suites folder or in a folder directly below
 * it. Its name is its path from there ("unit/test_gguf"). A broken program can neither vanish nor pass: beside the
 * cases a program lists, the plan has cases of the harness itself (<program> with '.' for '/'):
 *
 * - harness/<program>/lists: a program whose list is missing or malformed. A crash, with the reason.
 * - harness/<program>/ends_cleanly: a program that is run whole ended by itself, with the exit code of its results.
 *
 * A program says which sources it was linked from (listing.h). If they are not this program's, nothing is planned.
 *
 * Asking for ends_cleanly or lists by its key, or for the layer harness, selects all cases of the program. A program
 * that cannot list is planned if the selection reaches it (selection.h). */
#ifndef KIGO_RUN_PLAN_H
#define KIGO_RUN_PLAN_H

#include "run/child.h"
#include "run/selection.h"
#include <jansson.h>
#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kg_run_state { KG_RUN_WAITING, KG_RUN_RUNNING, KG_RUN_ENDED };

struct kg_planned_case {
    json_t *line;    /* of plan.ndjson */
    const char *key; /* these are inside line */
    double timeout_s;
    bool timed; /* judges times: nothing else of the run goes on beside it */
    enum kg_run_state state;
};

struct kg_planned_program {
    char *name, *path;
    struct kg_planned_case *cases;
    size_t n_cases;
    double longest_s;     /* the longest time limit of its cases */
    bool timed;           /* one of its cases is */
    json_t *lists;        /* plan line of the listing case, NULL if listing went well */
    json_t *ends_cleanly; /* plan line, NULL if only some of its cases were asked for */
    char *list_error;     /* why listing failed, NULL if it went well */
};

struct kg_case_plan {
    struct kg_planned_program *programs;
    size_t n_programs;
    size_t n_cases; /* of all programs, with the harness's own */
};

/* Finds the programs, asks each that the selection reaches for its list, and keeps what was selected. KG_ERR_INCOMPLETE
 * if there is no program, one was built from other sources, or nothing was selected; a key of selection.keys that no
 * program has is KG_ERR_INCOMPLETE too. */
KG_WARN_UNUSED enum kg_status kg_case_plan_make(const char *suites_dir, const struct kg_selection *selection,
                                                const struct kg_child_surroundings *around, struct kg_case_plan *plan,
                                                struct kg_error *err);
void kg_case_plan_free(struct kg_case_plan *plan);

struct kg_planned_case *kg_case_plan_find(struct kg_planned_program *program, const char *key);

#endif
