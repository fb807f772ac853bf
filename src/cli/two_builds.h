/* The builds of a judged run and of its baseline, and fresh runs of both over a choice of cases. */
#ifndef KIGO_CLI_TWO_BUILDS_H
#define KIGO_CLI_TWO_BUILDS_H

#include "cli/fresh_runs.h"
#include "cli/rebuild.h"
#include "cli/regress_call.h"

struct kg_two_builds_options {
    const char *baseline_build, *build; /* folders; NULL: the baseline's commit is built aside, and this program */
    const char *keep;                   /* for the runs' bundles; NULL: a temporary folder */
};
/* Rows of a table of options. */
#define KG_TWO_BUILDS_OPTIONS(o)                                                                                       \
    { .name = "baseline-build",                                                                                        \
      .kind = KG_OPTION_TEXT,                                                                                          \
      .value = &(o)->baseline_build,                                                                                   \
      .metavar = "DIR",                                                                                                \
      .help = "build folder of the baseline's source (its commit, built aside)" },                                     \
        { .name = "build",                                                                                             \
          .kind = KG_OPTION_TEXT,                                                                                      \
          .value = &(o)->build,                                                                                        \
          .metavar = "DIR",                                                                                            \
          .help = "build folder of the judged source (this program's)" },                                              \
    {                                                                                                                  \
        .name = "keep", .kind = KG_OPTION_TEXT, .value = &(o)->keep, .metavar = "DIR",                                 \
        .help = "keep the runs' bundles in this folder"                                                                \
    }

struct kg_two_builds {
    char *programs[2]; /* the baseline's and the judged one's */
    struct kg_fresh_runs runs;
    struct kg_rebuild rebuild; /* of the baseline, where no build of it was given */
    json_t *env;               /* of the judged run: owns texts that args point to */
    const char **args;         /* of a run: the verb and its options, as the judged run had them, ended by NULL */
    size_t n_args;
};

/* Finds or makes both programs. verb: who asks, for messages; root: the folder in which the run lies. Close it in any
 * case. */
KG_WARN_UNUSED enum kg_status kg_two_builds_open(const char *verb, const struct kg_two_builds_options *options,
                                                 const struct kg_regress_call *call, const char *root,
                                                 const struct kg_run_head *run, const struct kg_run_head *baseline,
                                                 struct kg_two_builds *two, struct kg_error *err);
void kg_two_builds_close(struct kg_two_builds *two);

/* One run of a build (0: the baseline's) over cases of these keys, of which several may be equal; *id: its bundle in
 * two->runs.root (malloc'ed). */
KG_WARN_UNUSED enum kg_status kg_two_builds_run(const struct kg_two_builds *two, int build, const char *const *keys,
                                                size_t n_keys, char **id, struct kg_error *err);

#endif
