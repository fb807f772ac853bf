/* Models: configuration from the file's metadata, and weights in a back end's memory. */
#ifndef KIGO_MODEL_H
#define KIGO_MODEL_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

enum kg_rope_pairing {
    KG_ROPE_NONE,
    KG_ROPE_HALF,        /* (i, i + n_rot/2): qwen2, phi3, gpt-oss */
    KG_ROPE_INTERLEAVED, /* (2i, 2i+1): llama */
};

/* Everything the forward pass needs to know about a model, from its metadata, validated once and const afterwards. */
struct kg_model_config {
    char architecture[32]; /* general.architecture */
    char name[128];        /* general.name, "" if absent */
    uint32_t n_vocab;      /* rows of the token embedding (may exceed the tokenizer's tokens) */
    uint32_t n_ctx_train;
    uint32_t n_embd;
    uint32_t n_layers;
    uint32_t n_heads;
    uint32_t n_kv_heads; /* divides n_heads; KV head of query head h is h / (n_heads / n_kv_heads) */
    uint32_t head_dim;
    uint32_t n_ff;
    float norm_eps;
    enum kg_rope_pairing rope_pairing;
    uint32_t n_rot; /* leading dims of a head that turn; even, <= head_dim */
    float rope_freq_base;
    float rope_freq_scale; /* linear scaling: position times this */
    float attn_scale;      /* 1/sqrt(head_dim) unless the file says otherwise */
    bool has_qkv_bias;
    bool tied_output; /* logits = token embedding times the last hidden state */
};

struct kg_backend;
struct kg_model;
struct kg_tokenizer;

struct kg_model_options {
    /* Called while loading with bytes done and in total; may be NULL. */
    void (*on_progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
    void *user;
};

/* Opens the file, validates configuration and tensors (each consumed exactly once, shapes and types checked by name) and
 * uploads the weights to the back end, which must outlive the model. */
KG_WARN_UNUSED enum kg_status kg_model_load(const char *path, struct kg_backend *backend,
                                            const struct kg_model_options *options, struct kg_model **model,
                                            struct kg_error *err);
void kg_model_free(struct kg_model *model);

const struct kg_model_config *kg_model_config(const struct kg_model *model);
/* NULL if the file has no tokenizer, or one of a kind kigo does not have: the model still computes logits. require says
 * why then (KG_ERR_UNSUPPORTED). A malformed tokenizer fails kg_model_load. */
const struct kg_tokenizer *kg_model_tokenizer(const struct kg_model *model);
KG_WARN_UNUSED enum kg_status kg_model_require_tokenizer(const struct kg_model *model,
                                                         const struct kg_tokenizer **tokenizer, struct kg_error *err);
uint64_t kg_model_weight_bytes(const struct kg_model *model); /* as stored in the back end's memory */
uint64_t kg_model_n_params(const struct kg_model *model);

#endif
