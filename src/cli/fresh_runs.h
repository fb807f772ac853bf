/* Runs made now, each in a separate process, to be compared with each other. */
#ifndef KIGO_CLI_FRESH_RUNS_H
#define KIGO_CLI_FRESH_RUNS_H

#include "base/options.h"
#include <jansson.h>

struct kg_fresh_runs {
    char *root;     /* folder of bundles the runs are published in */
    bool temporary; /* removed by close */
};

/* keep: a folder for the bundles, made if it is missing; NULL: a temporary one. */
KG_WARN_UNUSED enum kg_status kg_fresh_open(const char *keep, struct kg_fresh_runs *runs, struct kg_error *err);
void kg_fresh_close(struct kg_fresh_runs *runs);

/* The kigo of a build: the program itself, or <folder>/kigo. malloc'ed; KG_ERR_NOT_FOUND if there is none. */
KG_WARN_UNUSED enum kg_status kg_fresh_program(const char *build, char **program, struct kg_error *err);

/* Runs `program args... --quiet --bundles root` to its end; args end with NULL. *id is the bundle it published
 * (malloc'ed). A run in which cases failed is good; KG_ERR_INCOMPLETE if it published nothing,
 * KG_ERR_CANCELLED if SIGINT, SIGTERM or SIGHUP came. */
KG_WARN_UNUSED enum kg_status kg_fresh_run(const struct kg_fresh_runs *runs, const char *program,
                                           const char *const *args, char **id, struct kg_error *err);

#endif
