#include "model/weights.h"
#include "model/repack.h"
#include "model/reserve.h"
#include "base/buffer.h"
#include "base/size.h"
#include "base/utf8.h"
#include "model/yarn.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The meaning of a tensor's dimension, which gives its length. */
enum side { NONE, VOCAB, CONTEXT, EMBD, HEADS, HEAD_DIM, Q, KV, QKV, FF, GATE_AND_UP, EXPERTS, HALF_ROT, N_SIDES };

enum { MAX_SIDES = 3, MAX_PARTS = 3 };

/* A tensor of some architectures: its name, its shape, and its destination. */
struct rule {
    const char *name;
    bool is_vector;              /* float32 in memory */
    enum side sides[MAX_SIDES];  /* fastest first, as in the file */
    unsigned required, optional; /* architectures */
    struct part {
        size_t place;   /* offset of the struct kg_weight or const float * in the weights */
        enum side rows; /* of a tensor with several parts, one after the other; of a vector elements */
    } parts[MAX_PARTS];
};

enum {
    ALL = KG_ARCH_ALL,
    QWEN2 = KG_ARCH_QWEN2,
    LLAMA = KG_ARCH_LLAMA,
    PHI3 = KG_ARCH_PHI3,
    OSS = KG_ARCH_GPT_OSS,
    GPT2 = KG_ARCH_GPT2,
    QWEN3 = KG_ARCH_QWEN3,
    GEMMA3 = KG_ARCH_GEMMA3,
    NOT_GPT2 = ALL & ~GPT2,
    MAY_HAVE_BIASES = LLAMA | QWEN3 | GEMMA3, /* of attention */
    GATED = QWEN2 | LLAMA | QWEN3 | GEMMA3    /* gate and up apart */
};

/* q, k and v of a layer are one tensor or three; gpt2 always has one. All layers are like the first. */
enum qkv_form { EITHER_FORM, FUSED, APART };

#define WHOLE(type, field)                                                                                             \
    {                                                                                                                  \
        { .place = offsetof(type, field) }                                                                             \
    }
#define MODEL(field) WHOLE(struct kg_model_weights, field)
#define LAYER(field) WHOLE(struct kg_layer_weights, field)
#define PART(field, rows)                                                                                              \
    { offsetof(struct kg_layer_weights, field), rows }

static const struct rule MODEL_RULES[] = {
    { "token_embd.weight", false, { EMBD, VOCAB }, ALL, 0, MODEL(embedding) },
    { "position_embd.weight", false, { EMBD, CONTEXT }, GPT2, 0, MODEL(positions) },
    { "output_norm.weight", true, { EMBD }, ALL, 0, MODEL(output_norm) },
    { "output_norm.bias", true, { EMBD }, GPT2, 0, MODEL(output_norm_bias) },
    { "output.weight", false, { EMBD, VOCAB }, OSS, ALL, MODEL(output) },
    { "rope_freqs.weight", true, { HALF_ROT }, 0, QWEN2 | LLAMA, MODEL(rope_factors) },
    { "rope_factors_short.weight", true, { HALF_ROT }, 0, PHI3, MODEL(rope_factors) },
    { "rope_factors_long.weight", true, { HALF_ROT }, 0, PHI3, MODEL(rope_factors_long) },
};

