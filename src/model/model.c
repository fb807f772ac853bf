#include "base/buffer.h"
#include "model/weights.h"
#include <inttypes.h>
#include <kigo/tokenizer.h>
#include <pthread.h>
#include <stdlib.h>

struct kg_model {
    struct kg_backend *backend;
    struct kg_gguf *gguf; /* NULL once the file is closed, when nothing points into it */
    struct kg_model_config config;
    struct kg_model_weights weights;
    struct kg_tokenizer *tokenizer; /* NULL if kigo does not have the file's kind */
    struct kg_error no_tokenizer;   /* why */
};

/* A model computes without its tokenizer: an unsupported tokenizer does not fail loading, a malformed one does. */
static enum kg_status load_tokenizer(struct kg_model *model, struct kg_error *err) {
    const char *path = kg_gguf_path(model->gguf);
    const struct kg_gguf_key *tokens = kg_gguf_find_key(model->gguf, "tokenizer.ggml.tokens");
    if (!tokens || !kg_gguf_find_key(model->gguf, "tokenizer.ggml.model")) {
        kg_fail(&model->no_tokenizer, KG_ERR_UNSUPPORTED, "%s: the file has no tokenizer", path);
        return KG_OK;
    }
    if (tokens->type == KG_GGUF_ARRAY && tokens->value.array.n > model->config.n_vocab)
        return kg_fail(err, KG_ERR_FORMAT,
                       "%s: tokenizer.ggml.tokens has %" PRIu64 " tokens, token_embd.weight %u rows", path,
                       tokens->value.array.n, model->config.n_vocab);
    struct kg_error why;
    const enum kg_status status = kg_tokenizer_create(model->gguf, &model->tokenizer, &why);
    if (status == KG_OK) return KG_OK;
    model->tokenizer = NULL;
    if (status != KG_ERR_UNSUPPORTED) {
        if (err) *err = why;
        return status;
    }
    model->no_tokenizer = why;
    return KG_OK;
}

/* The tokenizer is made on a thread beside the weights: a vocabulary of 200,000 takes as long as a gigabyte of them.
 * Neither reads what the other writes. */
struct tokenizing {
    struct kg_model *model;
    pthread_t thread;
    enum kg_status status;
    struct kg_error err;
};

static void *tokenize(void *arg) {
    struct tokenizing *t = arg;
    t->status = load_tokenizer(t->model, &t->err);
    return NULL;
}

static enum kg_status load_weights(struct kg_model *model, const struct kg_model_options *options,
                                   struct kg_error *err) {
    struct tokenizing t = { .model = model };
    const bool on_thread = pthread_create(&t.thread, NULL, tokenize, &t) == 0;
    if (!on_thread) tokenize(&t);
    const enum kg_status status =
        kg_weights_load(model->gguf, &model->config, model->backend, options, &model->weights, err);
    if (on_thread) pthread_join(t.thread, NULL);
    if (t.status && err) *err = t.err;
    return t.status ? t.status : status;
}

enum kg_status kg_model_load(const char *path, struct kg_backend *backend, const struct kg_model_options *options,
                             struct kg_model **out, struct kg_error *err) {
    struct kg_model *model = kg_xcalloc(1, sizeof *model);
    model->backend = backend;
    enum kg_status status = kg_gguf_open(path, &model->gguf, err);
    if (status) goto cleanup;
    status = kg_config_read(model->gguf, &model->config, err);
    if (status) goto cleanup;
    if (options && options->yarn_ramp != KG_YARN_RAMP_PUBLISHED)
        model->config.yarn.rounded = options->yarn_ramp == KG_YARN_RAMP_ROUNDED;
    status = load_weights(model, options, err);
    if (status) goto cleanup;
    if (!backend->ops->weights_in_place) {
        kg_gguf_close(model->gguf);
        model->gguf = NULL;
    }
    *out = model;
    model = NULL;
cleanup:
    kg_model_free(model);
    return status;
}

void kg_model_free(struct kg_model *model) {
    if (!model) return;
    kg_weights_free(model->backend, &model->weights);
    kg_tokenizer_free(model->tokenizer);
    if (model->gguf) kg_gguf_close(model->gguf);
    free(model);
}

const struct kg_model_config *kg_model_config(const struct kg_model *model) {
    return &model->config;
}

const struct kg_tokenizer *kg_model_tokenizer(const struct kg_model *model) {
    return model->tokenizer;
}

enum kg_status kg_model_require_tokenizer(const struct kg_model *model, const struct kg_tokenizer **tokenizer,
                                          struct kg_error *err) {
    if (!model->tokenizer) return kg_fail(err, model->no_tokenizer.status, "%s", model->no_tokenizer.message);
    *tokenizer = model->tokenizer;
    return KG_OK;
}

uint64_t kg_model_weight_bytes(const struct kg_model *model) {
    return model->weights.size_bytes;
}

uint64_t kg_model_n_params(const struct kg_model *model) {
    return model->weights.n_params;
}

const struct kg_model_weights *kg_model_weights(const struct kg_model *model) {
    return &model->weights;
}

struct kg_backend *kg_model_backend(const struct kg_model *model) {
    return model->backend;
}
