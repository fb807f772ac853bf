/* The file's bytes are changed where the tensors lie, so that everything else of the copy is as it was. */
#include "suites/haiku/corrupt.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/rng.h"
#include "format/gguf.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

void kg_spoil_zero(uint8_t *data, size_t size_bytes) {
    memset(data, 0, size_bytes);
}

void kg_spoil_shuffle(uint8_t *data, size_t size_bytes) {
    struct kg_rng rng;
    kg_rng_init(&rng, 575, 0);
    for (size_t i = size_bytes / 2; i > 1; i--) {
        uint8_t *const a = data + 2 * (i - 1), *const b = data + 2 * kg_rng_below(&rng, i);
        const uint8_t kept[2] = { a[0], a[1] };
        memmove(a, b, 2);
        memcpy(b, kept, 2);
    }
}

void kg_spoil_swap_halves(uint8_t *data, size_t size_bytes) {
    const size_t half = size_bytes / 2;
    for (size_t i = 0; i < half; i++) {
        const uint8_t kept = data[i];
        data[i] = data[half + i];
        data[half + i] = kept;
    }
}

void kg_spoil_negate_f16(uint8_t *data, size_t size_bytes) {
    for (size_t i = 1; i < size_bytes; i += 2) data[i] ^= 0x80;
}

enum kg_status kg_model_corrupt(const char *from, const char *to, const char *glob, kg_spoil_fn spoil, size_t *n_spoilt,
                                struct kg_error *err) {
    char *bytes = NULL;
    size_t size = 0, n = 0;
    struct kg_gguf *gguf = NULL;
    enum kg_status status = kg_file_read(from, &bytes, &size, err);
    if (status == KG_OK) status = kg_gguf_parse(bytes, size, from, &gguf, err);
    for (size_t i = 0; status == KG_OK && i < kg_gguf_n_tensors(gguf); i++) {
        const struct kg_gguf_tensor *const tensor = kg_gguf_tensor_at(gguf, i);
        char *const name = kg_xstrndup(tensor->name.data, tensor->name.len);
        if (fnmatch(glob, name, 0) == 0) {
            spoil((uint8_t *)bytes + ((const char *)tensor->data - bytes), tensor->size_bytes);
            n++;
        }
        free(name);
    }
    kg_gguf_close(gguf);
    if (status == KG_OK) status = kg_file_write(to, bytes, size, err);
    free(bytes);
    if (status == KG_OK) *n_spoilt = n;
    return status;
}
