/* The system calls that change files, from a traced process's registers to entries of the log. */
#ifndef KIGO_SUITES_CRASH_CALLS_H
#define KIGO_SUITES_CRASH_CALLS_H

#include "suites/integration/crash_log.h"

struct kg_crash_calls {
    struct kg_disk_log *log;
    const char *said_path;
};

/* A call that is about to be made. */
struct kg_crash_call {
    struct kg_disk_op op;
    uint64_t number, args[6];
    char *made_path; /* where the node of the op will be seen; NULL: it is known, or a new descriptor */
    bool makes, by_descriptor;
    size_t replaced; /* node whose last name goes, KG_NO_NODE: none */
};

/* In the process itself: from here on these calls report to the tracer. */
bool kg_crash_filter_calls(void);

/* False if the call changes and syncs nothing that the log is about. */
bool kg_crash_call_read(const struct kg_crash_calls *calls, pid_t pid, uint64_t number, const uint64_t *args,
                        struct kg_crash_call *call);
/* Its result is known (-1: it failed): adds it to the log, and frees what it holds. */
void kg_crash_call_done(const struct kg_crash_calls *calls, pid_t pid, int64_t result, struct kg_crash_call *call);
void kg_crash_call_drop(struct kg_crash_call *call);

/* Cuts the file of the last write to half of what was written, if that is at its end: in the folder. */
bool kg_crash_tear_last(const struct kg_disk_log *log);

#endif
