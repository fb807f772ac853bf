/* libFuzzer over kg_fuzz_ncu. */
#include "suites/fuzz/targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    (void)kg_fuzz_ncu(data, size);
    return 0;
}
