/* The kigo program as a child, and the files its arguments may name. */
#ifndef KIGO_SUITES_RUN_KIGO_H
#define KIGO_SUITES_RUN_KIGO_H

#include "suites/harness/case.h"
#include "suites/harness/process.h"

/* Arguments that stand for files: the fixture, or copies made in the case's scratch folder. */
#define MODEL "@model"
#define CUT_MODEL "@cut"         /* the model's first 100000 bytes */
#define VOCABULARY "@vocabulary" /* the model's keys, no tensors */
#define LYING_MODEL "@lying"     /* a projection is missing */
#define NAN_MODEL "@nan"         /* a weight is not a number */
#define ODD_NAME_MODEL "@odd"    /* general.name is not UTF-8 */
#define TEXT_FILE "@text"        /* "the old pond" and a newline */
#define MISSING "/nowhere/at/all.gguf"

/* Runs `kigo ARGS...` (args end with NULL, at most 30) with the rest as process says; a time-out fails the case. */
struct kg_process_result kg_run_kigo(const struct kg_record *rec, const char *const *args, struct kg_process process);

#endif
