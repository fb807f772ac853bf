/* Asking git about a source tree, without a shell. */
#ifndef KIGO_BUNDLE_GIT_H
#define KIGO_BUNDLE_GIT_H

#include "base/buffer.h"
#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>

/* Runs `git -C dir <args>` (args end with NULL; at most 12) and appends its standard output to *out, at most
 * max_bytes; *cut (may be NULL) says that there was more. KG_ERR_NOT_FOUND if there is no git, KG_ERR_UNSUPPORTED with
 * its message if it ended with another code than 0; any other error: it could not be asked, or not be heard to its end
 * (KG_ERR_IO if a signal ended it), and so has not answered. The caller's GIT_* variables (a hook's, say) do not reach
 * it, and it takes no optional locks. */
KG_WARN_UNUSED enum kg_status kg_git(const char *dir, const char *const *args, size_t max_bytes, struct kg_buffer *out,
                                     bool *cut, struct kg_error *err);

/* The same with a file as its standard input. */
KG_WARN_UNUSED enum kg_status kg_git_input(const char *dir, const char *const *args, const char *input_path,
                                           size_t max_bytes, struct kg_buffer *out, bool *cut, struct kg_error *err);

#endif
