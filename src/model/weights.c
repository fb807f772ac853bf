#include "model/weights.h"
#include "base/buffer.h"
#include "base/size.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lengths of a tensor's sides by meaning. */
enum side { ONE, VOCAB, EMBD, HEADS, KV_HEADS, FF, HALF_ROT, N_SIDES };

/* A tensor a model has: its name, shape, whether it must be there and where it goes. */
struct rule {
    const char *name;
    enum side rows; /* ONE: a vector of `cols` */
    enum side cols;
    enum kg_presence presence;
    size_t place; /* offset of the struct kg_weight or const float * in the weights */
};

#define MATRIX(type, field, name, rows, cols, presence)                                                                \
    { name, rows, cols, presence, offsetof(type, field) }
#define VECTOR(type, field, name, cols, presence)                                                                      \
    { name, ONE, cols, presence, offsetof(type, field) }

static const struct rule MODEL_RULES[] = {
    MATRIX(struct kg_model_weights, embedding, "token_embd.weight", VOCAB, EMBD, KG_REQUIRED),
    VECTOR(struct kg_model_weights, output_norm, "output_norm.weight", EMBD, KG_REQUIRED),
    MATRIX(struct kg_model_weights, output, "output.weight", VOCAB, EMBD, KG_OPTIONAL),
    VECTOR(struct kg_model_weights, rope_factors, "rope_freqs.weight", HALF_ROT, KG_OPTIONAL),
};

enum { QKV_BIAS = 1, OTHER_BIAS = 2 }; /* stand for a presence that the architecture decides */
struct layer_rule {
    struct rule rule;
    int bias;
};
#define LAYER_MATRIX(field, name, rows, cols)                                                                          \
    { MATRIX(struct kg_layer_weights, field, name, rows, cols, KG_REQUIRED), 0 }
#define LAYER_NORM(field, name)                                                                                        \
    { VECTOR(struct kg_layer_weights, field, name, EMBD, KG_REQUIRED), 0 }
#define LAYER_BIAS(field, name, cols, bias)                                                                            \
    { VECTOR(struct kg_layer_weights, field, name, cols, KG_OPTIONAL), bias }

static const struct layer_rule LAYER_RULES[] = {
    LAYER_NORM(attn_norm, "attn_norm.weight"),
    LAYER_MATRIX(q, "attn_q.weight", HEADS, EMBD),
    LAYER_BIAS(q_bias, "attn_q.bias", HEADS, QKV_BIAS),
    LAYER_MATRIX(k, "attn_k.weight", KV_HEADS, EMBD),
    LAYER_BIAS(k_bias, "attn_k.bias", KV_HEADS, QKV_BIAS),
    LAYER_MATRIX(v, "attn_v.weight", KV_HEADS, EMBD),
    LAYER_BIAS(v_bias, "attn_v.bias", KV_HEADS, QKV_BIAS),
    LAYER_MATRIX(attn_out, "attn_output.weight", EMBD, HEADS),
    LAYER_BIAS(attn_out_bias, "attn_output.bias", EMBD, OTHER_BIAS),
    LAYER_NORM(ffn_norm, "ffn_norm.weight"),
    LAYER_MATRIX(gate, "ffn_gate.weight", FF, EMBD),
    LAYER_BIAS(gate_bias, "ffn_gate.bias", FF, OTHER_BIAS),
    LAYER_MATRIX(up, "ffn_up.weight", FF, EMBD),
    LAYER_BIAS(up_bias, "ffn_up.bias", FF, OTHER_BIAS),
    LAYER_MATRIX(down, "ffn_down.weight", EMBD, FF),
    LAYER_BIAS(down_bias, "ffn_down.bias", EMBD, OTHER_BIAS),
};

struct loader {
    const struct kg_gguf *gguf;
    const struct kg_model_config *config;
    struct kg_backend *backend;
    const struct kg_model_options *options;
    struct kg_model_weights *weights;
    bool *consumed; /* by index of the file's tensors */
    uint32_t side[N_SIDES];
    uint64_t done_bytes, total_bytes;
    struct kg_error *err;
};

static void progress(struct loader *in, uint64_t bytes) {
    in->done_bytes += bytes;
    if (in->options && in->options->on_progress)
        in->options->on_progress(in->options->user, in->done_bytes, in->total_bytes);
}

