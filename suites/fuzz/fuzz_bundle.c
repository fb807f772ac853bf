/* libFuzzer over kg_fuzz_bundle. */
#include "suites/fuzz/targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    (void)kg_fuzz_bundle(data, size);
    return 0;
}
