#include "convert/model.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "base/utf8.h"
#include "convert/values.h"
#include "convert/vocab_source.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conversion {
    const char *hf_dir, *out_path;
    const struct kg_convert_options *options;
    struct kg_hf_folder folder;
    struct kg_hf_config config;
    struct kg_convert_plan plan;
    struct kg_vocab_source vocab;
    struct kg_thread_pool *pool;
    struct kg_vocab_summary vocab_summary;
    struct kg_written_tensor *written; /* one a tensor of the plan */
};

struct tensor_making {
    const struct conversion *c;
    const struct kg_convert_tensor *tensor;
    struct kg_written_tensor *written;
};

/* The folder's name, also for "." and "models/x/", as valid UTF-8. */
static char *name_of(const char *dir) {
    char *absolute = realpath(dir, NULL);
    const char *text = absolute ? absolute : dir, *slash = strrchr(text, '/');
    const char *last = slash && slash[1] ? slash + 1 : text;
    struct kg_buffer name = KG_BUFFER_INIT;
    kg_buffer_append(&name, "", 0); /* so that an empty one is allocated, too */
    kg_utf8_append(&name, last, strlen(last));
    free(absolute);
    return name.data;
}

static enum kg_status open_all(struct conversion *c, struct kg_error *err) {
    enum kg_status status = kg_hf_folder_open(c->hf_dir, &c->folder, err);
    if (status == KG_OK) status = kg_hf_check_out_path(&c->folder, c->out_path, err);
    if (status == KG_OK) status = kg_hf_config_read(c->hf_dir, c->folder.config, &c->config, err);
    if (status == KG_OK) status = kg_convert_plan_make(&c->folder, &c->config, c->options->type, &c->plan, err);
    if (status == KG_OK) status = kg_vocab_source_open(c->hf_dir, &c->vocab, err);
    if (status == KG_OK && c->vocab.n_tokens != c->config.n_vocab)
        status = kg_fail(err, KG_ERR_FORMAT, "%s: tokenizer.json has %zu tokens, but vocab_size of config.json is %u",
                         c->hf_dir, c->vocab.n_tokens, c->config.n_vocab);
    return status;
}

/* generation_config.json may list more tokens that end a text; GGUF has two places for them beside eos. */
static enum kg_status put_ends(const struct conversion *c, struct kg_gguf_writer *w, struct kg_error *err) {
    static const char *const KEYS[] = { "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    const json_t *ends = json_object_get(c->folder.generation_config, "eos_token_id");
    const size_t n = json_is_array(ends) ? json_array_size(ends) : !ends || json_is_null(ends) ? 0 : 1;
    size_t next = c->vocab_summary.eos_id >= 0 ? 1 : 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *end = json_is_array(ends) ? json_array_get(ends, i) : ends;
        const json_int_t id = json_is_integer(end) ? json_integer_value(end) : -1;
        if (id < 0 || (uint64_t)id >= c->vocab.n_tokens)
            return kg_fail(err, KG_ERR_FORMAT, "%s/generation_config.json: eos_token_id[%zu] is none of the %zu tokens",
                           c->hf_dir, i, c->vocab.n_tokens);
        if (id == c->vocab_summary.eos_id) continue;
        if (next == KG_COUNT_OF(KEYS))
            return kg_fail(
                err, KG_ERR_UNSUPPORTED,
                "%s/generation_config.json: eos_token_id has more ends of a text than a GGUF file can name (%zu)",
                c->hf_dir, KG_COUNT_OF(KEYS));
        kg_gguf_writer_u32(w, KEYS[next++], (uint32_t)id);
    }
    return KG_OK;
}

static enum kg_status put_keys(struct conversion *c, struct kg_gguf_writer *w, struct kg_error *err) {
    char *name = name_of(c->hf_dir);
    kg_convert_put_config(w, &c->config, &c->plan, c->options->type, name);
    free(name);
    const enum kg_status status = kg_convert_vocab_put(w, &c->vocab, &c->vocab_summary, err);
    return status == KG_OK ? put_ends(c, w, err) : status;
}

