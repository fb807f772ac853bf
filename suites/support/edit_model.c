#include "suites/support/edit_model.h"
#include "base/buffer.h"
#include "format/gguf.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy under way. */
struct editor {
    const struct kg_model_edit *edit;
    struct kg_gguf *from;
    struct kg_gguf_writer *to;
    char **buffers; /* changed tensor data, borrowed by the writer until it is done */
    size_t n_buffers;
    bool met; /* what is to be dropped or edited was there */
    struct kg_error *err;
};

static bool is(struct kg_str name, const char *text) {
    return text && kg_str_eq(name, text);
}

static void copy_tokens(struct editor *e, const struct kg_gguf_key *key) {
    const size_t n = e->edit->n_tokens, n_there = (size_t)key->value.array.n;
    struct kg_str *const tokens = kg_xcalloc(n, sizeof *tokens);
    struct {
        char text[32];
    } *const more = kg_xcalloc(n, sizeof *more);
    for (size_t i = 0; i < n; i++) {
        snprintf(more[i].text, sizeof more[i].text, "[MORE%zu]", i);
        tokens[i] = i < n_there ? key->value.array.strings[i] : (struct kg_str){ more[i].text, strlen(more[i].text) };
    }
    kg_gguf_writer_strings(e->to, "tokenizer.ggml.tokens", tokens, n);
    free(more);
    free(tokens);
}

static void write_token_types(struct editor *e) {
    int32_t *const types = kg_xcalloc(e->edit->n_token_types, sizeof *types);
    for (size_t i = 0; i < e->edit->n_token_types; i++) types[i] = 1;
    kg_gguf_writer_i32s(e->to, "tokenizer.ggml.token_type", types, e->edit->n_token_types);
    free(types);
}

static void copy_keys(struct editor *e) {
    const struct kg_model_edit *const edit = e->edit;
    if (edit->u32_key) kg_gguf_writer_u32(e->to, edit->u32_key, edit->u32);
    if (edit->f32_key) kg_gguf_writer_f32(e->to, edit->f32_key, edit->f32);
    if (edit->str_key) kg_gguf_writer_str(e->to, edit->str_key, edit->str, strlen(edit->str));
    for (size_t i = 0; i < kg_gguf_n_keys(e->from); i++) {
        const struct kg_gguf_key *const key = kg_gguf_key_at(e->from, i);
        if (is(key->name, edit->drop_key)) e->met = true;
        else if (is(key->name, edit->u32_key) || is(key->name, edit->f32_key) || is(key->name, edit->str_key)) continue;
        else if (edit->n_tokens && is(key->name, "tokenizer.ggml.tokens")) copy_tokens(e, key);
        else if (edit->n_token_types && is(key->name, "tokenizer.ggml.token_type")) write_token_types(e);
        else kg_gguf_writer_copy_key(e->to, key);
    }
}

/* A copy of the tensor's bytes, at least size_bytes long, kept until the file is written. */
static char *own_bytes(struct editor *e, const struct kg_gguf_tensor *tensor, size_t size_bytes) {
    const size_t there = tensor->size_bytes;
    char *const data = kg_xcalloc(1, size_bytes > there ? size_bytes : there);
    memcpy(data, tensor->data, there);
    e->buffers = kg_xrealloc(e->buffers, (e->n_buffers + 1) * sizeof *e->buffers);
    e->buffers[e->n_buffers++] = data;
    return data;
}

static void spoil_first(char *data, enum kg_dtype dtype, float value) {
    const uint16_t half = kg_f32_to_f16(value);
    if (dtype == KG_DTYPE_F16) memcpy(data, &half, sizeof half);
    else memcpy(data, &value, sizeof value);
}

static enum kg_status copy_edited(struct editor *e, const struct kg_gguf_tensor *tensor, const char *name) {
    struct kg_gguf_tensor t = *tensor;
    switch (e->edit->how) {
    case KG_TENSOR_KEEP: break;
    case KG_TENSOR_DROP: return KG_OK;
    case KG_TENSOR_TRANSPOSE:
        t.dims[0] = tensor->dims[1];
        t.dims[1] = tensor->dims[0];
        if (t.n_dims == 1) t.n_dims = 2;
        break;
    case KG_TENSOR_ROW_LESS: t.dims[t.n_dims - 1]--; break;
    case KG_TENSOR_FLAT:
        t.n_dims = 1;
        t.dims[0] = tensor->n_elems;
        break;
    case KG_TENSOR_ZERO_Q8_0:
        t.dtype = KG_DTYPE_Q8_0;
        t.data = memset(own_bytes(e, tensor, 0), 0, tensor->size_bytes);
        break;
    case KG_TENSOR_NAN:
    case KG_TENSOR_INFINITE: {
        char *const data = own_bytes(e, tensor, 0);
        spoil_first(data, t.dtype, e->edit->how == KG_TENSOR_NAN ? NAN : INFINITY);
        t.data = data;
    } break;
    case KG_TENSOR_LARGE: {
        void *const bytes = own_bytes(e, tensor, 0);
        float *const data = bytes;
        for (size_t i = 0; i < t.n_elems; i++) data[i] *= 0x1p17f;
        t.data = data;
    } break;
    }
    return kg_gguf_writer_tensor(e->to, name, t.dtype, t.n_dims, t.dims, t.data, e->err);
}

static enum kg_status copy_tensors(struct editor *e) {
    static const float MORE[4] = { 1, 2, 3, 4 };
    static const uint64_t MORE_DIMS[] = { 4 };
    enum kg_status status = KG_OK;
    const size_t n = e->edit->no_tensors ? 0 : kg_gguf_n_tensors(e->from);
    for (size_t i = 0; status == KG_OK && i < n; i++) {
        const struct kg_gguf_tensor *const t = kg_gguf_tensor_at(e->from, i);
        char *const name = kg_xstrndup(t->name.data, t->name.len);
        if (is(t->name, e->edit->tensor)) {
            e->met = true;
            status = copy_edited(e, t, name);
        } else status = kg_gguf_writer_tensor(e->to, name, t->dtype, t->n_dims, t->dims, t->data, e->err);
        free(name);
    }
    if (status == KG_OK && e->edit->add_tensor)
        status = kg_gguf_writer_tensor(e->to, e->edit->add_tensor, KG_DTYPE_F32, 1, MORE_DIMS, MORE, e->err);
    return status;
}

enum kg_status kg_model_edit(const char *from, const char *to, const struct kg_model_edit *edit, struct kg_error *err) {
    struct editor e = { .edit = edit, .met = !edit->drop_key && !edit->tensor, .err = err };
    enum kg_status status = kg_gguf_open(from, &e.from, err);
    if (status != KG_OK) return status;
    e.to = kg_gguf_writer_new(32);
    copy_keys(&e);
    status = copy_tensors(&e);
    if (status == KG_OK && !e.met)
        status = kg_fail(err, KG_ERR_NOT_FOUND, "%s has no %s", from, edit->tensor ? edit->tensor : edit->drop_key);
    if (status == KG_OK) status = kg_gguf_writer_finish(e.to, to, err);
    kg_gguf_writer_free(e.to);
    for (size_t i = 0; i < e.n_buffers; i++) free(e.buffers[i]);
    free(e.buffers);
    kg_gguf_close(e.from);
    return status;
}
