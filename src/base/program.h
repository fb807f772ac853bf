/* Runs another program and waits for its end, without a shell. */
#ifndef KIGO_BASE_PROGRAM_H
#define KIGO_BASE_PROGRAM_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>

struct kg_program {
    const char *const *argv;    /* NULL-terminated; argv[0] is searched in PATH */
    const char *const *without; /* prefixes of environment variables to remove; NULL-terminated, or NULL */
    const char *const *env;     /* "NAME=VALUE" variables to add; NULL-terminated, or NULL */
    const char *input_path;     /* standard input; NULL: empty */
    size_t max_out_bytes;       /* limit of the standard output that is kept */
    /* Asked some times a second while it runs; true ends it with all it started: it has its own process group.
     * NULL: nobody ends it. */
    bool (*cancelled)(void *unused);
    int patience_ms; /* that it has to end after it was asked to, before it is killed; 0: 10 s */
};

struct kg_program_result {
    struct kg_buffer out;    /* the first max_out_bytes of standard output */
    struct kg_buffer errors; /* the first 4 KiB of standard error, without trailing line breaks */
    bool cut;                /* there was more standard output */
    int exit_code;           /* -1 if a signal ended it */
};

/* Any exit code of the program is KG_OK; see result->exit_code. KG_ERR_NOT_FOUND if the program or its input does not
 * exist; KG_ERR_CANCELLED if it was ended. Free the result in any case. */
KG_WARN_UNUSED enum kg_status kg_program_run(const struct kg_program *program, struct kg_program_result *result,
                                             struct kg_error *err);
void kg_program_result_free(struct kg_program_result *result);

/* At most two lines of the program's standard error, joined into one line for a message. malloc'ed. */
char *kg_program_complaint(const struct kg_program_result *result);

#endif
