/* Running another program to its end, without a shell. */
#ifndef KIGO_BASE_PROGRAM_H
#define KIGO_BASE_PROGRAM_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>

struct kg_program {
    const char *const *argv;    /* argv[0] is looked for in PATH; NULL at the end */
    const char *const *without; /* beginnings of names of variables it does not inherit; NULL at the end, or no list */
    const char *const *env;     /* "NAME=VALUE" put behind the others; NULL at the end, or no list */
    const char *input_path;     /* its standard input; NULL: empty */
    size_t max_out_bytes;       /* what of its standard output is kept */
};

struct kg_program_result {
    struct kg_buffer out;    /* standard output, its first max_out_bytes */
    struct kg_buffer errors; /* standard error, its first 4 KiB, without line breaks at the end */
    bool cut;                /* there was more standard output */
    int exit_code;           /* -1 if a signal ended it */
};

/* KG_ERR_NOT_FOUND if there is no such program (or input); whatever it ended with is in result->exit_code. Free the
 * result in either case. */
KG_WARN_UNUSED enum kg_status kg_program_run(const struct kg_program *program, struct kg_program_result *result,
                                             struct kg_error *err);
void kg_program_result_free(struct kg_program_result *result);

/* Two lines of a program's errors at most, on one line, for a message. malloc'ed. */
char *kg_program_complaint(const struct kg_program_result *result);

#endif
