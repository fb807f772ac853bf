#include "suites/support/touched.h"
#include "base/buffer.h"
#include "suites/harness/must.h"
#include <stdlib.h>
#include <string.h>

enum { RESET = 0xff, CHUNK_BYTES = 4 << 20 };

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

void kg_touched_reset(struct kg_backend *backend, const struct kg_block *block) {
    unsigned char *chunk = kg_xmalloc(CHUNK_BYTES);
    struct kg_error err = { 0 };
    memset(chunk, RESET, CHUNK_BYTES);
    for (uint64_t at = 0; at < block->size_bytes; at += CHUNK_BYTES)
        kg_must(backend->ops->upload(backend, (char *)block->data + at, chunk,
                                     least(CHUNK_BYTES, block->size_bytes - at), &err),
                &err);
    free(chunk);
}

static bool is_touched(const unsigned char *line, uint64_t n_bytes) {
    for (uint64_t i = 0; i < n_bytes; i++)
        if (line[i] != RESET) return true;
    return false;
}

uint64_t kg_touched_bytes(struct kg_backend *backend, const struct kg_block *block) {
    unsigned char *chunk = kg_xmalloc(CHUNK_BYTES);
    struct kg_error err = { 0 };
    uint64_t n_touched = 0;
    for (uint64_t at = 0; at < block->size_bytes; at += CHUNK_BYTES) {
        const uint64_t n_bytes = least(CHUNK_BYTES, block->size_bytes - at);
        kg_must(backend->ops->download(backend, chunk, (const char *)block->data + at, n_bytes, &err), &err);
        for (uint64_t line = 0; line < n_bytes; line += KG_TOUCHED_LINE_BYTES) {
            const uint64_t n = least(KG_TOUCHED_LINE_BYTES, n_bytes - line);
            if (is_touched(chunk + line, n)) n_touched += n;
        }
    }
    free(chunk);
    return n_touched;
}
