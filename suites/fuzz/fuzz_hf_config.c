/* libFuzzer over kg_fuzz_hf_config. */
#include "suites/fuzz/targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    (void)kg_fuzz_hf_config(data, size);
    return 0;
}