static const struct rule LAYER_RULES[] = {
    { "attn_norm.weight", true, { EMBD }, ALL, 0, LAYER(attn_norm) },
    { "attn_norm.bias", true, { EMBD }, GPT2, 0, LAYER(attn_norm_bias) },
    { "attn_qkv.weight", false, { EMBD, QKV }, ALL, 0, { PART(q, Q), PART(k, KV), PART(v, KV) } },
    { "attn_qkv.bias",
      true,
      { QKV },
      QWEN2 | OSS | GPT2,
      MAY_HAVE_BIASES,
      { PART(q_bias, Q), PART(k_bias, KV), PART(v_bias, KV) } },
    { "attn_q.weight", false, { EMBD, Q }, NOT_GPT2, 0, LAYER(q) },
    { "attn_q.bias", true, { Q }, QWEN2 | OSS, MAY_HAVE_BIASES, LAYER(q_bias) },
    { "attn_k.weight", false, { EMBD, KV }, NOT_GPT2, 0, LAYER(k) },
    { "attn_k.bias", true, { KV }, QWEN2 | OSS, MAY_HAVE_BIASES, LAYER(k_bias) },
    { "attn_v.weight", false, { EMBD, KV }, NOT_GPT2, 0, LAYER(v) },
    { "attn_v.bias", true, { KV }, QWEN2 | OSS, MAY_HAVE_BIASES, LAYER(v_bias) },
    { "attn_q_norm.weight", true, { HEAD_DIM }, QWEN3 | GEMMA3, 0, LAYER(q_norm) },
    { "attn_k_norm.weight", true, { HEAD_DIM }, QWEN3 | GEMMA3, 0, LAYER(k_norm) },
    { "attn_output.weight", false, { Q, EMBD }, ALL, 0, LAYER(attn_out) },
    { "attn_output.bias", true, { EMBD }, OSS | GPT2, MAY_HAVE_BIASES, LAYER(attn_out_bias) },
    { "attn_sinks.weight", true, { HEADS }, OSS, 0, LAYER(sinks) },
    { "ffn_norm.weight", true, { EMBD }, ALL & ~OSS, 0, LAYER(ffn_norm) },
    { "ffn_norm.bias", true, { EMBD }, GPT2, 0, LAYER(ffn_norm_bias) },
    { "post_attention_norm.weight", true, { EMBD }, OSS, 0, LAYER(ffn_norm) },
    { "post_attention_norm.weight", true, { EMBD }, GEMMA3, 0, LAYER(attn_post_norm) },
    { "ffn_gate_inp.weight", false, { EMBD, EXPERTS }, OSS, 0, LAYER(router) },
    { "ffn_gate_inp.bias", true, { EXPERTS }, OSS, 0, LAYER(router_bias) },
    { "ffn_gate.weight", false, { EMBD, FF }, GATED, 0, LAYER(gate) },
    { "ffn_gate.bias", true, { FF }, 0, LLAMA, LAYER(gate_bias) },
    { "ffn_up.weight", false, { EMBD, FF }, GATED | GPT2, 0, LAYER(up) },
    { "ffn_up.weight", false, { EMBD, GATE_AND_UP }, PHI3, 0, { PART(gate, FF), PART(up, FF) } },
    { "ffn_up.bias", true, { FF }, GPT2, LLAMA, LAYER(up_bias) },
    { "ffn_down.weight", false, { FF, EMBD }, ALL & ~OSS, 0, LAYER(down) },
    { "ffn_down.bias", true, { EMBD }, GPT2, LLAMA, LAYER(down_bias) },
    { "post_ffw_norm.weight", true, { EMBD }, GEMMA3, 0, LAYER(ffn_post_norm) },
    { "ffn_gate_exps.weight", false, { EMBD, FF, EXPERTS }, OSS, 0, LAYER(gate) },
    { "ffn_gate_exps.bias", true, { FF, EXPERTS }, OSS, 0, LAYER(gate_bias) },
    { "ffn_up_exps.weight", false, { EMBD, FF, EXPERTS }, OSS, 0, LAYER(up) },
    { "ffn_up_exps.bias", true, { FF, EXPERTS }, OSS, 0, LAYER(up_bias) },
    { "ffn_down_exps.weight", false, { FF, EMBD, EXPERTS }, OSS, 0, LAYER(down) },
    { "ffn_down_exps.bias", true, { EMBD, EXPERTS }, OSS, 0, LAYER(down_bias) },
};

enum presence { ABSENT, OPTIONAL, REQUIRED };

struct loader {
    const struct kg_gguf *gguf;
    const struct kg_model_config *config;
    struct kg_backend *backend;
    const struct kg_model_options *options;
    struct kg_model_weights *weights;
    bool *consumed;        /* by index of the file's tensors */
    unsigned architecture; /* its bit */
    enum qkv_form qkv_form;
    uint64_t side[N_SIDES];
    uint64_t done_bytes, total_bytes;
    struct kg_repacking repacking;
    struct kg_error *err;
};

static void progress(struct loader *in, uint64_t bytes) {
    in->done_bytes += bytes;
    if (in->options && in->options->on_progress)
        in->options->on_progress(in->options->user, in->done_bytes, in->total_bytes);
}

/* Reads weights that are used in place once, so that the time to page them in counts as loading, not as the first
 * token. */
