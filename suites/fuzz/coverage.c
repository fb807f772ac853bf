/* One target, that KIGO_FUZZ names, under what drives LLVMFuzzerTestOneInput: libFuzzer, AFL++. */
#include "suites/fuzz/folder.h"
#include "suites/fuzz/run.h"
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Opens what the target needs. */
static void open_target(void *arg) {
    struct kg_fuzz_inputs inputs;
    kg_fuzz_inputs_open(arg, 0, &inputs);
    kg_fuzz_inputs_close(&inputs);
    (void)kg_fuzz_folder();
}

static const struct kg_fuzz_target *named(void) {
    static const struct kg_fuzz_target *target;
    const char *name = getenv("KIGO_FUZZ");
    if (target) return target;
    target = name ? kg_fuzz_find(name) : NULL;
    if (!target) {
        fputs("KIGO_FUZZ must be one of", stderr);
        for (size_t i = 0; i < KG_FUZZ_N_TARGETS; i++) fprintf(stderr, " %s", KG_FUZZ_TARGETS[i].name);
        fputs("\n", stderr);
        exit(2);
    }
    if (!kg_fuzz_under_check(open_target, (void *)(uintptr_t)target)) exit(2);
    return target;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t peak;
    const struct kg_fuzz_target *target = named();
    if (size <= KG_FUZZ_MAX_BYTES) (void)kg_fuzz_run(target, data, size, &peak);
    return 0;
}
