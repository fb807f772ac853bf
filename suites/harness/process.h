/* Running a program as its users do: a child with its own standard streams, no shell in between. */
#ifndef KIGO_SUITES_PROCESS_H
#define KIGO_SUITES_PROCESS_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The arguments of a command line, as argv. */
#define ARGS(...) ((const char *const[]){ __VA_ARGS__, NULL })

struct kg_process {
    const char *const *argv; /* argv[0] is the program's path; NULL at the end */
    const char *input;       /* standard input; NULL: empty */
    size_t input_len;
    const char *const *env; /* "NAME=VALUE", put on top of this process's; NULL at the end or no list */
    double timeout_s;       /* 0: 60 s; a child that takes longer is killed */
    pid_t *child;           /* NULL, or where its process id is put (atomically) when it was made */
    bool broken_stdout;     /* standard output is a pipe nobody reads */
    bool closed_stdout;     /* standard output is not open at all */
};

struct kg_process_result {
    int exit_code; /* -1 if a signal ended it */
    int signal;    /* 0 if it ended by itself */
    bool timed_out;
    char *out, *err; /* what it wrote, each with a NUL behind it */
    size_t out_len, err_len;
};

/* Runs to the end. KG_ERR_IO if the child could not be made; a program that cannot be executed exits with 127. */
KG_WARN_UNUSED enum kg_status kg_process_run(const struct kg_process *process, struct kg_process_result *result,
                                             struct kg_error *err);
void kg_process_result_free(struct kg_process_result *result);

/* Whether PATH has such a program. */
bool kg_process_has_program(const char *name);

#endif
