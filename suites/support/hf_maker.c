#include "suites/support/hf_maker.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "base/utf8.h"
#include "format/dtype.h"
#include "format/safetensors_write.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "tokenizer/byte_level.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 128, MAX_ELEM_BYTES = 8 };

const json_t *kg_hf_expected(const char *name) {
    static json_t *all;
    json_error_t why;
    if (!all) all = json_load_file(kg_fixture_path("convert/expected.json"), 0, &why);
    ck_assert_msg(all != NULL, "%s", why.text);
    const json_t *entry = json_object_get(all, name);
    ck_assert_msg(entry != NULL, "expected.json has no '%s'", name);
    return entry;
}

static void put_file(const char *dir, const char *name, const char *text) {
    if (!*text) return;
    struct kg_error err;
    char *path = kg_path_join(dir, name);
    kg_must(kg_file_write(path, text, strlen(text), &err), &err);
    free(path);
}

static void put_json(const char *dir, const char *name, const json_t *json) {
    char *text = json_dumps(json, 0);
    put_file(dir, name, text);
    free(text);
}

static void put_config(const char *dir, const json_t *expected, const struct kg_hf_changes *changes) {
    json_t *config = json_copy(json_object_get(expected, "config"));
    if (changes->config) {
        json_t *edit = json_loads(changes->config, 0, NULL);
        ck_assert_msg(edit != NULL, "%s", changes->config);
        json_object_update(config, edit);
        json_decref(edit);
    }
    if (changes->config_text) put_file(dir, "config.json", changes->config_text);
    else put_json(dir, "config.json", config);
    json_decref(config);
}

static void put_tokenizer(const char *dir, const char *more_tokens) {
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_buffer_printf(&out,
                     "{\"added_tokens\":[{\"id\":258,\"content\":\"<|end|>\",\"special\":true}%s],\"pre_tokenizer\":"
                     "{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\",\"merges\":"
                     "[\"h e\",\"l l\"],\"vocab\":{\"he\":256,\"ll\":257",
                     more_tokens ? more_tokens : "");
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[KG_UTF8_MAX_BYTES + 1];
        text[kg_utf8_put(kg_byte_level_code_point((unsigned char)byte), text)] = '\0';
        kg_buffer_printf(&out, ",\"%s%s\":%u", byte == '"' || byte == '\\' ? "\\" : "", text, byte);
    }
    kg_buffer_puts(&out, "}}}");
    put_file(dir, "tokenizer.json", out.data);
    kg_buffer_free(&out);
}

static enum kg_safetensors_dtype dtype_of(const char *name) {
    for (int d = 0; d < KG_SAFETENSORS_DTYPE_COUNT; d++)
        if (strcmp(kg_safetensors_dtype_name((enum kg_safetensors_dtype)d), name) == 0)
            return (enum kg_safetensors_dtype)d;
    ck_abort_msg("no type %s", name);
}

/* The value of element i, as make_convert.py has it: from the name's FNV-1a hash and i. */
static uint32_t noise(uint32_t hash, size_t i) {
    uint32_t u = hash + (uint32_t)i * 2654435761u;
    u ^= u >> 15;
    u *= 0x2C1B3C6Du;
    return u ^ u >> 12;
}

static void put_value(enum kg_safetensors_dtype dtype, float value, void *to) {
    const uint16_t f16 = kg_f32_to_f16(value), bf16 = kg_f32_to_bf16(value);
    if (dtype == KG_SAFETENSORS_F32) memcpy(to, &value, sizeof value);
    else if (dtype == KG_SAFETENSORS_U8) *(uint8_t *)to = (uint8_t)value;
    else memcpy(to, dtype == KG_SAFETENSORS_F16 ? &f16 : &bf16, sizeof f16);
}

static size_t elem_bytes(enum kg_safetensors_dtype dtype) {
    return dtype == KG_SAFETENSORS_U8 || dtype == KG_SAFETENSORS_F8_E4M3 ? 1
           : dtype == KG_SAFETENSORS_F32                                 ? 4
           : dtype == KG_SAFETENSORS_F64                                 ? 8
                                                                         : 2;
}

static uint8_t *make_values(const char *name, enum kg_safetensors_dtype dtype, size_t n) {
    const size_t len = strlen(name), size = elem_bytes(dtype);
    const bool scales = len > 7 && strcmp(name + len - 7, "_scales") == 0;
    uint8_t *data = kg_xcalloc(n + 1, size);
    uint32_t hash = 0x811C9DC5u;
    for (const char *p = name; *p; p++) hash = (hash ^ (unsigned char)*p) * 0x01000193u;
    for (size_t i = 0; i < n; i++) {
        const uint32_t u = noise(hash, i);
        const int bits = dtype == KG_SAFETENSORS_F32 ? 24 : dtype == KG_SAFETENSORS_F16 ? 11 : 8;
        const float unit = dtype == KG_SAFETENSORS_F32 ? 0x1p-22f : dtype == KG_SAFETENSORS_F16 ? 0x1p-9f : 0x1p-6f;
        if (dtype == KG_SAFETENSORS_U8) data[i] = (uint8_t)(scales ? 100 + (u >> 24) % 40 : u >> 24);
        else put_value(dtype, (float)((int32_t)(u >> (32 - bits)) - (1 << (bits - 1))) * unit, data + i * size);
    }
    return data;
}

