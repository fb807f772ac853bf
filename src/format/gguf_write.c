/* Writing GGUF version 3: keys are encoded as they are added, tensors are listed, and finish writes the file in one
 * pass. */
#include "format/gguf_private.h"
#include "base/buffer.h"
#include "base/draft.h"
#include "base/size.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENSOR_NAME_BYTES = 63 }; /* what ggml reads */

static const char ALIGNMENT_KEY[] = "general.alignment";

/* A tensor to be written: its data is borrowed, or generated piece by piece. */
struct pending {
    struct kg_gguf_tensor tensor; /* first: names are indexed by it; the name is a copy */
    kg_gguf_fill_fn fill;         /* NULL: tensor.data is borrowed */
    void *fill_arg;
};

struct kg_gguf_writer {
    uint64_t alignment;
    struct kg_buffer keys;    /* as in the file */
    struct kg_str *key_names; /* copies, for detecting duplicates */
    size_t n_keys;
    struct pending *tensors;
    size_t n_tensors;
    kg_gguf_progress_fn on_progress; /* or NULL */
    void *progress_arg;
    enum kg_status status; /* the first error of a void function; finish returns it */
    struct kg_error error;
};

static struct kg_str copy_str(const char *data, size_t len) {
    return (struct kg_str){ kg_xstrndup(data, len), len };
}

static void put_u32(struct kg_buffer *b, uint32_t value) {
    kg_buffer_append(b, &value, sizeof value);
}

static void put_u64(struct kg_buffer *b, uint64_t value) {
    kg_buffer_append(b, &value, sizeof value);
}

static void put_str(struct kg_buffer *b, const char *data, size_t len) {
    put_u64(b, len);
    kg_buffer_append(b, data, len);
}

static void note_error(struct kg_gguf_writer *w, struct kg_str key, const char *problem) {
    if (w->status != KG_OK) return;
    w->status = kg_fail(&w->error, KG_ERR_USAGE, "key '%s' %s", kg_quote(key.data, key.len).text, problem);
}

static void put_key(struct kg_gguf_writer *w, const char *name, size_t len, enum kg_gguf_type type) {
    w->key_names = kg_xrealloc(w->key_names, (w->n_keys + 1) * sizeof *w->key_names);
    w->key_names[w->n_keys++] = copy_str(name, len);
    put_str(&w->keys, name, len);
    put_u32(&w->keys, type);
}

/* False if the key may not be written; w->status then holds the reason. */
static bool begin_key(struct kg_gguf_writer *w, const char *name, size_t len, enum kg_gguf_type type) {
    const struct kg_str key = { name, len };
    if (len == 0 || len > KG_GGUF_MAX_KEY_BYTES) note_error(w, key, "is empty or too long");
    else if (kg_str_eq(key, ALIGNMENT_KEY)) note_error(w, key, "is written by the writer itself");
    else put_key(w, name, len, type);
    return w->status == KG_OK;
}

static bool begin_array(struct kg_gguf_writer *w, const char *name, size_t len, enum kg_gguf_type elem_type,
                        uint64_t n) {
    if (!begin_key(w, name, len, KG_GGUF_ARRAY)) return false;
    put_u32(&w->keys, elem_type);
    put_u64(&w->keys, n);
    return true;
}

struct kg_gguf_writer *kg_gguf_writer_new(uint32_t alignment) {
    struct kg_gguf_writer *w = kg_xcalloc(1, sizeof *w);
    w->alignment = alignment;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
        w->status = kg_fail(&w->error, KG_ERR_USAGE, "alignment %" PRIu32 " is not a power of two", alignment);
    } else if (alignment != KG_GGUF_DEFAULT_ALIGNMENT) {
        put_key(w, ALIGNMENT_KEY, strlen(ALIGNMENT_KEY), KG_GGUF_U32);
        put_u32(&w->keys, alignment);
    }
    return w;
}

void kg_gguf_writer_free(struct kg_gguf_writer *w) {
    if (!w) return;
    for (size_t i = 0; i < w->n_keys; i++) free((void *)(uintptr_t)w->key_names[i].data);
    for (size_t i = 0; i < w->n_tensors; i++) free((void *)(uintptr_t)w->tensors[i].tensor.name.data);
    free(w->key_names);
    free(w->tensors);
    kg_buffer_free(&w->keys);
    free(w);
}

