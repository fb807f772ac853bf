/* Models: configuration from the file's metadata, and weights in a back end's memory. */
#ifndef KIGO_MODEL_H
#define KIGO_MODEL_H

#include <kigo/ops.h>
#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum kg_norm { KG_NORM_RMS, KG_NORM_LAYER }; /* ops/rmsnorm.h; ops/layernorm.h, with a bias */
enum kg_ffn {
    KG_FFN_GATED,   /* down(swiglu(gate, up)) */
    KG_FFN_GELU,    /* down(gelu(up)), the form with tanh */
    KG_FFN_EXPERTS, /* mixture of experts: the router chooses gated experts */
};

/* YaRN: the frequencies of rope pairs below `low` are kept, those above `high` are divided by `factor`, and a linear
 * ramp lies between. low and high are the pairs that make beta_fast and beta_slow rotations within the original
 * context. */
struct kg_yarn {
    float factor; /* 0: no YaRN */
    float beta_fast, beta_slow;
    bool rounded; /* low is rounded down and high up to whole pairs */
};

struct kg_swiglu_form {
    float limit, alpha, up_offset, cubic; /* as in ops/swiglu.h */
};

/* Everything the forward pass needs to know about a model. It is read from the file's metadata, validated once, and
 * const afterwards. */
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
    uint32_t n_ff; /* of one expert, if the model has experts */
    enum kg_norm norm;
    float norm_eps;
    enum kg_rope_pairing rope_pairing;
    uint32_t n_rot; /* leading dims of a head that rope rotates; even, <= head_dim */
    float rope_freq_base;
    float rope_freq_scale;      /* linear scaling: positions are multiplied by it */
    float window_freq_base;     /* sliding-window layers use these two in place of rope_freq_base and */
    float window_freq_scale;    /* rope_freq_scale; equal to them where all layers rotate alike */
    float rope_magnitude;       /* factor of cos and sin; 1: none */
    uint32_t rope_original_ctx; /* context length before the scaling; 0: not in the file */
    bool rope_long_short;       /* LongRoPE: sequences longer than rope_original_ctx use a second list of factors */
    struct kg_yarn yarn;
    bool has_positions;     /* learned positions are added to the embedding; sessions are limited to n_ctx_train */
    float embedding_scale;  /* factor of the token embedding's rows; 1: none */
    bool has_qk_norm;       /* RMSNorm over head_dim of each head of q and k, before rope */
    bool has_post_norms;    /* RMSNorm of the outputs of attention and FFN, before the residual add */
    float attn_scale;       /* 1/sqrt(head_dim) unless the file says otherwise */
    bool has_sinks;         /* one extra logit per head in the softmax's denominator */
    uint32_t window;        /* sliding-window layers: keys that a query sees, itself included; 0: none */
    uint32_t window_period; /* every window_period-th layer has full attention; 0: all layers slide */
    enum kg_ffn ffn;
    struct kg_swiglu_form swiglu;       /* gated, experts */
    uint32_t n_experts, n_experts_used; /* 0: a dense model */
    bool wide_residual; /* the residual stream exceeds float16's range, so it is float32 in every precision */
    bool has_qkv_bias;
    bool tied_output; /* logits = token embedding times the last hidden state */
};

/* The layer's attention window: the most keys that a query sees, itself included; 0: no limit. */
uint32_t kg_model_layer_window(const struct kg_model_config *config, uint32_t layer);

/* The layer's base and scale of rope's frequencies. */
struct kg_layer_rope {
    float freq_base, freq_scale;
};
struct kg_layer_rope kg_model_layer_rope(const struct kg_model_config *config, uint32_t layer);

/* Where YaRN's ramp begins and ends. PUBLISHED: as the architecture's publisher has it (rounded to whole pairs, except
 * gpt-oss). EXACT and ROUNDED override that, for comparing implementations. */
enum kg_yarn_ramp { KG_YARN_RAMP_PUBLISHED, KG_YARN_RAMP_EXACT, KG_YARN_RAMP_ROUNDED };

struct kg_backend;
struct kg_model;
struct kg_tokenizer;

struct kg_model_options {
    /* Called while loading, with the bytes loaded and the total; may be NULL. */
    void (*on_progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
    void *user;
    enum kg_yarn_ramp yarn_ramp;
};

/* Opens a GGUF file, validates its configuration and tensors, and uploads the weights to the back end, which must
 * outlive the model. Each tensor's shape and type are checked, and each is used exactly once. */
KG_WARN_UNUSED enum kg_status kg_model_load(const char *path, struct kg_backend *backend,
                                            const struct kg_model_options *options, struct kg_model **model,
                                            struct kg_error *err);
void kg_model_free(struct kg_model *model);

const struct kg_model_config *kg_model_config(const struct kg_model *model);
/* NULL if the file has no tokenizer, or one that kigo does not support: such a model still computes logits, and
 * kg_model_require_tokenizer is KG_ERR_UNSUPPORTED with the reason. A malformed tokenizer fails kg_model_load. */
const struct kg_tokenizer *kg_model_tokenizer(const struct kg_model *model);
KG_WARN_UNUSED enum kg_status kg_model_require_tokenizer(const struct kg_model *model,
                                                         const struct kg_tokenizer **tokenizer, struct kg_error *err);
uint64_t kg_model_weight_bytes(const struct kg_model *model); /* as stored in the back end's memory */
uint64_t kg_model_n_params(const struct kg_model *model);

#ifdef __cplusplus
}
#endif

#endif
