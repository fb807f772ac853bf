/* What suites/support/fault_injector.so and who preloads it into kigo share: a file that both map.
 *
 * Environment: KIGO_FAULT_PROGRAM, the real path of the program whose calls count (its children's do not);
 * KIGO_FAULT_REPORT, the file, of sizeof(struct kg_fault_report) bytes, zeroed; KIGO_FAULT_KIND, "memory" or "io";
 * KIGO_FAULT_AT, the number of the call that fails, from 1 (0: none, and each call's place is noted);
 * KIGO_FAULT_FRAMES, how many frames of the stack tell places apart (24), the injector's own three among them;
 * KIGO_FAULT_PATH, instead: every open of a path that ends so fails with EACCES; KIGO_FAULT_FULL, instead: every write,
 * and every open that may make a file, of a path that holds this text fails with ENOSPC, or the number
 * KIGO_FAULT_FULL_ERRNO. */
#ifndef KIGO_SUITES_FAULT_REPORT_H
#define KIGO_SUITES_FAULT_REPORT_H

#include <stdint.h>

enum { KG_FAULT_MAX_CALLS = 1 << 20 };

struct kg_fault_report {
    uint64_t n_calls;                   /* of the kind, from main's begin to its end */
    uint64_t n_failed;                  /* injected faults */
    int32_t code;                       /* errno of the last of them */
    char call[256];                     /* the last of them: "open /path" */
    uint32_t place[KG_FAULT_MAX_CALLS]; /* hash of each call's stack; only where none fails */
};

#endif
