#include "suites/support/gguf_edit.h"
#include "base/buffer.h"
#include <check.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_ok(enum kg_status status, const struct kg_error *err) {
    if (status != KG_OK) ck_abort_msg("%s", err->message);
}

uint64_t kg_edited_n_elems(const struct kg_edited_tensor *t) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) n *= t->dims[i];
    return n;
}

float *kg_edited_values(const struct kg_edited_tensor *t) {
    const uint64_t n = kg_edited_n_elems(t);
    float *values = kg_xcalloc(n, sizeof *values);
    kg_dtype_info(t->dtype)->decode(t->data, values, n);
    return values;
}

void kg_edited_set_values(struct kg_edited_tensor *t, enum kg_dtype dtype, const float *values) {
    const struct kg_dtype_info *info = kg_dtype_info(dtype);
    struct kg_error err;
    const uint64_t n = kg_edited_n_elems(t);
    if (!info->encode) ck_abort_msg("%s: kigo writes no %s", t->name, info->name);
    expect_ok(kg_dtype_row_bytes(dtype, n, &t->size_bytes, &err), &err);
    free(t->data);
    t->data = kg_xmalloc(t->size_bytes);
    t->dtype = dtype;
    info->encode(values, t->data, n);
}

static bool matches(const char *patterns, const char *name) {
    char *text = kg_xstrdup(patterns), *rest = NULL;
    bool found = false;
    for (char *p = strtok_r(text, " ", &rest); p && !found; p = strtok_r(NULL, " ", &rest))
        found = fnmatch(p, name, 0) == 0;
    free(text);
    return found;
}

static struct kg_edited_tensor copy_tensor(const struct kg_gguf_tensor *from) {
    struct kg_edited_tensor t = { .dtype = from->dtype, .n_dims = from->n_dims, .size_bytes = from->size_bytes };
    if (from->name.len >= sizeof t.name) ck_abort_msg("a tensor's name has %zu bytes", from->name.len);
    memcpy(t.name, from->name.data, from->name.len);
    memcpy(t.dims, from->dims, sizeof t.dims);
    t.data = kg_xmalloc(from->size_bytes);
    memcpy(t.data, from->data, from->size_bytes);
    return t;
}

static bool is_changed(const struct kg_edited_tensor *t, const struct kg_gguf_tensor *from) {
    return t->dropped || t->dtype != from->dtype || t->size_bytes != from->size_bytes ||
           !kg_str_eq(from->name, t->name) || memcmp(t->data, from->data, t->size_bytes) != 0;
}

static const struct kg_key_edit *edit_of(const struct kg_gguf_edit *edit, struct kg_str name, bool *used) {
    for (size_t i = 0; i < KG_GGUF_EDIT_MAX_KEYS && edit->keys[i].change; i++)
        if (kg_str_eq(name, edit->keys[i].key)) {
            used[i] = true;
            return &edit->keys[i];
        }
    return NULL;
}

static void write_keys(struct kg_gguf_writer *w, const struct kg_gguf *g, const struct kg_gguf_edit *edit) {
    bool used[KG_GGUF_EDIT_MAX_KEYS] = { false };
    for (size_t i = 0; i < kg_gguf_n_keys(g); i++) {
        const struct kg_gguf_key *key = kg_gguf_key_at(g, i);
        const struct kg_key_edit *e = edit_of(edit, key->name, used);
        if (kg_str_eq(key->name, "general.alignment")) continue; /* the writer's own */
        if (!e) kg_gguf_writer_copy_key(w, key);
        else if (e->change == KG_KEY_SET_U32) kg_gguf_writer_u32(w, e->key, (uint32_t)e->value);
        else if (e->change == KG_KEY_SET_F32) kg_gguf_writer_f32(w, e->key, (float)e->value);
    }
    for (size_t i = 0; i < KG_GGUF_EDIT_MAX_KEYS && edit->keys[i].change; i++)
        if (!used[i]) ck_abort_msg("%s has no key %s to change", kg_gguf_path(g), edit->keys[i].key);
}

/* Every tensor, changed where the edit says so; returned for freeing once the file is written. */
static struct kg_edited_tensor *write_tensors(struct kg_gguf_writer *w, const struct kg_gguf *g,
                                              const struct kg_gguf_edit *edit) {
    struct kg_error err;
    const size_t n = kg_gguf_n_tensors(g);
    struct kg_edited_tensor *tensors = kg_xcalloc(n, sizeof *tensors);
    size_t n_changed = 0;
    for (size_t i = 0; i < n; i++) {
        const struct kg_gguf_tensor *from = kg_gguf_tensor_at(g, i);
        struct kg_edited_tensor *t = &tensors[i];
        *t = copy_tensor(from);
        if (edit->tensors && matches(edit->tensors, t->name)) {
            edit->change(t, edit->user);
            n_changed += is_changed(t, from);
        }
        if (t->dropped) continue;
        expect_ok(kg_gguf_writer_tensor(w, t->name, t->dtype, t->n_dims, t->dims, t->data, &err), &err);
    }
    if (edit->tensors && n_changed == 0) ck_abort_msg("%s: no tensor %s changed", kg_gguf_path(g), edit->tensors);
    return tensors;
}

void kg_gguf_rewrite(const char *from, const char *to, const struct kg_gguf_edit *edit) {
    static const struct kg_gguf_edit none = { .tensors = NULL };
    struct kg_error err;
    struct kg_gguf *g;
    expect_ok(kg_gguf_open(from, &g, &err), &err);
    struct kg_gguf_writer *w = kg_gguf_writer_new((uint32_t)kg_gguf_alignment(g));
    write_keys(w, g, edit ? edit : &none);
    struct kg_edited_tensor *tensors = write_tensors(w, g, edit ? edit : &none);
    expect_ok(kg_gguf_writer_finish(w, to, &err), &err);
    kg_gguf_writer_free(w);
    for (size_t i = 0; i < kg_gguf_n_tensors(g); i++) free(tensors[i].data);
    free(tensors);
    kg_gguf_close(g);
}
