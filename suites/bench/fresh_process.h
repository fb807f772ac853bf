/* A fresh process, timed from its spawn: what a program takes that nobody keeps running. */
#ifndef KIGO_SUITES_FRESH_PROCESS_H
#define KIGO_SUITES_FRESH_PROCESS_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stdint.h>

/* A process, and what it says that it is timed by. */
struct kg_fresh_process {
    const char *const *argv; /* NULL-terminated; argv[0] is searched in PATH */
    const char *variable;    /* "NAME=VALUE" of its environment, beside this process's; NULL: none */
    const char *until;       /* text on its standard output; NULL: its first byte */
};

struct kg_fresh_times {
    uint64_t said_ns, end_ns; /* after the spawn: `until` was there (0: it never was), the process had ended */
    struct kg_buffer out;     /* standard output */
    int exit_code;            /* -1: a signal ended it */
    char complaint[512];      /* the beginning of its standard error */
};

/* Runs it to its end. False: there is no such program. Fails the case if it cannot be started. */
bool kg_fresh_process_run(const struct kg_fresh_process *process, struct kg_fresh_times *times);
void kg_fresh_times_free(struct kg_fresh_times *times);

#endif
