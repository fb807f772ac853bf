/* failures/<case>/ of a bundle: what helps to look into a case that did not pass. */
#ifndef KIGO_SUITES_FAILURE_H
#define KIGO_SUITES_FAILURE_H

#include "suites/harness/run_state.h"

/* A folder name for a key: its characters where they are safe in a path, and 8 digits of its SHA-256. malloc'ed. */
char *kg_failure_folder(const char *key);

/* Appends the text as one word of a shell command, quoted where it must be. */
void kg_shell_quote(struct kg_buffer *out, const char *text);

/* The command that runs the case alone: prefix --case 'KEY' --seed S, quoted for a shell. malloc'ed. */
char *kg_failure_rerun(const struct kg_run_options *options, const char *key);

/* True for a name an attachment may have: letters, digits and ._=,+- , no leading dot, at most 100 bytes. */
bool kg_attachment_name_ok(const char *name);

/* Writes case.json (status, reason, seed, the worst index of every comparison), rerun.txt, the end of the program's
 * output as log.txt, and the attachments. */
KG_WARN_UNUSED enum kg_status kg_failure_write(struct kg_run *run, const struct kg_case_finish *finish,
                                               const char *rerun, struct kg_error *err);

#endif
