/* failures/<case>/ of a bundle: what helps to look into a case that did not pass. */
#ifndef KIGO_RUN_FAILURE_H
#define KIGO_RUN_FAILURE_H

#include "run/failure_name.h"
#include "run/run_state.h"

/* The command that runs the case alone: prefix --case 'KEY' --seed S, quoted for a shell. malloc'ed. */
char *kg_failure_rerun(const struct kg_run_options *options, const char *key);

/* Writes case.json (status, reason, seed, the worst index of every comparison), rerun.txt, the end of the program's
 * output as log.txt, and the attachments. */
KG_WARN_UNUSED enum kg_status kg_failure_write(struct kg_run *run, const struct kg_case_finish *finish,
                                               const char *rerun, struct kg_error *err);

#endif
