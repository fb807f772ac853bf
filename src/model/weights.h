/* The weights of a model in back-end memory, by role. */
#ifndef KIGO_MODEL_WEIGHTS_H
#define KIGO_MODEL_WEIGHTS_H

#include "backend/backend.h"
#include "model/config.h"
#include "format/gguf.h"
#include "ops/weight.h"
#include <kigo/model.h>

/* Matrices keep the file's block format. Vectors (norms, biases, rope factors) are converted to float32, which
 * operations require. A vector that the model does not have is NULL; a matrix that it does not have has data NULL.
 *
 * If the file stores q, k and v, or gate and up, in one tensor, each is a range of its rows: nothing is copied, and the
 * ranges are consecutive in memory. */
struct kg_layer_weights {
    const float *attn_norm, *attn_norm_bias; /* (n_embd) */
    struct kg_weight q, k, v;                /* (heads * head_dim, n_embd), heads = n_heads or n_kv_heads */
    const float *q_bias, *k_bias, *v_bias;
    const float *q_norm, *k_norm;          /* (head_dim), of every head */
    struct kg_weight attn_out;             /* (n_embd, n_heads * head_dim) */
    const float *attn_out_bias;            /* (n_embd) */
    const float *sinks;                    /* (n_heads) */
    const float *attn_post_norm;           /* (n_embd), of what attention adds */
    const float *ffn_norm, *ffn_norm_bias; /* (n_embd) */
    struct kg_weight router;               /* (n_experts, n_embd) */
    const float *router_bias;              /* (n_experts) */
    /* With experts, these have a leading dimension: gate, up (n_experts, n_ff, n_embd), down (n_experts, n_embd, n_ff),
     * their biases (n_experts, n_ff) and (n_experts, n_embd). */
    struct kg_weight gate, up;        /* (n_ff, n_embd) */
    const float *gate_bias, *up_bias; /* (n_ff) */
    struct kg_weight down;            /* (n_embd, n_ff) */
    const float *down_bias;           /* (n_embd) */
    const float *ffn_post_norm;       /* (n_embd), of what the FFN adds */
};

struct kg_model_weights {
    struct kg_weight embedding;                  /* (n_vocab, n_embd) */
    struct kg_weight positions;                  /* (n_ctx_train, n_embd) */
    struct kg_weight output;                     /* (n_vocab, n_embd); the embedding if tied */
    const float *output_norm, *output_norm_bias; /* (n_embd) */
    /* (n_rot / 2) each; NULL: none. rope_factors are the file's or YaRN's. LongRoPE has two lists: rope_factors is the
     * short one. */
    const float *rope_factors, *rope_factors_long;
    struct kg_layer_weights *layers;

    struct kg_block *blocks; /* owned back-end memory: one block per tensor, and one for YaRN's factors */
    size_t n_blocks;
    uint64_t size_bytes; /* as stored */
    uint64_t n_params;
    const char *dtype_name; /* of all matrices, or "mixed" */
};

/* Loads all weights. Every tensor of the file is used exactly once; a missing, unexpected, misshaped or mistyped one is
 * KG_ERR_FORMAT naming it. The first layer decides for all layers whether q, k and v are one tensor (attn_qkv) or
 * three, as in llama.cpp's loader; gpt2 always has one, and phi3's gate and up are one tensor. If the back end uses
 * weights in place, the file must stay open until kg_weights_free. */
KG_WARN_UNUSED enum kg_status kg_weights_load(const struct kg_gguf *gguf, const struct kg_model_config *config,
                                              struct kg_backend *backend, const struct kg_model_options *options,
                                              struct kg_model_weights *weights, struct kg_error *err);
void kg_weights_free(struct kg_backend *backend, struct kg_model_weights *weights);

const struct kg_model_weights *kg_model_weights(const struct kg_model *model);
struct kg_backend *kg_model_backend(const struct kg_model *model);

#endif