static void read_in(struct loader *in, const struct kg_gguf_tensor *tensor) {
    enum { PAGE_BYTES = 4096, STEP_BYTES = 8 << 20 };
    const volatile char *data = tensor->data;
    for (uint64_t at = 0; at < tensor->size_bytes; at += STEP_BYTES) {
        const uint64_t left = tensor->size_bytes - at, step = left < STEP_BYTES ? left : STEP_BYTES;
        for (uint64_t i = 0; i < step; i += PAGE_BYTES) (void)data[at + i];
        progress(in, step);
    }
}

static enum kg_status check_shape(struct loader *in, const struct kg_gguf_tensor *t, const struct rule *rule,
                                  const char *name) {
    char needed[80];
    size_t len = 0;
    bool same = true;
    for (size_t i = 0; i < KG_GGUF_MAX_DIMS; i++) {
        const uint64_t side = i < MAX_SIDES && rule->sides[i] != NONE ? in->side[rule->sides[i]] : 1;
        same = same && t->dims[i] == side;
        if (i < 2 || side > 1)
            len += (size_t)snprintf(needed + len, sizeof needed - len, "%s%" PRIu64, i ? " x " : "", side);
    }
    if (same) return KG_OK;
    return kg_fail(in->err, KG_ERR_FORMAT,
                   "%s: tensor %s is %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                   " (fastest first), the configuration needs %s",
                   kg_gguf_path(in->gguf), name, t->dims[0], t->dims[1], t->dims[2], t->dims[3], needed);
}

/* The block that the next tensor goes to. */
static struct kg_block *next_block(struct loader *in) {
    return &in->weights->blocks[in->weights->n_blocks];
}

static void count_block(struct loader *in) {
    in->weights->size_bytes += next_block(in)->size_bytes;
    in->weights->n_blocks++;
}

static enum kg_status take_matrix(struct loader *in, const struct kg_gguf_tensor *t, const char *name,
                                  struct kg_weight *out) {
    const struct kg_backend_ops *ops = in->backend->ops;
    struct kg_block *block = next_block(in);
    const uint64_t n_rows = t->n_elems / t->dims[0];
    if (n_rows > UINT32_MAX)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: tensor %s has %" PRIu64 " rows", kg_gguf_path(in->gguf), name,
                       n_rows);
    const enum kg_status status = ops->import_weights(in->backend, t->data, t->size_bytes, name, block, in->err);
    if (status) return status;
    count_block(in);
    *out = (struct kg_weight){
        .data = block->data, .dtype = t->dtype, .n_rows = (uint32_t)n_rows, .n_cols = (uint32_t)t->dims[0]
    };
    const char *dtype_name = kg_dtype_info(t->dtype)->name;
    if (!in->weights->dtype_name) in->weights->dtype_name = dtype_name;
    if (strcmp(in->weights->dtype_name, dtype_name) != 0) in->weights->dtype_name = "mixed";
    if (ops->weights_in_place) read_in(in, t);
    else progress(in, t->size_bytes);
    return KG_OK;
}

/* Uploads a host array of floats as one more block. */
static enum kg_status put_vector(struct loader *in, const float *values, uint64_t n, const char *name,
                                 const float **out) {
    const struct kg_backend_ops *ops = in->backend->ops;
    struct kg_block *block = next_block(in);
    enum kg_status status = ops->alloc(in->backend, KG_MEMORY_WEIGHTS, n * sizeof *values, name, block, in->err);
    if (status) return status;
    count_block(in);
    *out = block->data;
    return ops->upload(in->backend, block->data, values, n * sizeof *values, in->err);
}

static enum kg_status take_vector(struct loader *in, const struct kg_gguf_tensor *t, const char *name,
                                  const float **out) {
    if (t->dtype != KG_DTYPE_F32 && t->dtype != KG_DTYPE_F16 && t->dtype != KG_DTYPE_BF16)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: tensor %s is %s; norms and biases are F32, F16 or BF16",
                       kg_gguf_path(in->gguf), name, kg_dtype_info(t->dtype)->name);
    float *values = kg_xmalloc(t->n_elems * sizeof *values);
    kg_dtype_info(t->dtype)->decode(t->data, values, t->n_elems);
    const enum kg_status status = put_vector(in, values, t->n_elems, name, out);
    free(values);
    progress(in, t->size_bytes);
    return status;
}