void kg_gguf_writer_u32(struct kg_gguf_writer *w, const char *key, uint32_t value) {
    if (begin_key(w, key, strlen(key), KG_GGUF_U32)) put_u32(&w->keys, value);
}

void kg_gguf_writer_f32(struct kg_gguf_writer *w, const char *key, float value) {
    if (begin_key(w, key, strlen(key), KG_GGUF_F32)) kg_buffer_append(&w->keys, &value, sizeof value);
}

void kg_gguf_writer_bool(struct kg_gguf_writer *w, const char *key, bool value) {
    const uint8_t byte = value;
    if (begin_key(w, key, strlen(key), KG_GGUF_BOOL)) kg_buffer_append(&w->keys, &byte, sizeof byte);
}

void kg_gguf_writer_str(struct kg_gguf_writer *w, const char *key, const char *value, size_t len) {
    if (begin_key(w, key, strlen(key), KG_GGUF_STRING)) put_str(&w->keys, value, len);
}

void kg_gguf_writer_strings(struct kg_gguf_writer *w, const char *key, const struct kg_str *values, size_t n) {
    if (!begin_array(w, key, strlen(key), KG_GGUF_STRING, n)) return;
    for (size_t i = 0; i < n; i++) put_str(&w->keys, values[i].data, values[i].len);
}

void kg_gguf_writer_i32s(struct kg_gguf_writer *w, const char *key, const int32_t *values, size_t n) {
    if (begin_array(w, key, strlen(key), KG_GGUF_I32, n)) kg_buffer_append(&w->keys, values, n * sizeof *values);
}

void kg_gguf_writer_f32s(struct kg_gguf_writer *w, const char *key, const float *values, size_t n) {
    if (begin_array(w, key, strlen(key), KG_GGUF_F32, n)) kg_buffer_append(&w->keys, values, n * sizeof *values);
}

/* The reader stores scalars widened; in little-endian order their first bytes are the narrow value. Reads only the
 * union member of the key's type: another one may be invalid (a trap value of bool). */
static void put_scalar(struct kg_buffer *b, const struct kg_gguf_key *key) {
    const size_t n = kg_gguf_scalar_bytes(key->type);
    if (key->type == KG_GGUF_F32) {
        const float narrow = (float)key->value.f;
        kg_buffer_append(b, &narrow, n);
    } else if (key->type == KG_GGUF_BOOL) {
        const uint8_t truth = key->value.b;
        kg_buffer_append(b, &truth, n);
    } else if (key->type == KG_GGUF_F64) {
        kg_buffer_append(b, &key->value.f, n);
    } else {
        kg_buffer_append(b, &key->value.u, n);
    }
}

void kg_gguf_writer_copy_key(struct kg_gguf_writer *w, const struct kg_gguf_key *key) {
    if (kg_str_eq(key->name, ALIGNMENT_KEY)) return;
    if (key->type != KG_GGUF_ARRAY) {
        if (!begin_key(w, key->name.data, key->name.len, key->type)) return;
        if (key->type == KG_GGUF_STRING) put_str(&w->keys, key->value.s.data, key->value.s.len);
        else put_scalar(&w->keys, key);
        return;
    }
    const enum kg_gguf_type elem_type = key->value.array.elem_type;
    const uint64_t n = key->value.array.n;
    if (!begin_array(w, key->name.data, key->name.len, elem_type, n)) return;
    if (elem_type != KG_GGUF_STRING)
        kg_buffer_append(&w->keys, key->value.array.data, (size_t)n * kg_gguf_scalar_bytes(elem_type));
    for (uint64_t i = 0; elem_type == KG_GGUF_STRING && i < n; i++)
        put_str(&w->keys, key->value.array.strings[i].data, key->value.array.strings[i].len);
}

