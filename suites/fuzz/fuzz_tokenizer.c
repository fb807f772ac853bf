/* libFuzzer over kg_fuzz_encode, with the vocabulary the environment names (KIGO_VOCABULARY), or gpt2's of the build.
 */
#include "suites/fuzz/targets.h"
#include "suites/harness/case.h"
#include <kigo/tokenizer.h>
#include <stdio.h>
#include <stdlib.h>

static const struct kg_tokenizer *vocabulary(void) {
    static struct kg_tokenizer *t;
    if (t) return t;
    const char *path = getenv("KIGO_VOCABULARY");
    struct kg_error err;
    if (!path) path = kg_built_fixture_path("tokenizers/gpt2/vocab.gguf");
    if (kg_tokenizer_open(path, &t, &err) == KG_OK) return t;
    fprintf(stderr, "%s\n", err.message);
    exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    (void)kg_fuzz_encode(vocabulary(), data, size);
    return 0;
}
