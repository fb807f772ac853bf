#include "cli/inspect.h"
#include "base/json_put.h"
#include <inttypes.h>
#include <string.h>

enum { MAX_ELEMS_SHOWN = 64, ELEMS_OF_LONGER = 16 };

static void put_int(struct kg_buffer *out, enum kg_gguf_type type, int64_t value) {
    if (type == KG_GGUF_U64) kg_buffer_printf(out, "%" PRIu64, (uint64_t)value);
    else kg_buffer_printf(out, "%" PRId64, value);
}

static void put_elem(struct kg_buffer *out, const struct kg_gguf_key *key, uint64_t i) {
    const enum kg_gguf_type type = key->value.array.elem_type;
    switch (type) {
    case KG_GGUF_STRING:
        kg_json_put_string(out, key->value.array.strings[i].data, key->value.array.strings[i].len);
        break;
    case KG_GGUF_F32: kg_json_put_f32(out, (float)kg_gguf_array_float(key, i)); break;
    case KG_GGUF_F64: kg_json_put_f64(out, kg_gguf_array_float(key, i)); break;
    case KG_GGUF_BOOL: kg_buffer_puts(out, kg_gguf_array_int(key, i) ? "true" : "false"); break;
    default: put_int(out, type, kg_gguf_array_int(key, i)); break;
    }
}

/* An array that is not shown in full says how long it is and shows its beginning. */
static void put_array(struct kg_buffer *out, const struct kg_gguf_key *key, bool full) {
    const uint64_t n = key->value.array.n;
    const uint64_t n_shown = full || n <= MAX_ELEMS_SHOWN ? n : ELEMS_OF_LONGER;
    kg_buffer_printf(out, "\"elem_type\":\"%s\",\"n\":%" PRIu64 ",\"complete\":%s,\"value\":[",
                     kg_gguf_type_name(key->value.array.elem_type), n, n_shown == n ? "true" : "false");
    for (uint64_t i = 0; i < n_shown; i++) {
        if (i > 0) kg_buffer_puts(out, ",");
        put_elem(out, key, i);
    }
    kg_buffer_puts(out, "]");
}

static void put_scalar(struct kg_buffer *out, const struct kg_gguf_key *key) {
    kg_buffer_puts(out, "\"value\":");
    switch (key->type) {
    case KG_GGUF_STRING: kg_json_put_string(out, key->value.s.data, key->value.s.len); break;
    case KG_GGUF_F32: kg_json_put_f32(out, (float)key->value.f); break;
    case KG_GGUF_F64: kg_json_put_f64(out, key->value.f); break;
    case KG_GGUF_BOOL: kg_buffer_puts(out, key->value.b ? "true" : "false"); break;
    default: put_int(out, key->type, key->value.i); break;
    }
}

static void put_keys(struct kg_buffer *out, const struct kg_gguf *gguf, bool full) {
    kg_buffer_puts(out, ",\"metadata\":{");
    for (size_t i = 0; i < kg_gguf_n_keys(gguf); i++) {
        const struct kg_gguf_key *key = kg_gguf_key_at(gguf, i);
        if (i > 0) kg_buffer_puts(out, ",");
        kg_json_put_name(out, key->name.data, key->name.len);
        kg_buffer_printf(out, ":{\"type\":\"%s\",", kg_gguf_type_name(key->type));
        if (key->type == KG_GGUF_ARRAY) put_array(out, key, full);
        else put_scalar(out, key);
        kg_buffer_puts(out, "}");
    }
    kg_buffer_puts(out, "}");
}

static void put_tensors(struct kg_buffer *out, const struct kg_gguf *gguf) {
    kg_buffer_puts(out, ",\"tensors\":[");
    for (size_t i = 0; i < kg_gguf_n_tensors(gguf); i++) {
        const struct kg_gguf_tensor *t = kg_gguf_tensor_at(gguf, i);
        kg_buffer_puts(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        kg_json_put_name(out, t->name.data, t->name.len);
        kg_buffer_printf(out, ",\"type\":\"%s\",\"dims\":[", kg_dtype_info(t->dtype)->name);
        for (uint32_t d = 0; d < t->n_dims; d++) kg_buffer_printf(out, "%s%" PRIu64, d > 0 ? "," : "", t->dims[d]);
        kg_buffer_printf(out, "],\"n_elems\":%" PRIu64 ",\"size_bytes\":%" PRIu64 "}", t->n_elems, t->size_bytes);
    }
    kg_buffer_puts(out, "]");
}

static void put_types(struct kg_buffer *out, const struct kg_inspect_totals *totals) {
    const char *separator = "";
    kg_buffer_puts(out, ",\"types\":{");
    for (size_t i = 0; i < KG_DTYPE_COUNT; i++) {
        const struct kg_inspect_total *total = &totals->by_type[i];
        if (total->n_tensors == 0) continue;
        kg_buffer_printf(
            out, "%s\"%s\":{\"n_tensors\":%" PRIu64 ",\"n_params\":%" PRIu64 ",\"size_bytes\":%" PRIu64 "}", separator,
            kg_dtype_info((enum kg_dtype)i)->name, total->n_tensors, total->n_params, total->size_bytes);
        separator = ",";
    }
    kg_buffer_puts(out, "}");
}

void kg_inspect_json(struct kg_buffer *out, const struct kg_gguf *gguf, const struct kg_inspect_totals *totals,
                     const struct kg_inspect_parts *parts) {
    const char *path = kg_gguf_path(gguf);
    kg_buffer_puts(out, "{\"path\":");
    kg_json_put_string(out, path, strlen(path));
    kg_buffer_printf(out,
                     ",\"version\":%" PRIu32 ",\"alignment\":%" PRIu64
                     ",\"n_keys\":%zu,\"n_tensors\":%zu,\"n_params\":%" PRIu64 ",\"tensor_bytes\":%" PRIu64,
                     kg_gguf_version(gguf), kg_gguf_alignment(gguf), kg_gguf_n_keys(gguf), kg_gguf_n_tensors(gguf),
                     totals->all.n_params, totals->all.size_bytes);
    if (parts->keys) put_keys(out, gguf, parts->full);
    if (parts->keys) kg_inspect_model_json(out, gguf);
    if (parts->tensors) put_tensors(out, gguf);
    put_types(out, totals);
    kg_buffer_puts(out, "}\n");
}
