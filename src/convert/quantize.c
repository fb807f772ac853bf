#include "convert/quantize.h"
#include "base/buffer.h"
#include "base/size.h"
#include "base/utf8.h"
#include "model/config.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGNMENT = 32, QUANTIZATION_VERSION = 2 };

struct quantizing {
    const struct kg_quantize_options *options;
    struct kg_gguf *in;
    const struct kg_architecture *architecture;
    struct kg_file_type_model model;
    struct kg_written_tensor *tensors;
    struct kg_thread_pool *pool;
};

struct tensor_making {
    const struct quantizing *q;
    const struct kg_gguf_tensor *from;
    struct kg_written_tensor *to;
};

static enum kg_status check_paths(const char *in_path, const char *out_path, struct kg_error *err) {
    struct stat in, out;
    if (stat(in_path, &in) != 0 || stat(out_path, &out) != 0) return KG_OK; /* opening says what is wrong */
    if (in.st_dev != out.st_dev || in.st_ino != out.st_ino) return KG_OK;
    return kg_fail(err, KG_ERR_USAGE, "%s is the file to quantise", out_path);
}

/* Keys of counts that a rule may ask for; absent, or a list with a number a layer: 0. */
static enum kg_status read_count(const struct quantizing *q, const char *suffix, bool required, uint32_t *count,
                                 struct kg_error *err) {
    char *key = kg_xasprintf("%s.%s", q->architecture->name, suffix);
    const struct kg_gguf_key *found = kg_gguf_find_key(q->in, key);
    const bool read = required || (found && found->type != KG_GGUF_ARRAY);
    *count = 0;
    const enum kg_status status = read ? kg_gguf_get_u32(q->in, key, count, err) : KG_OK;
    free(key);
    return status;
}

static enum kg_status read_model(struct quantizing *q, struct kg_error *err) {
    struct kg_str name;
    uint32_t n_files = 0;
    enum kg_status status = kg_gguf_get_str(q->in, "general.architecture", &name, err);
    if (status != KG_OK) return status;
    char *text = kg_xstrndup(name.data, name.len);
    q->architecture = strlen(text) == name.len ? kg_architecture_find(text) : NULL;
    free(text);
    if (!q->architecture)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "%s: architecture '%s' is not supported", kg_gguf_path(q->in),
                       kg_quote(name.data, name.len).text);
    if (kg_gguf_find_key(q->in, "split.count")) status = kg_gguf_get_u32(q->in, "split.count", &n_files, err);
    if (status == KG_OK && n_files > 1)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "%s is one of %" PRIu32 " files of a model; kigo reads models of one",
                       kg_gguf_path(q->in), n_files);
    q->model.architecture = q->architecture->name;
    q->model.tied = !kg_gguf_find_tensor(q->in, "output.weight");
    if (status == KG_OK) status = read_count(q, "block_count", true, &q->model.n_layers, err);
    if (status == KG_OK) status = read_count(q, "attention.head_count", false, &q->model.n_heads, err);
    if (status == KG_OK) status = read_count(q, "attention.head_count_kv", false, &q->model.n_kv_heads, err);
    if (status == KG_OK) status = read_count(q, "expert_count", false, &q->model.n_experts, err);
    if (q->model.n_kv_heads == 0) q->model.n_kv_heads = q->model.n_heads;
    return status;
}

