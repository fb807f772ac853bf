#include "suites/fuzz/readers.h"
#include "base/zstd.h"

enum { MAX_BYTES = 1 << 20 };

KG_FUZZ_READER(zstd) {
    (void)target;
    struct kg_buffer text = KG_BUFFER_INIT;
    struct kg_error err = { .status = KG_OK };
    const enum kg_status status = kg_zstd_expand(data, size, MAX_BYTES, &text, &err);
    if (status != KG_OK) kg_fuzz_expect_error(&err);
    if (text.len > MAX_BYTES) kg_fuzz_give_up("%zu bytes came out, %d are allowed", text.len, MAX_BYTES);
    if (status != KG_OK && text.len > 0) kg_fuzz_give_up("%zu bytes came out with an error", text.len);
    kg_buffer_free(&text);
    return status;
}