static enum kg_status add_tensor(struct kg_gguf_writer *w, const char *name, struct kg_gguf_tensor tensor,
                                 const uint64_t *dims, kg_gguf_fill_fn fill, void *fill_arg, struct kg_error *err) {
    const size_t len = strlen(name);
    if (len == 0 || len > MAX_TENSOR_NAME_BYTES)
        return kg_fail(err, KG_ERR_USAGE, "the name of tensor '%s' is outside 1 to %d bytes", kg_quote(name, len).text,
                       MAX_TENSOR_NAME_BYTES);
    for (uint32_t d = 0; d < tensor.n_dims && d < KG_GGUF_MAX_DIMS; d++) tensor.dims[d] = dims[d];
    const enum kg_status status = kg_gguf_tensor_measure(&tensor, err);
    if (status != KG_OK) return kg_error_context(err, status, "tensor '%s'", kg_quote(name, len).text);
    tensor.name = copy_str(name, len);
    w->tensors = kg_xrealloc(w->tensors, (w->n_tensors + 1) * sizeof *w->tensors);
    w->tensors[w->n_tensors++] = (struct pending){ tensor, fill, fill_arg };
    return KG_OK;
}

enum kg_status kg_gguf_writer_tensor(struct kg_gguf_writer *w, const char *name, enum kg_dtype dtype, uint32_t n_dims,
                                     const uint64_t *dims, const void *data, struct kg_error *err) {
    const struct kg_gguf_tensor tensor = { .dtype = dtype, .n_dims = n_dims, .dims = { 1, 1, 1, 1 }, .data = data };
    return add_tensor(w, name, tensor, dims, NULL, NULL, err);
}

enum kg_status kg_gguf_writer_tensor_made(struct kg_gguf_writer *w, const char *name, enum kg_dtype dtype,
                                          uint32_t n_dims, const uint64_t *dims, kg_gguf_fill_fn fill, void *arg,
                                          struct kg_error *err) {
    const struct kg_gguf_tensor tensor = { .dtype = dtype, .n_dims = n_dims, .dims = { 1, 1, 1, 1 } };
    return add_tensor(w, name, tensor, dims, fill, arg, err);
}

void kg_gguf_writer_on_progress(struct kg_gguf_writer *w, kg_gguf_progress_fn fn, void *arg) {
    w->on_progress = fn;
    w->progress_arg = arg;
}

static enum kg_status check_doubles(const void *names, size_t n, size_t stride, const char *kind,
                                    struct kg_error *err) {
    struct kg_gguf_names index = { NULL, 0 };
    const enum kg_status status = kg_gguf_index(&index, names, n, stride, kind, err);
    free(index.sorted);
    return status;
}

/* Appends everything before the tensor data. */
static enum kg_status put_header(const struct kg_gguf_writer *w, struct kg_buffer *head, struct kg_error *err) {
    uint64_t offset = 0;
    kg_buffer_append(head, "GGUF", 4);
    put_u32(head, 3);
    put_u64(head, w->n_tensors);
    put_u64(head, w->n_keys);
    kg_buffer_append(head, w->keys.data, w->keys.len);
    for (size_t i = 0; i < w->n_tensors; i++) {
        const struct kg_gguf_tensor *t = &w->tensors[i].tensor;
        put_str(head, t->name.data, t->name.len);
        put_u32(head, t->n_dims);
        for (uint32_t d = 0; d < t->n_dims; d++) put_u64(head, t->dims[d]);
        put_u32(head, kg_dtype_info(t->dtype)->gguf_id);
        put_u64(head, offset);
        if (!kg_add_u64(offset, t->size_bytes, &offset) || !kg_align_u64(offset, w->alignment, &offset))
            return kg_fail(err, KG_ERR_RANGE, "tensor '%s': its place in the file overflows", t->name.data);
    }
    return KG_OK;
}

static enum kg_status write_zeros(int fd, uint64_t n_bytes, struct kg_error *err) {
    static const uint8_t ZEROS[4096];
    enum kg_status status = KG_OK;
    while (status == KG_OK && n_bytes > 0) {
        const size_t step = n_bytes < sizeof ZEROS ? (size_t)n_bytes : sizeof ZEROS;
        status = kg_fd_write(fd, ZEROS, step, err);
        n_bytes -= step;
    }
    return status;
}

/* Writes zeros up to the next multiple of the alignment. */
static enum kg_status write_padding(int fd, uint64_t size_bytes, uint64_t alignment, struct kg_error *err) {
    return write_zeros(fd, (alignment - size_bytes % alignment) % alignment, err);
}

/* State of writing the tensor data: the output file and the progress. */
struct stream {
    const struct kg_gguf_writer *w;
    int fd;
    uint8_t *piece; /* buffer for generated data, KG_GGUF_PIECE_BYTES; NULL until needed */
    uint64_t done_bytes, total_bytes;
};