/* Weights used in place are read once, so that loading takes the time of reading and the first token does not. */
static void read_in(struct loader *in, const struct kg_gguf_tensor *tensor) {
    enum { PAGE_BYTES = 4096, STEP_BYTES = 8 << 20 };
    const volatile char *data = tensor->data;
    for (uint64_t at = 0; at < tensor->size_bytes; at += STEP_BYTES) {
        const uint64_t left = tensor->size_bytes - at, step = left < STEP_BYTES ? left : STEP_BYTES;
        for (uint64_t i = 0; i < step; i += PAGE_BYTES) (void)data[at + i];
        progress(in, step);
    }
}

static enum kg_status check_shape(struct loader *in, const struct kg_gguf_tensor *t, const char *name, uint32_t rows,
                                  uint32_t cols) {
    if (t->dims[0] == cols && t->dims[1] == rows && t->dims[2] == 1 && t->dims[3] == 1) return KG_OK;
    return kg_fail(in->err, KG_ERR_FORMAT,
                   "%s: tensor %s is %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                   " (fastest first), the configuration needs %u x %u",
                   kg_gguf_path(in->gguf), name, t->dims[0], t->dims[1], t->dims[2], t->dims[3], cols, rows);
}

static enum kg_status take_matrix(struct loader *in, const struct kg_gguf_tensor *t, const char *name,
                                  struct kg_weight *out) {
    const struct kg_backend_ops *ops = in->backend->ops;
    struct kg_block *block = &in->weights->blocks[in->weights->n_blocks];
    const enum kg_status status = ops->import_weights(in->backend, t->data, t->size_bytes, name, block, in->err);
    if (status) return status;
    in->weights->n_blocks++;
    in->weights->size_bytes += block->size_bytes;
    *out = (struct kg_weight){
        .data = block->data, .dtype = t->dtype, .n_rows = (uint32_t)t->dims[1], .n_cols = (uint32_t)t->dims[0]
    };
    const char *dtype_name = kg_dtype_info(t->dtype)->name;
    if (!in->weights->dtype_name) in->weights->dtype_name = dtype_name;
    if (strcmp(in->weights->dtype_name, dtype_name) != 0) in->weights->dtype_name = "mixed";
    if (ops->weights_in_place) read_in(in, t);
    else progress(in, t->size_bytes);
    return KG_OK;
}

static enum kg_status take_vector(struct loader *in, const struct kg_gguf_tensor *t, const char *name,
                                  const float **out) {
    const struct kg_backend_ops *ops = in->backend->ops;
    if (t->dtype != KG_DTYPE_F32 && t->dtype != KG_DTYPE_F16 && t->dtype != KG_DTYPE_BF16)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: tensor %s is %s; norms and biases are F32, F16 or BF16",
                       kg_gguf_path(in->gguf), name, kg_dtype_info(t->dtype)->name);
    struct kg_block *block = &in->weights->blocks[in->weights->n_blocks];
    const uint64_t size_bytes = t->n_elems * sizeof(float);
    enum kg_status status = ops->alloc(in->backend, KG_MEMORY_WEIGHTS, size_bytes, name, block, in->err);
    if (status) return status;
    in->weights->n_blocks++;
    in->weights->size_bytes += block->size_bytes;
    float *values = kg_xmalloc(size_bytes);
    kg_dtype_info(t->dtype)->decode(t->data, values, t->n_elems);
    status = ops->upload(in->backend, block->data, values, size_bytes, in->err);
    free(values);
    *out = block->data;
    progress(in, t->size_bytes);
    return status;
}

/* Puts the tensor of the rule, whose full name is given, at base + rule->place. */
static enum kg_status take(struct loader *in, const struct rule *rule, const char *name, enum kg_presence presence,
                           void *base) {
    const struct kg_gguf_tensor *t = kg_gguf_find_tensor(in->gguf, name);
    if (!t && presence == KG_REQUIRED)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: tensor %s is missing", kg_gguf_path(in->gguf), name);
    if (!t || presence == KG_ABSENT) return KG_OK;
    in->consumed[t - kg_gguf_tensor_at(in->gguf, 0)] = true;
    const enum kg_status status = check_shape(in, t, name, in->side[rule->rows], in->side[rule->cols]);
    if (status) return status;
    void *place = (char *)base + rule->place;
    return rule->rows == ONE ? take_vector(in, t, name, place) : take_matrix(in, t, name, place);
}

