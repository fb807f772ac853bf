/* A suite program as a child of a guard (run/guard.h): in its own session, dead with all that it started when the
 * runner dies, its input empty, its output and its events on pipes that the runner reads without blocking. */
#ifndef KIGO_RUN_CHILD_H
#define KIGO_RUN_CHILD_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct kg_child {
    pid_t pid;      /* of the guard, which ends as the program does; 0: none */
    int alive_fd;   /* held open as long as the program may live: the guard ends it when this closes */
    int events_fd;  /* what it writes to KIGO_EVENTS_FD (or, listing, to standard output) */
    int log_fd;     /* standard output and error (listing: standard error) */
    int trouble_fd; /* why kigo could not start the program in its process */
};

#define KG_CHILD_NONE ((struct kg_child){ 0, -1, -1, -1, -1 })

/* What is the same for every program of a run; texts go to the child's environment, each may be NULL. KIGO_BUILT_FROM
 * is kg_built_from(): a kigo of that build inside a case need not look at the tree again, which somebody may edit
 * meanwhile.
 */
struct kg_child_surroundings {
    uint64_t seed;         /* the run's */
    const char *kigo_path; /* KIGO_PROGRAM */
    const char *models;    /* KIGO_MODELS, paths separated by newlines */
    const char *bench;     /* KIGO_BENCH: "quick" */
    const char *counted;   /* KIGO_BENCH_NCU: globs over the keys whose hardware counters are read, a line each */
    const char *scratch;   /* TMPDIR */
};

struct kg_child_spec {
    const char *path;
    const char *cases; /* keys to run, one a line; NULL: list the cases instead */
    const struct kg_child_surroundings *surroundings;
};

KG_WARN_UNUSED enum kg_status kg_child_start(const struct kg_child_spec *spec, struct kg_child *child,
                                             struct kg_error *err);

/* Of one that has ended: KG_ERR_IO, with the reason, if this machine did not let kigo start or watch the program. What
 * its process then ended with says nothing of the program. */
KG_WARN_UNUSED enum kg_status kg_child_trouble(const struct kg_child *child, const char *path, struct kg_error *err);

/* True once it has ended, and with it all that it started; *wait_status is as waitpid gives it. The descriptors stay
 * open: what was written before can still be read. */
bool kg_child_ended(struct kg_child *child, int *wait_status);

/* Has the guard kill it and all that it started; kg_child_ended says when that is done. */
void kg_child_kill(struct kg_child *child);

void kg_child_close(struct kg_child *child); /* closes the descriptors */

/* "ended by signal 11 (Segmentation fault)" or "ended with exit code 3". */
void kg_child_describe_end(int wait_status, char *text, size_t size_bytes);

#endif
