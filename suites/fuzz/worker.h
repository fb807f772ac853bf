/* Batches of inputs, each in a process forked from one that has the seeds: what a crash ends is one batch, and the
 * number of the input under way, in memory that both share, names it. */
#ifndef KIGO_SUITES_FUZZ_WORKER_H
#define KIGO_SUITES_FUZZ_WORKER_H

#include "suites/fuzz/run.h"
#include <stdbool.h>
#include <sys/types.h>

enum { KG_FUZZ_STATUSES = 24 }; /* more than enum kg_status has */

/* What a batch has come to. */
struct kg_fuzz_counts {
    uint64_t cpu_ns; /* of all */
    uint64_t n_inputs, by_status[KG_FUZZ_STATUSES];
    uint64_t slowest_ns, slowest_input;    /* of CPU time */
    int64_t most_bytes;                    /* most in use at a time */
    uint64_t largest_share, largest_input; /* of what is allowed, in 1/1000 */
    uint64_t largest_image;                /* in bytes */
};

/* A process and what it shares. */
struct kg_fuzz_worker {
    struct kg_fuzz_shared {
        volatile uint64_t input;    /* under way */
        volatile uint64_t begun_ns; /* when it began, monotonic */
        struct kg_fuzz_counts counts;
    } * shared;
    const struct kg_fuzz_inputs *inputs;
    uint64_t first, end; /* of the batch: inputs first to end - 1 */
    pid_t pid;           /* 0: none runs */
    char *log;           /* file for its standard error */
};

void kg_fuzz_worker_open(struct kg_fuzz_worker *worker, const char *log);
void kg_fuzz_worker_close(struct kg_fuzz_worker *worker);
void kg_fuzz_worker_start(struct kg_fuzz_worker *worker, const struct kg_fuzz_inputs *inputs, uint64_t first,
                          uint64_t end);
/* What ended it. */
enum kg_fuzz_end { KG_FUZZ_RUNS, KG_FUZZ_DONE, KG_FUZZ_CRASHED, KG_FUZZ_TOO_SLOW };
/* Looks whether it runs still, and ends it if an input takes more than the limit. After CRASHED and TOO_SLOW the input
 * is shared->input, and those before it are counted. */
enum kg_fuzz_end kg_fuzz_worker_poll(struct kg_fuzz_worker *worker);

/* Whether these bytes end a process in the same way: KG_FUZZ_DONE, CRASHED or TOO_SLOW. Waits. */
enum kg_fuzz_end kg_fuzz_try(const struct kg_fuzz_target *target, const uint8_t *data, size_t size, const char *log);
/* Takes away what the end does not depend on, for at most `seconds`. */
void kg_fuzz_minimise(const struct kg_fuzz_target *target, struct kg_buffer *image, int seconds);

#endif