/* What the first layer has of optional tensors, every layer has. */
static enum kg_presence layer_presence(struct loader *in, const struct layer_rule *row) {
    const struct kg_architecture *arch = kg_architecture_find(in->config->architecture);
    if (!row->bias) return row->rule.presence;
    const enum kg_presence presence = row->bias == QKV_BIAS ? arch->qkv_bias : arch->other_bias;
    char name[96];
    snprintf(name, sizeof name, "blk.0.%s", row->rule.name);
    if (presence != KG_OPTIONAL) return presence;
    return kg_gguf_find_tensor(in->gguf, name) ? KG_REQUIRED : KG_ABSENT;
}

static enum kg_status take_all(struct loader *in) {
    for (size_t i = 0; i < KG_COUNT_OF(MODEL_RULES); i++) {
        const struct rule *rule = &MODEL_RULES[i];
        const enum kg_status status = take(in, rule, rule->name, rule->presence, in->weights);
        if (status) return status;
    }
    for (size_t i = 0; i < KG_COUNT_OF(LAYER_RULES); i++) {
        const struct rule *rule = &LAYER_RULES[i].rule;
        const enum kg_presence presence = layer_presence(in, &LAYER_RULES[i]);
        for (uint32_t layer = 0; layer < in->config->n_layers; layer++) {
            char name[96];
            snprintf(name, sizeof name, "blk.%u.%s", layer, rule->name);
            const enum kg_status status = take(in, rule, name, presence, &in->weights->layers[layer]);
            if (status) return status;
        }
    }
    for (size_t i = 0; i < kg_gguf_n_tensors(in->gguf); i++) {
        const struct kg_str name = kg_gguf_tensor_at(in->gguf, i)->name;
        if (!in->consumed[i])
            return kg_fail(in->err, KG_ERR_FORMAT, "%s: tensor %s is not one that %s uses", kg_gguf_path(in->gguf),
                           kg_quote(name.data, name.len).text, in->config->architecture);
    }
    return KG_OK;
}

enum kg_status kg_weights_load(const struct kg_gguf *gguf, const struct kg_model_config *config,
                               struct kg_backend *backend, const struct kg_model_options *options,
                               struct kg_model_weights *weights, struct kg_error *err) {
    const size_t n_tensors = kg_gguf_n_tensors(gguf);
    *weights = (struct kg_model_weights){ 0 };
    if (config->n_layers > n_tensors)
        return kg_fail(err, KG_ERR_FORMAT, "%s: %s.block_count is %u, but there are only %zu tensors",
                       kg_gguf_path(gguf), config->architecture, config->n_layers, n_tensors);
    struct loader in = {
        .gguf = gguf,
        .config = config,
        .backend = backend,
        .options = options,
        .weights = weights,
        .consumed = kg_xcalloc(n_tensors, sizeof(bool)),
        .side = { [ONE] = 1,
                  [VOCAB] = config->n_vocab,
                  [EMBD] = config->n_embd,
                  [HEADS] = config->n_heads * config->head_dim,
                  [KV_HEADS] = config->n_kv_heads * config->head_dim,
                  [FF] = config->n_ff,
                  [HALF_ROT] = config->n_rot / 2 },
        .err = err,
    };
    for (size_t i = 0; i < n_tensors; i++) {
        in.total_bytes += kg_gguf_tensor_at(gguf, i)->size_bytes;
        weights->n_params += kg_gguf_tensor_at(gguf, i)->n_elems;
    }
    weights->layers = kg_xcalloc(config->n_layers, sizeof *weights->layers);
    weights->blocks = kg_xcalloc(n_tensors, sizeof *weights->blocks);
    enum kg_status status = take_all(&in);
    if (!status && config->tied_output) weights->output = weights->embedding;
    if (!status) status = backend->ops->synchronize(backend, err);
    free(in.consumed);
    if (status) kg_weights_free(backend, weights);
    return status;
}

void kg_weights_free(struct kg_backend *backend, struct kg_model_weights *weights) {
    for (size_t i = 0; i < weights->n_blocks; i++) backend->ops->free(backend, &weights->blocks[i]);
    free(weights->blocks);
    free(weights->layers);
    *weights = (struct kg_model_weights){ 0 };
}