static void change_shape(struct kg_safetensors_output *t) {
    if (t->n_dims == 1) t->dims[0]++;
    for (size_t d = 0; d < t->n_dims / 2; d++) {
        const uint64_t other = t->dims[d];
        t->dims[d] = t->dims[t->n_dims - 1 - d];
        t->dims[t->n_dims - 1 - d] = other;
    }
}

/* One tensor as the changes have it; its data and name are malloc'ed. */
static struct kg_safetensors_output make_tensor(const json_t *row, const struct kg_hf_changes *changes) {
    const char *name = json_string_value(json_array_get(row, 0));
    const json_t *shape = json_array_get(row, 2);
    struct kg_safetensors_output t = { .dtype = dtype_of(json_string_value(json_array_get(row, 1))),
                                       .n_dims = json_array_size(shape) };
    size_t n = 1;
    for (size_t d = 0; d < t.n_dims; d++) n *= t.dims[d] = (uint64_t)json_integer_value(json_array_get(shape, d));
    uint8_t *data = make_values(name, t.dtype, n);
    for (size_t e = 0; e < KG_COUNT_OF(changes->edits); e++) {
        const struct kg_hf_edit *edit = &changes->edits[e];
        if (!edit->tensor || strcmp(edit->tensor, name) != 0) continue;
        if (edit->kind == KG_HF_SHAPE) change_shape(&t);
        if (edit->kind == KG_HF_POKE) put_value(t.dtype, (float)edit->value, data + edit->at * elem_bytes(t.dtype));
        if (edit->kind != KG_HF_DTYPE) continue;
        t.dtype = dtype_of(edit->text);
        free(data);
        data = kg_xcalloc(n, MAX_ELEM_BYTES);
    }
    t.data = data;
    t.name = kg_xasprintf("%s%s", changes->prefix ? changes->prefix : "", name);
    return t;
}

static bool is_dropped(const char *name, const struct kg_hf_changes *changes) {
    for (size_t e = 0; e < KG_COUNT_OF(changes->edits); e++)
        if (changes->edits[e].kind == KG_HF_DROP && strcmp(changes->edits[e].tensor, name) == 0) return true;
    return false;
}

static size_t make_tensors(const json_t *expected, const struct kg_hf_changes *changes,
                           struct kg_safetensors_output *out) {
    const json_t *row;
    size_t n = 0, i;
    json_array_foreach(json_object_get(expected, "tensors"), i, row) {
        ck_assert_uint_lt(n, MAX_TENSORS);
        if (!is_dropped(json_string_value(json_array_get(row, 0)), changes)) out[n++] = make_tensor(row, changes);
    }
    for (size_t e = 0; e < KG_COUNT_OF(changes->edits); e++) {
        if (changes->edits[e].kind != KG_HF_ADD) continue;
        ck_assert_uint_lt(n, MAX_TENSORS);
        out[n++] = (struct kg_safetensors_output){ .name = kg_xstrdup(changes->edits[e].tensor),
                                                   .dtype = KG_SAFETENSORS_F32,
                                                   .n_dims = 2,
                                                   .dims = { 2, 2 },
                                                   .data = kg_xcalloc(4, sizeof(float)) };
    }
    return n;
}

static void put_shards(const char *dir, const struct kg_safetensors_output *tensors, size_t n, size_t n_shards) {
    struct kg_error err;
    json_t *places = json_object();
    for (size_t s = 0; s < n_shards; s++) {
        const size_t begin = s * n / n_shards, end = (s + 1) * n / n_shards;
        char *name = n_shards > 1 ? kg_xasprintf("model-%05zu-of-%05zu.safetensors", s + 1, n_shards)
                                  : kg_xstrdup("model.safetensors");
        char *path = kg_path_join(dir, name);
        kg_must(kg_safetensors_write(path, tensors + begin, end - begin, &err), &err);
        for (size_t i = begin; i < end; i++) json_object_set_new(places, tensors[i].name, json_string(name));
        free(path);
        free(name);
    }
    if (n_shards > 1) {
        json_t *index = json_pack("{s:O}", "weight_map", places);
        put_json(dir, "model.safetensors.index.json", index);
        json_decref(index);
    }
    json_decref(places);
}

void kg_hf_make(const char *dir, const json_t *expected, const struct kg_hf_changes *changes) {
    static const struct kg_hf_changes NONE;
    struct kg_safetensors_output tensors[MAX_TENSORS];
    struct kg_error err;
    if (!changes) changes = &NONE;
    kg_must(kg_dir_make(dir, &err), &err);
    put_config(dir, expected, changes);
    if (changes->tokenizer) put_file(dir, "tokenizer.json", changes->tokenizer);
    else put_tokenizer(dir, changes->more_tokens);
    if (changes->generation) put_file(dir, "generation_config.json", changes->generation);
    if (changes->index) put_file(dir, "model.safetensors.index.json", changes->index);
    const size_t n = make_tensors(expected, changes, tensors);
    put_shards(dir, tensors, n, (size_t)json_integer_value(json_object_get(expected, "shards")));
    for (size_t i = 0; i < n; i++) {
        free((void *)(uintptr_t)tensors[i].name);
        free((void *)(uintptr_t)tensors[i].data);
    }
}
