/* Names for what did not pass: the folder of a case in failures/, files that may be attached. */
#ifndef KIGO_RUN_FAILURE_NAME_H
#define KIGO_RUN_FAILURE_NAME_H

#include "base/buffer.h"
#include <stdbool.h>

/* A folder name for a key: its characters where they are safe in a path, and 8 digits of its SHA-256. malloc'ed. */
char *kg_failure_folder(const char *key);

/* The file below data/ that takes a program's output: logs/<its name>.log, with '.' for '/'; where other characters had
 * to be replaced, 8 digits of the name's SHA-256 keep names apart. malloc'ed. */
char *kg_log_path(const char *program);

/* True for a name an attachment may have: letters, digits and ._=,+- , no leading dot, at most 100 bytes. */
bool kg_attachment_name_ok(const char *name);

#endif