static void count_written(struct stream *s, uint64_t n_bytes) {
    s->done_bytes += n_bytes;
    if (s->w->on_progress) s->w->on_progress(s->w->progress_arg, s->done_bytes, s->total_bytes);
}

static enum kg_status write_made(struct stream *s, const struct pending *p, struct kg_error *err) {
    const uint64_t unit = (uint64_t)KG_GGUF_PIECE_BLOCKS * kg_dtype_info(p->tensor.dtype)->block_bytes;
    const uint64_t most = KG_GGUF_PIECE_BYTES / unit * unit;
    enum kg_status status = KG_OK;
    if (!s->piece) s->piece = kg_xmalloc(KG_GGUF_PIECE_BYTES);
    for (uint64_t at = 0; at < p->tensor.size_bytes && status == KG_OK; at += most) {
        const uint64_t left = p->tensor.size_bytes - at;
        const size_t n = (size_t)(left < most ? left : most);
        status = p->fill(p->fill_arg, at, s->piece, n, err);
        if (status != KG_OK) return kg_error_context(err, status, "tensor '%s'", p->tensor.name.data);
        status = kg_fd_write(s->fd, s->piece, n, err);
        if (status == KG_OK) count_written(s, n);
    }
    return status;
}

static enum kg_status write_tensor(struct stream *s, const struct pending *p, struct kg_error *err) {
    enum kg_status status;
    if (p->fill) {
        status = write_made(s, p, err);
    } else {
        status = kg_fd_write(s->fd, p->tensor.data, p->tensor.size_bytes, err);
        if (status == KG_OK) count_written(s, p->tensor.size_bytes);
    }
    return status == KG_OK ? write_padding(s->fd, p->tensor.size_bytes, s->w->alignment, err) : status;
}

static enum kg_status write_file(const struct kg_gguf_writer *w, const struct kg_buffer *head, const char *path,
                                 struct kg_error *err) {
    struct kg_draft draft;
    enum kg_status status = kg_draft_open(path, &draft, err);
    if (status != KG_OK) return status;
    struct stream s = { .w = w, .fd = draft.fd };
    for (size_t i = 0; i < w->n_tensors; i++) s.total_bytes += w->tensors[i].tensor.size_bytes;
    status = kg_fd_reserve(draft.fd, head->len + s.total_bytes, err); /* and some padding */
    if (status == KG_OK) status = kg_fd_write(draft.fd, head->data, head->len, err);
    if (status == KG_OK) status = write_padding(draft.fd, head->len, w->alignment, err);
    for (size_t i = 0; i < w->n_tensors && status == KG_OK; i++) status = write_tensor(&s, &w->tensors[i], err);
    free(s.piece);
    if (status == KG_OK) return kg_draft_publish(&draft, err);
    kg_draft_discard(&draft);
    return kg_error_context(err, status, "%s", path);
}

static enum kg_status check_and_lay_out(const struct kg_gguf_writer *w, struct kg_buffer *head, struct kg_error *err) {
    if (w->status != KG_OK) return kg_fail(err, w->status, "%s", w->error.message);
    enum kg_status status = check_doubles(w->key_names, w->n_keys, sizeof *w->key_names, "key", err);
    if (status == KG_OK) status = check_doubles(w->tensors, w->n_tensors, sizeof *w->tensors, "tensor", err);
    return status == KG_OK ? put_header(w, head, err) : status;
}

enum kg_status kg_gguf_writer_keys(const struct kg_gguf_writer *w, struct kg_buffer *image, struct kg_error *err) {
    if (w->n_tensors > 0) return kg_fail(err, KG_ERR_USAGE, "%zu tensors are no keys", w->n_tensors);
    return check_and_lay_out(w, image, err);
}

enum kg_status kg_gguf_writer_finish(struct kg_gguf_writer *w, const char *path, struct kg_error *err) {
    struct kg_buffer head = KG_BUFFER_INIT;
    enum kg_status status = check_and_lay_out(w, &head, err);
    if (status != KG_OK) status = kg_error_context(err, status, "%s", path);
    else status = write_file(w, &head, path, err);
    kg_buffer_free(&head);
    return status;
}