static enum kg_status make_piece(void *arg, uint64_t offset_bytes, void *to, size_t n_bytes, struct kg_error *err) {
    const struct tensor_making *m = arg;
    const struct kg_convert_options *o = m->c->options;
    if (o->cancelled && o->cancelled(o->user)) return kg_fail(err, KG_ERR_CANCELLED, "cancelled");
    return kg_convert_values_fill(m->tensor, m->c->config.head_dim, m->c->pool, offset_bytes, to, n_bytes,
                                  &m->written->rounding, err);
}

static void list_tensors(struct conversion *c) {
    c->written = kg_xcalloc(c->plan.n_tensors + 1, sizeof *c->written);
    for (size_t i = 0; i < c->plan.n_tensors; i++) {
        const struct kg_convert_tensor *t = &c->plan.tensors[i];
        struct kg_written_tensor *w = &c->written[i];
        memcpy(w->name, t->name, sizeof w->name);
        w->from = kg_convert_source_dtype(t);
        w->dtype = t->dtype;
        w->by_rules = t->by_rules;
        w->n_elems = t->experts * t->rows * t->cols;
    }
}

static enum kg_status write_model(struct conversion *c, struct kg_error *err) {
    struct kg_gguf_writer *w = kg_gguf_writer_new(32);
    struct tensor_making *making = kg_xcalloc(c->plan.n_tensors, sizeof *making);
    enum kg_status status = put_keys(c, w, err);
    list_tensors(c);
    if (status == KG_OK) status = kg_convert_vocab_check(w, c->out_path, err);
    for (size_t i = 0; i < c->plan.n_tensors && status == KG_OK; i++) {
        const struct kg_convert_tensor *t = &c->plan.tensors[i];
        making[i] = (struct tensor_making){ c, t, &c->written[i] };
        status = t->values ? kg_gguf_writer_tensor(w, t->name, t->dtype, t->n_dims, t->dims, t->values, err)
                           : kg_gguf_writer_tensor_made(w, t->name, t->dtype, t->n_dims, t->dims, make_piece,
                                                        &making[i], err);
    }
    kg_gguf_writer_on_progress(w, c->options->on_progress, c->options->user);
    if (status == KG_OK) status = kg_gguf_writer_finish(w, c->out_path, err);
    free(making);
    kg_gguf_writer_free(w);
    return status;
}

static void summarise(struct conversion *c, struct kg_convert_summary *summary) {
    *summary = (struct kg_convert_summary){ .architecture = c->config.architecture->gguf_name,
                                            .vocab = c->vocab_summary,
                                            .n_layers = c->config.n_layers,
                                            .tensors = c->written,
                                            .n_tensors = c->plan.n_tensors,
                                            .n_packed = c->plan.n_packed,
                                            .n_params = c->plan.n_params,
                                            .n_bytes = c->plan.n_bytes };
    c->written = NULL;
}

enum kg_status kg_convert_model(const char *hf_dir, const char *out_path, const struct kg_convert_options *options,
                                struct kg_convert_summary *summary, struct kg_error *err) {
    struct conversion c = { .hf_dir = hf_dir, .out_path = out_path, .options = options };
    enum kg_status status = open_all(&c, err);
    if (status == KG_OK) status = kg_thread_pool_create(options->n_threads, &c.pool, err);
    if (status == KG_OK) status = write_model(&c, err);
    if (status == KG_OK) summarise(&c, summary);
    if (c.pool) kg_thread_pool_destroy(c.pool);
    free(c.written);
    kg_vocab_source_close(&c.vocab);
    kg_convert_plan_free(&c.plan);
    kg_hf_config_free(&c.config);
    kg_hf_folder_close(&c.folder);
    return status;
}

void kg_convert_summary_free(struct kg_convert_summary *summary) {
    free(summary->tensors);
    *summary = (struct kg_convert_summary){ 0 };
}