/* Places the parts of a matrix, or of n_matrices stacked ones: ranges of its rows. The back end may repack them, except
 * positions, of which an operation reads whole rows. */
static void place_rows(struct loader *in, const struct rule *rule, const struct kg_weight *whole, uint32_t n_matrices,
                       char *base) {
    uint64_t row = 0;
    for (size_t i = 0; i < MAX_PARTS && (i == 0 || rule->parts[i].rows != NONE); i++) {
        struct kg_weight *part = (struct kg_weight *)(void *)(base + rule->parts[i].place);
        *part = *whole;
        if (rule->parts[i].rows != NONE) part->n_rows = (uint32_t)in->side[rule->parts[i].rows];
        part->data = (const char *)whole->data + row * kg_weight_row_bytes(whole);
        row += part->n_rows;
        if (rule->sides[1] != CONTEXT) kg_repack_later(&in->repacking, part, n_matrices);
    }
}

/* The parts of a vector. */
static void place_elems(const struct loader *in, const struct rule *rule, const float *whole, char *base) {
    for (size_t i = 0; i < MAX_PARTS && (i == 0 || rule->parts[i].rows != NONE); i++) {
        memcpy(base + rule->parts[i].place, &whole, sizeof whole);
        whole += in->side[rule->parts[i].rows];
    }
}

/* Loads the rule's tensor, given its full name, and stores its parts in the struct at base. */
static enum kg_status take(struct loader *in, const struct rule *rule, const char *name, enum presence presence,
                           void *base) {
    const struct kg_gguf_tensor *t = kg_gguf_find_tensor(in->gguf, name);
    if (!t && presence == REQUIRED)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: tensor %s is missing", kg_gguf_path(in->gguf), name);
    if (!t || presence == ABSENT) return KG_OK;
    in->consumed[t - kg_gguf_tensor_at(in->gguf, 0)] = true;
    enum kg_status status = check_shape(in, t, rule, name);
    if (status) return status;
    if (rule->is_vector) {
        const float *whole;
        status = take_vector(in, t, name, &whole);
        if (!status) place_elems(in, rule, whole, base);
    } else {
        struct kg_weight whole;
        status = take_matrix(in, t, name, &whole);
        if (!status) place_rows(in, rule, &whole, (uint32_t)t->dims[2], base);
    }
    return status;
}

static enum presence presence_of(const struct loader *in, const struct rule *rule) {
    if (rule->required & in->architecture) return REQUIRED;
    return rule->optional & in->architecture ? OPTIONAL : ABSENT;
}

/* Whether the tensor has the rule's form, by its number of rows. */
static enum qkv_form form_of(const struct rule *rule) {
    const enum side rows = rule->sides[rule->is_vector ? 0 : 1];
    if (rows == QKV) return FUSED;
    return rows == Q || rows == KV ? APART : EITHER_FORM;
}

/* The form that the file has; if it has neither, the one that converters write for the architecture. */
static enum qkv_form find_form(const struct loader *in) {
    if (in->architecture & GPT2 || kg_gguf_find_tensor(in->gguf, "blk.0.attn_qkv.weight")) return FUSED;
    if (kg_gguf_find_tensor(in->gguf, "blk.0.attn_q.weight")) return APART;
    return in->architecture & PHI3 ? FUSED : APART;
}

/* An optional tensor that the first layer has is required in every layer. */
static enum presence layer_presence(const struct loader *in, const struct rule *rule) {
    char name[96];
    const enum presence presence = presence_of(in, rule);
    if (form_of(rule) != EITHER_FORM && form_of(rule) != in->qkv_form) return ABSENT;
    snprintf(name, sizeof name, "blk.0.%s", rule->name);
    if (presence != OPTIONAL) return presence;
    return kg_gguf_find_tensor(in->gguf, name) ? REQUIRED : ABSENT;
}

static enum kg_status take_layer(struct loader *in, uint32_t layer, const enum presence *presence) {
    for (size_t i = 0; i < KG_COUNT_OF(LAYER_RULES); i++) {
        const struct rule *rule = &LAYER_RULES[i];
        char name[96];
        snprintf(name, sizeof name, "blk.%u.%s", layer, rule->name);
        const enum kg_status status = take(in, rule, name, presence[i], &in->weights->layers[layer]);
        if (status) return status;
    }
    return KG_OK;
}

