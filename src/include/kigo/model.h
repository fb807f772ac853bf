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

enum kg_norm { KG_NORM_RMS, KG_NORM_LAYER }; /* ops/rmsnorm.h; ops/layernorm.h, with a bias */
enum kg_ffn {
    KG_FFN_GATED,   /* down(swiglu(gate, up)) */
    KG_FFN_GELU,    /* down(gelu(up)), the form with tanh */
    KG_FFN_EXPERTS, /* gated, of the experts that the router chooses */
};

/* YaRN: frequencies of pairs below `low` stay, those above `high` are divided by factor, between them lies a ramp; low
 * and high are where a pair turns beta_fast and beta_slow times within the original context. */
struct kg_yarn {
    float factor; /* 0: there is none */
    float beta_fast, beta_slow;
    bool rounded; /* low down and high up to whole pairs */
};

struct kg_swiglu_form {
    float limit, alpha, up_offset; /* as in ops/swiglu.h */
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
    uint32_t n_ff; /* an expert's, where there are experts */
    enum kg_norm norm;
    float norm_eps;
    enum kg_rope_pairing rope_pairing;
    uint32_t n_rot; /* leading dims of a head that turn; even, <= head_dim */
    float rope_freq_base;
    float rope_freq_scale;      /* linear scaling: position times this */
    float rope_magnitude;       /* of cosine and sine; 1: none */
    uint32_t rope_original_ctx; /* positions trained before the scaling; 0: the file does not say */
    bool rope_long_short;       /* two lists of factors: the long ones for sequences of more than rope_original_ctx */
    struct kg_yarn yarn;
    bool has_positions;     /* learned, added to the embedding: no session is longer than n_ctx_train */
    float attn_scale;       /* 1/sqrt(head_dim) unless the file says otherwise */
    bool has_sinks;         /* one more logit a head in attention's denominator */
    uint32_t window;        /* keys that a query of a sliding layer sees, itself included; 0: there is no such layer */
    uint32_t window_period; /* of so many layers one after the other all slide but the last; 0: all layers slide */
    enum kg_ffn ffn;
    struct kg_swiglu_form swiglu;       /* gated, experts */
    uint32_t n_experts, n_experts_used; /* 0: there are none */
    bool wide_residual; /* the residual stream leaves float16's range: it is float32 whatever the activations are */
    bool has_qkv_bias;
    bool tied_output; /* logits = token embedding times the last hidden state */
};

/* Keys that a query of the layer sees at most, itself included; 0: all before it. */
uint32_t kg_model_layer_window(const struct kg_model_config *config, uint32_t layer);

/* Where YaRN's ramp begins and ends: as the architecture's publisher has it (whole pairs but for gpt-oss), or so that
 * implementations can be compared. */
enum kg_yarn_ramp { KG_YARN_RAMP_PUBLISHED, KG_YARN_RAMP_EXACT, KG_YARN_RAMP_ROUNDED };

struct kg_backend;
struct kg_model;
struct kg_tokenizer;

struct kg_model_options {
    /* Called while loading with bytes done and in total; may be NULL. */
    void (*on_progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
    void *user;
    enum kg_yarn_ramp yarn_ramp;
};

/* Opens the file, validates configuration and tensors (each consumed exactly once, shapes and types checked by name)
 * and uploads the weights to the back end, which must outlive the model. */
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