static enum kg_status plan_tensor(const struct quantizing *q, const struct kg_gguf_tensor *from,
                                  struct kg_written_tensor *to, struct kg_error *err) {
    const struct kg_file_type_tensor tensor = { to->name, from->n_dims, from->dims };
    if (from->name.len >= sizeof to->name || memchr(from->name.data, 0, from->name.len))
        return kg_fail(err, KG_ERR_UNSUPPORTED,
                       "tensor '%s': a name of %zu bytes, or with a zero in it, is not written",
                       kg_quote(from->name.data, from->name.len).text, from->name.len);
    memcpy(to->name, from->name.data, from->name.len);
    to->from = to->dtype = to->by_rules = from->dtype;
    to->n_elems = from->n_elems;
    if (!kg_file_type_applies(&tensor)) return KG_OK;
    to->dtype = kg_file_type_dtype(q->options->type, &q->model, &tensor, &to->by_rules);
    if (to->dtype == from->dtype || kg_dtype_info(from->dtype)->block_elems == 1 || q->options->requantize)
        return KG_OK;
    return kg_fail(
        err, KG_ERR_USAGE,
        "tensor '%s' is %s already: rounded again to %s it would lose more than the weights that it was made "
        "of; --allow-requantize does it",
        to->name, kg_dtype_info(from->dtype)->name, kg_dtype_info(to->dtype)->name);
}

static enum kg_status plan_tensors(struct quantizing *q, struct kg_error *err) {
    const size_t n = kg_gguf_n_tensors(q->in);
    enum kg_status status = KG_OK;
    q->tensors = kg_xcalloc(n + 1, sizeof *q->tensors);
    for (size_t i = 0; i < n && status == KG_OK; i++)
        status = plan_tensor(q, kg_gguf_tensor_at(q->in, i), &q->tensors[i], err);
    return status == KG_OK ? KG_OK : kg_error_context(err, status, "%s", kg_gguf_path(q->in));
}

/* The keys that llama.cpp's quantiser replaces or leaves out. */
static void put_keys(const struct quantizing *q, struct kg_gguf_writer *w) {
    static const char *const LEFT_OUT[] = { "general.file_type", "general.quantization_version", "split.no",
                                            "split.count", "split.tensors.count" };
    for (size_t i = 0; i < kg_gguf_n_keys(q->in); i++) {
        const struct kg_gguf_key *key = kg_gguf_key_at(q->in, i);
        bool left_out = false;
        for (size_t k = 0; k < KG_COUNT_OF(LEFT_OUT); k++) left_out = left_out || kg_str_eq(key->name, LEFT_OUT[k]);
        if (!left_out) kg_gguf_writer_copy_key(w, key);
    }
    kg_gguf_writer_u32(w, "general.file_type", q->options->type->id);
    kg_gguf_writer_u32(w, "general.quantization_version", QUANTIZATION_VERSION);
}

/* A kg_rounding_read_fn; chunks are whole blocks of every format. */
static void read_elements(const void *source, uint64_t at, size_t n, float *values) {
    const struct kg_gguf_tensor *t = source;
    const struct kg_dtype_info *info = kg_dtype_info(t->dtype);
    info->decode((const uint8_t *)t->data + at / info->block_elems * info->block_bytes, values, n);
}

static enum kg_status fail_value(const struct tensor_making *m, uint64_t at, struct kg_error *err) {
    const struct kg_gguf_tensor *t = m->from;
    const struct kg_dtype_info *info = kg_dtype_info(t->dtype);
    const uint64_t first = at / info->block_elems * info->block_elems;
    float *values = kg_xcalloc(info->block_elems, sizeof *values);
    read_elements(t, first, info->block_elems, values);
    const double value = (double)values[at - first];
    free(values);
    return kg_fail(err, KG_ERR_NUMERIC, "element %" PRIu64 " of row %" PRIu64 " is %g, which %s cannot hold",
                   at % t->dims[0], at / t->dims[0], value, kg_dtype_info(m->to->dtype)->name);
}

/* The source's pages that the piece was made of are not needed again: they need not stay in this process. */
static void release_source(const struct tensor_making *m, uint64_t first_elem, uint64_t n_elems) {
    const struct kg_dtype_info *info = kg_dtype_info(m->from->dtype);
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), data = (uintptr_t)m->from->data;
    const uintptr_t begin = (data + first_elem / info->block_elems * info->block_bytes + page - 1) / page * page;
    const uintptr_t end = (data + (first_elem + n_elems) / info->block_elems * info->block_bytes) / page * page;
    if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

