/* The metadata of a GGUF file: per key a name, a type and a value, each checked against the bytes left. */
#include "format/gguf_private.h"
#include "base/size.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_KEY_BYTES = 8 + 1 + 4 + 1 }; /* a one-byte name and a one-byte value */

_Static_assert(offsetof(struct kg_gguf_key, name) == 0, "kg_gguf_index finds a key by its name's address");

/* BOOL elements other than 0 and 1 are invalid by the specification. */
static enum kg_status check_bools(const uint8_t *bytes, uint64_t n, struct kg_error *err) {
    for (uint64_t i = 0; i < n; i++)
        if (bytes[i] > 1) return kg_fail(err, KG_ERR_FORMAT, "bool %" PRIu64 " holds %u, not 0 or 1", i, bytes[i]);
    return KG_OK;
}

static enum kg_status take_type(struct kg_gguf_cursor *c, const char *what, enum kg_gguf_type *type,
                                struct kg_error *err) {
    uint32_t id;
    const enum kg_status status = kg_gguf_take_u32(c, what, &id, err);
    if (status != KG_OK) return status;
    if (id >= KG_GGUF_N_TYPES) return kg_fail(err, KG_ERR_FORMAT, "%s is %" PRIu32 ", which is no GGUF type", what, id);
    *type = (enum kg_gguf_type)id;
    return KG_OK;
}

static enum kg_status take_scalar(struct kg_gguf_cursor *c, struct kg_gguf_key *key, struct kg_error *err) {
    const uint8_t *bytes;
    enum kg_status status = kg_gguf_take(c, kg_gguf_scalar_bytes(key->type), "the value", &bytes, err);
    if (status != KG_OK) return status;
    switch (key->type) {
    case KG_GGUF_BOOL:
        status = check_bools(bytes, 1, err);
        key->value.b = bytes[0] == 1;
        break;
    case KG_GGUF_F32:
    case KG_GGUF_F64: key->value.f = kg_gguf_load_float(key->type, bytes); break;
    default: key->value.i = kg_gguf_load_int(key->type, bytes); break; /* u and i share their bits */
    }
    return status;
}

/* A first pass checks that the file holds n strings; only then is a table of n allocated. */
static enum kg_status take_strings(struct kg_gguf_cursor *c, uint64_t n, const struct kg_str **out,
                                   struct kg_error *err) {
    struct kg_gguf_cursor scout = *c;
    struct kg_str s;
    for (uint64_t i = 0; i < n; i++) {
        const enum kg_status status = kg_gguf_take_str(&scout, "a string", &s, err);
        if (status != KG_OK) return kg_error_context(err, status, "element %" PRIu64 " of %" PRIu64, i, n);
    }
    struct kg_str *strings = malloc(n ? n * sizeof *strings : 1);
    if (!strings) return kg_fail(err, KG_ERR_NO_MEMORY, "out of memory for %" PRIu64 " strings", n);
    for (uint64_t i = 0; i < n; i++)
        if (kg_gguf_take_str(c, "a string", &strings[i], err) != KG_OK) abort(); /* the first pass checked it */
    *out = strings;
    return KG_OK;
}

static enum kg_status take_array(struct kg_gguf_cursor *c, struct kg_gguf_key *key, struct kg_error *err) {
    enum kg_gguf_type elem_type;
    uint64_t n, bytes_needed;
    enum kg_status status = take_type(c, "the array's element type", &elem_type, err);
    if (status == KG_OK) status = kg_gguf_take_u64(c, "the array's length", &n, err);
    if (status != KG_OK) return status;
    if (elem_type == KG_GGUF_ARRAY) return kg_fail(err, KG_ERR_UNSUPPORTED, "an array of arrays is not read");
    const uint64_t left = c->size_bytes - c->at;
    const uint64_t elem_bytes = elem_type == KG_GGUF_STRING ? sizeof(uint64_t) : kg_gguf_scalar_bytes(elem_type);
    if (!kg_mul_u64(n, elem_bytes, &bytes_needed) || bytes_needed > left)
        return kg_fail(err, KG_ERR_FORMAT,
                       "truncated: %" PRIu64 " elements of type %s cannot lie in the %" PRIu64 " bytes left", n,
                       kg_gguf_type_name(elem_type), left);
    const uint8_t *bytes = c->data + c->at;
    const struct kg_str *strings = NULL;
    if (elem_type == KG_GGUF_STRING) status = take_strings(c, n, &strings, err);
    else status = kg_gguf_take(c, bytes_needed, "the array", &bytes, err);
    if (status == KG_OK && elem_type == KG_GGUF_BOOL) status = check_bools(bytes, n, err);
    if (status != KG_OK) return status;
    key->value.array.elem_type = elem_type;
    key->value.array.n = n;
    key->value.array.data = bytes;
    key->value.array.strings = strings;
    return KG_OK;
}

static enum kg_status take_value(struct kg_gguf_cursor *c, struct kg_gguf_key *key, struct kg_error *err) {
    const enum kg_status status = take_type(c, "the type", &key->type, err);
    if (status != KG_OK) return status;
    if (key->type == KG_GGUF_ARRAY) return take_array(c, key, err);
    if (key->type == KG_GGUF_STRING) return kg_gguf_take_str(c, "the value", &key->value.s, err);
    return take_scalar(c, key, err);
}

static enum kg_status take_key(struct kg_gguf_cursor *c, struct kg_gguf_key *key, struct kg_error *err) {
    enum kg_status status = kg_gguf_take_str(c, "the name", &key->name, err);
    if (status != KG_OK) return status;
    if (key->name.len == 0 || key->name.len > KG_GGUF_MAX_KEY_BYTES)
        return kg_fail(err, KG_ERR_FORMAT, "a name of %zu bytes is outside 1 to %d", key->name.len,
                       KG_GGUF_MAX_KEY_BYTES);
    status = take_value(c, key, err);
    if (status == KG_OK) return KG_OK;
    return kg_error_context(err, status, "'%s'", kg_quote(key->name.data, key->name.len).text);
}

enum kg_status kg_gguf_parse_keys(struct kg_gguf *gguf, struct kg_gguf_cursor *c, uint64_t n, struct kg_error *err) {
    const uint64_t left = c->size_bytes - c->at;
    if (n > left / MIN_KEY_BYTES)
        return kg_fail(err, KG_ERR_FORMAT, "%" PRIu64 " keys cannot lie in the %" PRIu64 " bytes left", n, left);
    size_t capacity = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct kg_gguf_key key = { .type = KG_GGUF_U8 };
        void *keys = gguf->keys;
        enum kg_status status = kg_gguf_grow(&keys, gguf->n_keys, &capacity, sizeof key, err);
        gguf->keys = keys;
        if (status == KG_OK) status = take_key(c, &key, err);
        if (status != KG_OK) return kg_error_context(err, status, "key %" PRIu64 " of %" PRIu64, i, n);
        gguf->keys[gguf->n_keys++] = key;
    }
    return kg_gguf_index(&gguf->key_names, gguf->keys, gguf->n_keys, sizeof *gguf->keys, "key", err);
}
