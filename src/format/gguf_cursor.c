/* Bounds-checked reading of a GGUF file's bytes. */
#include "format/gguf_private.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF is read in place, as little-endian");

enum kg_status kg_gguf_take(struct kg_gguf_cursor *c, uint64_t n, const char *what, const uint8_t **bytes,
                            struct kg_error *err) {
    if (n > c->size_bytes - c->at)
        return kg_fail(err, KG_ERR_FORMAT,
                       "truncated: %s needs %" PRIu64 " bytes at offset %" PRIu64 ", the file has %" PRIu64, what, n,
                       c->at, c->size_bytes);
    *bytes = c->data + c->at;
    c->at += n;
    return KG_OK;
}

enum kg_status kg_gguf_take_u32(struct kg_gguf_cursor *c, const char *what, uint32_t *out, struct kg_error *err) {
    const uint8_t *bytes;
    const enum kg_status status = kg_gguf_take(c, sizeof *out, what, &bytes, err);
    if (status == KG_OK) memcpy(out, bytes, sizeof *out);
    return status;
}

enum kg_status kg_gguf_take_u64(struct kg_gguf_cursor *c, const char *what, uint64_t *out, struct kg_error *err) {
    const uint8_t *bytes;
    const enum kg_status status = kg_gguf_take(c, sizeof *out, what, &bytes, err);
    if (status == KG_OK) memcpy(out, bytes, sizeof *out);
    return status;
}

enum kg_status kg_gguf_take_str(struct kg_gguf_cursor *c, const char *what, struct kg_str *out, struct kg_error *err) {
    uint64_t len;
    const uint8_t *bytes;
    enum kg_status status = kg_gguf_take_u64(c, what, &len, err);
    if (status == KG_OK) status = kg_gguf_take(c, len, what, &bytes, err);
    if (status == KG_OK) *out = (struct kg_str){ (const char *)bytes, (size_t)len };
    return status;
}

enum kg_status kg_gguf_grow(void **array, size_t n, size_t *capacity, size_t elem_bytes, struct kg_error *err) {
    if (n < *capacity) return KG_OK;
    const size_t wanted = *capacity ? *capacity * 2 : 16;
    void *grown = realloc(*array, wanted * elem_bytes);
    if (!grown) return kg_fail(err, KG_ERR_NO_MEMORY, "out of memory for %zu entries of %zu bytes", wanted, elem_bytes);
    *array = grown;
    *capacity = wanted;
    return KG_OK;
}

static int compare_names(const void *a, const void *b) {
    const struct kg_str *x = *(const struct kg_str *const *)a, *y = *(const struct kg_str *const *)b;
    const size_t common = x->len < y->len ? x->len : y->len;
    const int order = memcmp(x->data, y->data, common);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

enum kg_status kg_gguf_index(struct kg_gguf_names *names, const void *first, size_t n, size_t stride, const char *kind,
                             struct kg_error *err) {
    if (n == 0) return KG_OK;
    const struct kg_str **sorted = malloc(n * sizeof *sorted);
    if (!sorted) return kg_fail(err, KG_ERR_NO_MEMORY, "out of memory for the names of %zu %ss", n, kind);
    for (size_t i = 0; i < n; i++) sorted[i] = (const struct kg_str *)((const char *)first + i * stride);
    qsort(sorted, n, sizeof *sorted, compare_names);
    *names = (struct kg_gguf_names){ sorted, n };
    for (size_t i = 1; i < n; i++)
        if (compare_names(&sorted[i - 1], &sorted[i]) == 0)
            return kg_fail(err, KG_ERR_FORMAT, "duplicate %s '%s'", kind,
                           kg_quote(sorted[i]->data, sorted[i]->len).text);
    return KG_OK;
}

const void *kg_gguf_lookup(const struct kg_gguf_names *names, const char *name) {
    if (names->n == 0) return NULL;
    const struct kg_str wanted = { name, strlen(name) }, *key = &wanted;
    const struct kg_str *const *hit = bsearch(&key, names->sorted, names->n, sizeof *names->sorted, compare_names);
    return hit ? *hit : NULL;
}
