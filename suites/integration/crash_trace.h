/* Runs a program with all that it starts under ptrace, stopped at each system call that changes files below a folder:
 * to write them down (crash_log.h), or to kill all of its processes at one of them. Linux; a seccomp filter leaves
 * every other call alone. */
#ifndef KIGO_SUITES_CRASH_TRACE_H
#define KIGO_SUITES_CRASH_TRACE_H

#include "suites/integration/crash_log.h"
#include <kigo/status.h>

struct kg_crash_run {
    const char *const *argv;
    const char *said_path; /* file for standard output, outside of the folder */
    size_t kill_at;        /* SIGKILL for all of them before the change of this number does anything; 0: never */
    bool torn;             /* with kill_at: after half of it, if it is a write at a file's end */
};
struct kg_crash_end {
    int exit_code;    /* -1: killed */
    size_t n_changes; /* that it came to; syncs are none */
    bool tore;        /* a write was cut in half */
};

/* Adds to the log. KG_ERR_UNSUPPORTED where nobody may trace. */
KG_WARN_UNUSED enum kg_status kg_crash_trace(const struct kg_crash_run *run, struct kg_disk_log *log,
                                             struct kg_crash_end *end, struct kg_error *err);

#endif
