#include "base/quantity.h"
#include "base/say.h"
#include "cli/inspect.h"
#include "base/utf8.h"
#include "base/visible.h"
#include <inttypes.h>
#include <stdio.h>

enum { MAX_ELEMS_SHOWN = 12, ELEMS_OF_LONGER = 6, MAX_TEXT_BYTES = 160, MAX_ELEM_BYTES = 40 };

/* The bytes in quotes, on one line and without hidden characters; past max bytes cut, with the true length behind. */
static void put_string(struct kg_buffer *out, struct kg_str s, size_t max) {
    const bool cut = s.len > max;
    const size_t end = cut ? max : s.len;
    kg_buffer_puts(out, "\"");
    for (size_t at = 0; at < end;) {
        char shown[KG_VISIBLE_BYTES];
        size_t n_shown;
        const bool newline = s.data[at] == '\n';
        at += kg_visible_next(s.data + at, s.len - at, shown, &n_shown);
        if (newline) kg_buffer_puts(out, "\\n");
        else kg_buffer_append(out, shown, n_shown);
    }
    kg_buffer_puts(out, "\"");
    if (cut) kg_text_printf(out, "... (%zu bytes)", s.len);
}

static void put_number(struct kg_buffer *out, enum kg_gguf_type type, int64_t integer, double real) {
    switch (type) {
    case KG_GGUF_F32: kg_text_printf(out, "%.9g", real); break;
    case KG_GGUF_F64: kg_text_printf(out, "%.17g", real); break;
    case KG_GGUF_BOOL: kg_buffer_puts(out, integer ? "true" : "false"); break;
    case KG_GGUF_U64: kg_text_printf(out, "%" PRIu64, (uint64_t)integer); break;
    default: kg_text_printf(out, "%" PRId64, integer); break;
    }
}

static void put_array(struct kg_buffer *out, const struct kg_gguf_key *key, bool full) {
    const enum kg_gguf_type type = key->value.array.elem_type;
    const uint64_t n = key->value.array.n;
    const uint64_t n_shown = full || n <= MAX_ELEMS_SHOWN ? n : ELEMS_OF_LONGER;
    kg_buffer_puts(out, "[");
    for (uint64_t i = 0; i < n_shown; i++) {
        if (i > 0) kg_buffer_puts(out, ", ");
        if (type == KG_GGUF_STRING) put_string(out, key->value.array.strings[i], full ? SIZE_MAX : MAX_ELEM_BYTES);
        else if (type == KG_GGUF_F32 || type == KG_GGUF_F64) put_number(out, type, 0, kg_gguf_array_float(key, i));
        else put_number(out, type, kg_gguf_array_int(key, i), 0);
    }
    kg_buffer_puts(out, n_shown < n ? ", ...]" : "]");
}

static void put_key(struct kg_buffer *out, const struct kg_gguf_key *key, bool full) {
    char type[48];
    if (key->type == KG_GGUF_ARRAY)
        snprintf(type, sizeof type, "%s[%" PRIu64 "]", kg_gguf_type_name(key->value.array.elem_type),
                 key->value.array.n);
    else snprintf(type, sizeof type, "%s", kg_gguf_type_name(key->type));
    kg_text_printf(out, "  %-44s %-14s ", kg_quote(key->name.data, key->name.len).text, type);
    if (key->type == KG_GGUF_ARRAY) put_array(out, key, full);
    else if (key->type == KG_GGUF_STRING) put_string(out, key->value.s, full ? SIZE_MAX : MAX_TEXT_BYTES);
    else if (key->type == KG_GGUF_F32 || key->type == KG_GGUF_F64) put_number(out, key->type, 0, key->value.f);
    else put_number(out, key->type, key->type == KG_GGUF_BOOL ? key->value.b : key->value.i, 0);
    kg_buffer_puts(out, "\n");
}

static void put_tensor(struct kg_buffer *out, const struct kg_gguf_tensor *t) {
    char dims[4 * 24];
    size_t used = 0;
    for (uint32_t d = 0; d < t->n_dims; d++)
        used += (size_t)snprintf(dims + used, sizeof dims - used, "%s%" PRIu64, d > 0 ? " x " : "", t->dims[d]);
    kg_text_printf(out, "  %-44s %-6s %-24s %10s\n", kg_quote(t->name.data, t->name.len).text,
                   kg_dtype_info(t->dtype)->name, dims, kg_quantity_bytes((double)t->size_bytes).text);
}

static void put_total(struct kg_buffer *out, const char *name, const struct kg_inspect_total *total) {
    kg_text_printf(out, "  %-6s %6" PRIu64 " tensors %10s parameters %10s\n", name, total->n_tensors,
                   kg_quantity_count((double)total->n_params).text, kg_quantity_bytes((double)total->size_bytes).text);
}

void kg_inspect_text(struct kg_buffer *out, const struct kg_gguf *gguf, const struct kg_inspect_totals *totals,
                     const struct kg_inspect_parts *parts) {
    kg_text_printf(out, "%s: GGUF version %" PRIu32 ", alignment %" PRIu64 "\n", kg_gguf_path(gguf),
                   kg_gguf_version(gguf), kg_gguf_alignment(gguf));
    kg_text_printf(out, "\nmetadata: %zu keys\n", kg_gguf_n_keys(gguf));
    for (size_t i = 0; parts->keys && i < kg_gguf_n_keys(gguf); i++) put_key(out, kg_gguf_key_at(gguf, i), parts->full);
    if (parts->keys) kg_inspect_model_text(out, gguf);
    kg_text_printf(out, "\ntensors: %zu (dimensions fastest first)\n", kg_gguf_n_tensors(gguf));
    for (size_t i = 0; parts->tensors && i < kg_gguf_n_tensors(gguf); i++) put_tensor(out, kg_gguf_tensor_at(gguf, i));
    kg_buffer_puts(out, "\ntotals\n");
    for (size_t i = 0; i < KG_DTYPE_COUNT; i++)
        if (totals->by_type[i].n_tensors > 0)
            put_total(out, kg_dtype_info((enum kg_dtype)i)->name, &totals->by_type[i]);
    put_total(out, "all", &totals->all);
}
