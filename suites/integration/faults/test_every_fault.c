/* The same as test_faults.c with the first and the last fault from every place; `make check-faults` runs this folder,
 * which is too deep for `kigo check` to find. It takes some minutes. A place is where a call stands in the program: for
 * memory its innermost callers, since most of kigo's allocations end it where they fail; for files all callers.
 * KIGO_FAULTS=stacks: all callers for memory as well; KIGO_FAULTS=every: every call (days); KIGO_FAULTS=N: N of the
 * places. */
#include "base/size.h"
#include "suites/harness/case_list.h"
#include "suites/integration/fault_sweep.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_S = 4 * 3600, NEAR_FRAMES = 8, N_DRAWN = 30 };

static void sweep(struct kg_record *rec, const void *arg, const char *kind) {
    const char *asked = getenv("KIGO_FAULTS"), *which = asked ? asked : "";
    const bool stacks = strcmp(which, "stacks") == 0 || strcmp(kind, "memory") != 0;
    const struct kg_fault_sweep all = { .kind = kind,
                                        .most = strtoul(which, NULL, 10),
                                        .n_frames = stacks ? 0 : NEAR_FRAMES,
                                        .n_drawn = *which ? 0 : N_DRAWN,
                                        .every_call = strcmp(which, "every") == 0 };
    kg_fault_sweep(rec, arg, &all);
}

static void memory(struct kg_record *rec, const void *arg) {
    sweep(rec, arg, "memory");
}

static void io(struct kg_record *rec, const void *arg) {
    sweep(rec, arg, "io");
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_N_FAULT_VERBS; i++) {
        const struct kg_fault_verb *verb = &KG_FAULT_VERBS[i];
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "every_io_fault",
                                                  .name = verb->name,
                                                  .arg = verb,
                                                  .timeout_s = TIMEOUT_S,
                                                  .run = io });
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "every_memory_fault",
                                                  .name = verb->name,
                                                  .arg = verb,
                                                  .timeout_s = TIMEOUT_S,
                                                  .run = memory });
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
