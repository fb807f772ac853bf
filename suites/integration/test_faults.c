/* Every allocation and every call that reads or writes files may fail: a sample of them here, of the verbs that ask the
 * index; `make check-faults` has all (suites/integration/faults). */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/harness/case_list.h"
#include "suites/integration/fault_sweep.h"

enum { SAMPLE = 4 };
static const struct kg_fault_sweep SWEEPS[] = { { .kind = "memory", .most = SAMPLE },
                                                { .kind = "io", .most = SAMPLE } };

static void memory(struct kg_record *rec, const void *arg) {
    kg_fault_sweep(rec, arg, &SWEEPS[0]);
}

static void io(struct kg_record *rec, const void *arg) {
    kg_fault_sweep(rec, arg, &SWEEPS[1]);
}

static void build(struct kg_case_list *list) {
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