/* Layer by layer, as the converters write them: what is read ahead of a tensor is what is needed next. */
static enum kg_status take_all(struct loader *in) {
    enum presence presence[KG_COUNT_OF(LAYER_RULES)];
    for (size_t i = 0; i < KG_COUNT_OF(MODEL_RULES); i++) {
        const struct rule *rule = &MODEL_RULES[i];
        const enum kg_status status = take(in, rule, rule->name, presence_of(in, rule), in->weights);
        if (status) return status;
    }
    for (size_t i = 0; i < KG_COUNT_OF(LAYER_RULES); i++) presence[i] = layer_presence(in, &LAYER_RULES[i]);
    for (uint32_t layer = 0; layer < in->config->n_layers; layer++) {
        const enum kg_status status = take_layer(in, layer, presence);
        if (status) return status;
    }
    for (size_t i = 0; i < kg_gguf_n_tensors(in->gguf); i++) {
        const struct kg_str name = kg_gguf_tensor_at(in->gguf, i)->name;
        if (!in->consumed[i])
            return kg_fail(in->err, KG_ERR_FORMAT, "%s: tensor %s is not one that %s uses", kg_gguf_path(in->gguf),
                           kg_quote(name.data, name.len).text, in->config->architecture);
    }
    return KG_OK;
}

static enum kg_status put_yarn(struct loader *in) {
    const uint64_t n = in->side[HALF_ROT];
    float *factors = kg_xmalloc(n * sizeof *factors);
    kg_yarn_factors(in->config, factors);
    const enum kg_status status = put_vector(in, factors, n, "YaRN's factors", &in->weights->rope_factors);
    free(factors);
    return status;
}

static void measure_sides(const struct kg_model_config *c, uint64_t side[N_SIDES]) {
    side[VOCAB] = c->n_vocab;
    side[CONTEXT] = c->n_ctx_train;
    side[EMBD] = c->n_embd;
    side[HEADS] = c->n_heads;
    side[HEAD_DIM] = c->head_dim;
    side[Q] = (uint64_t)c->n_heads * c->head_dim;
    side[KV] = (uint64_t)c->n_kv_heads * c->head_dim;
    side[QKV] = side[Q] + 2 * side[KV];
    side[FF] = c->n_ff;
    side[GATE_AND_UP] = 2 * side[FF];
    side[EXPERTS] = c->n_experts;
    side[HALF_ROT] = c->n_rot / 2;
}

enum kg_status kg_weights_load(const struct kg_gguf *gguf, const struct kg_model_config *config,
                               struct kg_backend *backend, const struct kg_model_options *options,
                               struct kg_model_weights *weights, struct kg_error *err) {
    const size_t n_tensors = kg_gguf_n_tensors(gguf);
    *weights = (struct kg_model_weights){ 0 };
    struct loader in = {
        .gguf = gguf,
        .config = config,
        .backend = backend,
        .options = options,
        .weights = weights,
        .consumed = kg_xcalloc(n_tensors, sizeof(bool)),
        .architecture = kg_architecture_find(config->architecture)->bit,
        .err = err,
    };
    measure_sides(config, in.side);
    in.qkv_form = find_form(&in);
    for (size_t i = 0; i < n_tensors; i++) {
        in.total_bytes += kg_gguf_tensor_at(gguf, i)->size_bytes;
        weights->n_params += kg_gguf_tensor_at(gguf, i)->n_elems;
    }
    weights->layers = kg_xcalloc(config->n_layers, sizeof *weights->layers);
    weights->blocks = kg_xcalloc(n_tensors + 1, sizeof *weights->blocks);
    const uint64_t yarn_bytes = config->yarn.factor > 0 ? in.side[HALF_ROT] * sizeof(float) : 0;
    enum kg_status status = kg_weights_reserve(gguf, yarn_bytes, backend, err);
    if (!status) status = take_all(&in);
    status = kg_repack_all(&in.repacking, backend, status, err);
    if (!status && config->yarn.factor > 0) status = put_yarn(&in);
    if (!status && config->tied_output) weights->output = weights->embedding;
    if (!status) status = backend->ops->synchronize(backend, err);
    status = kg_weights_end_reservation(backend, status, err);
    if (status == KG_ERR_IO) kg_error_context(err, status, "%s", kg_gguf_path(gguf)); /* which the back end has not */
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
