/* Values of GGUF keys by name and type. */
#include "format/gguf_private.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} TYPES[KG_GGUF_N_TYPES] = {
    [KG_GGUF_U8] = { "u8", 1 },       [KG_GGUF_I8] = { "i8", 1 },     [KG_GGUF_U16] = { "u16", 2 },
    [KG_GGUF_I16] = { "i16", 2 },     [KG_GGUF_U32] = { "u32", 4 },   [KG_GGUF_I32] = { "i32", 4 },
    [KG_GGUF_F32] = { "f32", 4 },     [KG_GGUF_BOOL] = { "bool", 1 }, [KG_GGUF_STRING] = { "string", 0 },
    [KG_GGUF_ARRAY] = { "array", 0 }, [KG_GGUF_U64] = { "u64", 8 },   [KG_GGUF_I64] = { "i64", 8 },
    [KG_GGUF_F64] = { "f64", 8 },
};

const char *kg_gguf_type_name(enum kg_gguf_type type) {
    return (unsigned)type < KG_GGUF_N_TYPES ? TYPES[type].name : "?";
}

size_t kg_gguf_scalar_bytes(enum kg_gguf_type type) {
    return TYPES[type].bytes;
}

bool kg_str_eq(struct kg_str s, const char *text) {
    return s.len == strlen(text) && (s.len == 0 || memcmp(s.data, text, s.len) == 0);
}

static bool is_signed(enum kg_gguf_type type) {
    return type == KG_GGUF_I8 || type == KG_GGUF_I16 || type == KG_GGUF_I32 || type == KG_GGUF_I64;
}

static bool is_integer(enum kg_gguf_type type) {
    return is_signed(type) || type == KG_GGUF_U8 || type == KG_GGUF_U16 || type == KG_GGUF_U32 || type == KG_GGUF_U64;
}

int64_t kg_gguf_load_int(enum kg_gguf_type type, const uint8_t *bytes) {
    const size_t n = TYPES[type].bytes;
    uint64_t value = 0;
    memcpy(&value, bytes, n); /* little-endian: the low bytes come first */
    const uint64_t sign = (uint64_t)1 << (8 * n - 1);
    if (is_signed(type)) value = (value ^ sign) - sign;
    return (int64_t)value;
}

double kg_gguf_load_float(enum kg_gguf_type type, const uint8_t *bytes) {
    if (type == KG_GGUF_F32) {
        float f;
        memcpy(&f, bytes, sizeof f);
        return f;
    }
    if (type == KG_GGUF_F64) {
        double f;
        memcpy(&f, bytes, sizeof f);
        return f;
    }
    const int64_t i = kg_gguf_load_int(type, bytes);
    return type == KG_GGUF_U64 ? (double)(uint64_t)i : (double)i;
}

int64_t kg_gguf_array_int(const struct kg_gguf_key *key, uint64_t index) {
    const enum kg_gguf_type type = key->value.array.elem_type;
    return kg_gguf_load_int(type, key->value.array.data + index * TYPES[type].bytes);
}

double kg_gguf_array_float(const struct kg_gguf_key *key, uint64_t index) {
    const enum kg_gguf_type type = key->value.array.elem_type;
    return kg_gguf_load_float(type, key->value.array.data + index * TYPES[type].bytes);
}

static enum kg_status find(const struct kg_gguf *g, const char *name, const struct kg_gguf_key **key,
                           struct kg_error *err) {
    *key = kg_gguf_find_key(g, name);
    return *key ? KG_OK : kg_fail(err, KG_ERR_NOT_FOUND, "%s: key '%s' is missing", g->path, name);
}

static enum kg_status wrong_type(const struct kg_gguf *g, const struct kg_gguf_key *key, const char *name,
                                 const char *wanted, struct kg_error *err) {
    const bool array = key->type == KG_GGUF_ARRAY;
    return kg_fail(err, KG_ERR_FORMAT, "%s: key '%s' is of type %s%s, not %s", g->path, name, array ? "array of " : "",
                   kg_gguf_type_name(array ? key->value.array.elem_type : key->type), wanted);
}

enum kg_status kg_gguf_get_u32(const struct kg_gguf *g, const char *name, uint32_t *out, struct kg_error *err) {
    const struct kg_gguf_key *key;
    const enum kg_status status = find(g, name, &key, err);
    if (status != KG_OK) return status;
    if (!is_integer(key->type)) return wrong_type(g, key, name, "an integer", err);
    if (is_signed(key->type) && key->value.i < 0)
        return kg_fail(err, KG_ERR_FORMAT, "%s: key '%s': %" PRId64 " is negative", g->path, name, key->value.i);
    if (key->value.u > UINT32_MAX)
        return kg_fail(err, KG_ERR_FORMAT, "%s: key '%s': %" PRIu64 " does not fit in 32 bits", g->path, name,
                       key->value.u);
    *out = (uint32_t)key->value.u;
    return KG_OK;
}

enum kg_status kg_gguf_get_f32(const struct kg_gguf *g, const char *name, float *out, struct kg_error *err) {
    const struct kg_gguf_key *key;
    const enum kg_status status = find(g, name, &key, err);
    if (status != KG_OK) return status;
    if (key->type != KG_GGUF_F32 && key->type != KG_GGUF_F64) return wrong_type(g, key, name, "a float", err);
    if (isfinite(key->value.f) && fabs(key->value.f) > FLT_MAX)
        return kg_fail(err, KG_ERR_FORMAT, "%s: key '%s': %g does not fit in 32 bits", g->path, name, key->value.f);
    *out = (float)key->value.f;
    return KG_OK;
}

enum kg_status kg_gguf_get_bool(const struct kg_gguf *g, const char *name, bool *out, struct kg_error *err) {
    const struct kg_gguf_key *key;
    const enum kg_status status = find(g, name, &key, err);
    if (status != KG_OK) return status;
    if (key->type != KG_GGUF_BOOL) return wrong_type(g, key, name, "bool", err);
    *out = key->value.b;
    return KG_OK;
}

enum kg_status kg_gguf_get_str(const struct kg_gguf *g, const char *name, struct kg_str *out, struct kg_error *err) {
    const struct kg_gguf_key *key;
    const enum kg_status status = find(g, name, &key, err);
    if (status != KG_OK) return status;
    if (key->type != KG_GGUF_STRING) return wrong_type(g, key, name, "string", err);
    *out = key->value.s;
    return KG_OK;
}

enum kg_status kg_gguf_get_array(const struct kg_gguf *g, const char *name, enum kg_gguf_type elem_type,
                                 const struct kg_gguf_key **out, struct kg_error *err) {
    const struct kg_gguf_key *key;
    const enum kg_status status = find(g, name, &key, err);
    if (status != KG_OK) return status;
    if (key->type != KG_GGUF_ARRAY || key->value.array.elem_type != elem_type) {
        char wanted[32] = "array of ";
        strncat(wanted, kg_gguf_type_name(elem_type), sizeof wanted - sizeof "array of ");
        return wrong_type(g, key, name, wanted, err);
    }
    *out = key;
    return KG_OK;
}
