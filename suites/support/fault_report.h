/* What suites/support/fault_injector.so and who preloads it into kigo share: a file that both map.
 *
 * Environment: KIGO_FAULT_PROGRAM, the real path of the program whose calls count (its children's do not);
 * KIGO_FAULT_REPORT, the file, of sizeof(struct kg_fault_report) bytes, zeroed; KIGO_FAULT_KIND, "memory" or "io";
 * KIGO_FAULT_AT, the number of the call that fails, from 1 (0: none, and each call's place is noted);
 * KIGO_FAULT_ONLY, if set: calls of that name alone count, or allocations made in a library whose path holds it;
 * KIGO_FAULT_FRAMES, how many frames of the stack tell places apart (24), the injector's own three among them;
 * KIGO_FAULT_SERVE=1: the program waits before its main for numbers of calls (int64_t, in the place of KIGO_FAULT_AT;
 * -1: nothing is counted) from KG_FAULT_ASK_FD, and for each forks a process that runs main; KG_FAULT_ANSWER_FD is
 * given its id and, when it has ended, its state as waitpid gives it (int32_t each); where nothing more can be asked,
 * it ends; KIGO_FAULT_PATH, instead: every open of a path that ends so fails with EACCES; KIGO_FAULT_FULL, instead:
 * every write, and every open that may make a file, of a path that holds this text fails with ENOSPC, or the number
 * KIGO_FAULT_FULL_ERRNO. */
#ifndef KIGO_SUITES_FAULT_REPORT_H
#define KIGO_SUITES_FAULT_REPORT_H

#include <stdint.h>

enum { KG_FAULT_MAX_CALLS = 1 << 20, KG_FAULT_ASK_FD = 198, KG_FAULT_ANSWER_FD = 199 };

struct kg_fault_report {
    uint64_t n_calls;                   /* of the kind, from main's begin to its end */
    uint64_t n_failed;                  /* injected faults */
    int32_t code;                       /* errno of the last of them */
    char call[256];                     /* the last of them: "open /path" */
    uint64_t place[KG_FAULT_MAX_CALLS]; /* hash of each call's stack; only where none fails */
};

#endif
