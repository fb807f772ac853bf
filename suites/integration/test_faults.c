/* Every allocation and every call that reads or writes files may fail: a sample of them here, of the verbs that ask the
 * index; `make check-faults` has all (suites/integration/faults). */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/harness/case_list.h"
#include "suites/integration/fault_sweep.h"
#include <string.h>

enum { SAMPLE = 4 };
static const struct kg_fault_sweep SWEEPS[] = { { .kind = "memory", .most = SAMPLE },
                                                { .kind = "io", .most = SAMPLE } };

static void memory(struct kg_record *rec, const void *arg) {
    kg_fault_sweep(rec, arg, &SWEEPS[0]);
}

static void io(struct kg_record *rec, const void *arg) {
    kg_fault_sweep(rec, arg, &SWEEPS[1]);
}

/* Calls of other verbs that a sample would seldom meet. */
struct chosen {
    const char *name, *verb;
    struct kg_fault_sweep how;
};
static const struct chosen CHOSEN[] = {
    { "import_libarchive", "import", { .kind = "memory", .only = "libarchive", .n_frames = 6 } },
    { "check_without_a_process", "check", { .kind = "io", .only = "fork" } },
    { "report_pread", "report", { .kind = "io", .only = "pread64" } },
    { "check_that_cannot_clean_up", "check", { .kind = "memory", .only = "nftw" } },
};

static void all_of(struct kg_record *rec, const void *arg) {
    const struct chosen *chosen = arg;
    for (size_t i = 0; i < KG_N_FAULT_VERBS; i++)
        if (strcmp(KG_FAULT_VERBS[i].name, chosen->verb) == 0) kg_fault_sweep(rec, &KG_FAULT_VERBS[i], &chosen->how);
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(CHOSEN); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "chosen_faults",
                                                  .name = CHOSEN[i].name,
                                                  .arg = &CHOSEN[i],
                                                  .run = all_of });
    for (size_t i = 0; i < KG_N_FAULT_VERBS; i++) {
        const struct kg_fault_verb *verb = &KG_FAULT_VERBS[i];
        if (!verb->in_check) continue;
        kg_case_list_add(
            list, &(struct kg_case){
                      .layer = "integration", .op = "memory_fault", .name = verb->name, .arg = verb, .run = memory });
        kg_case_list_add(
            list,
            &(struct kg_case){ .layer = "integration", .op = "io_fault", .name = verb->name, .arg = verb, .run = io });
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