static enum kg_status make_piece(void *arg, uint64_t offset_bytes, void *to, size_t n_bytes, struct kg_error *err) {
    const struct tensor_making *m = arg;
    const struct kg_quantize_options *o = m->q->options;
    if (o->cancelled && o->cancelled(o->user)) return kg_fail(err, KG_ERR_CANCELLED, "cancelled");
    const uint64_t bad =
        kg_rounding_fill(m->to->dtype, read_elements, m->from, m->q->pool, offset_bytes, to, n_bytes, &m->to->rounding);
    if (bad != UINT64_MAX) return fail_value(m, bad, err);
    const struct kg_dtype_info *info = kg_dtype_info(m->to->dtype);
    release_source(m, offset_bytes / info->block_bytes * info->block_elems,
                   n_bytes / info->block_bytes * info->block_elems);
    return KG_OK;
}

static enum kg_status write_file(const struct quantizing *q, const char *out_path, struct kg_error *err) {
    const size_t n = kg_gguf_n_tensors(q->in);
    struct tensor_making *making = kg_xcalloc(n + 1, sizeof *making);
    struct kg_gguf_writer *w = kg_gguf_writer_new(ALIGNMENT);
    enum kg_status status = KG_OK;
    put_keys(q, w);
    for (size_t i = 0; i < n && status == KG_OK; i++) {
        const struct kg_gguf_tensor *from = kg_gguf_tensor_at(q->in, i);
        struct kg_written_tensor *to = &q->tensors[i];
        making[i] = (struct tensor_making){ q, from, to };
        status = to->dtype == from->dtype
                     ? kg_gguf_writer_tensor(w, to->name, to->dtype, from->n_dims, from->dims, from->data, err)
                     : kg_gguf_writer_tensor_made(w, to->name, to->dtype, from->n_dims, from->dims, make_piece,
                                                  &making[i], err);
    }
    kg_gguf_writer_on_progress(w, q->options->on_progress, q->options->user);
    if (status == KG_OK) status = kg_gguf_writer_finish(w, out_path, err);
    kg_gguf_writer_free(w);
    free(making);
    return status;
}

static void summarise(struct quantizing *q, struct kg_quantize_summary *summary) {
    struct kg_quantize_summary s = { .architecture = q->architecture->name,
                                     .n_layers = q->model.n_layers,
                                     .tensors = q->tensors,
                                     .n_tensors = kg_gguf_n_tensors(q->in) };
    for (size_t i = 0; i < s.n_tensors; i++) {
        const struct kg_written_tensor *t = &q->tensors[i];
        const struct kg_dtype_info *info = kg_dtype_info(t->dtype);
        s.n_params += t->n_elems;
        s.n_bytes_before += kg_gguf_tensor_at(q->in, i)->size_bytes;
        s.n_bytes += t->n_elems / info->block_elems * info->block_bytes;
    }
    q->tensors = NULL;
    *summary = s;
}

enum kg_status kg_quantize_file(const char *in_path, const char *out_path, const struct kg_quantize_options *options,
                                struct kg_quantize_summary *summary, struct kg_error *err) {
    struct quantizing q = { .options = options };
    enum kg_status status = check_paths(in_path, out_path, err);
    if (status == KG_OK) status = kg_gguf_open(in_path, &q.in, err);
    if (status == KG_OK) status = read_model(&q, err);
    if (status == KG_OK) status = plan_tensors(&q, err);
    if (status == KG_OK) status = kg_thread_pool_create(options->n_threads, &q.pool, err);
    if (status == KG_OK) status = write_file(&q, out_path, err);
    if (status == KG_OK) summarise(&q, summary);
    if (q.pool) kg_thread_pool_destroy(q.pool);
    free(q.tensors);
    if (q.in) kg_gguf_close(q.in);
    return status;
}

void kg_quantize_summary_free(struct kg_quantize_summary *summary) {
    free(summary->tensors);
    *summary = (struct kg_quantize_summary){ 0 };
}
