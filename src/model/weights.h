/* The weights of a model in a back end's memory, by role. */
#ifndef KIGO_MODEL_WEIGHTS_H
#define KIGO_MODEL_WEIGHTS_H

#include "backend/backend.h"
#include "model/config.h"
#include "format/gguf.h"
#include "ops/weight.h"
#include <kigo/model.h>

/* Matrices keep the file's block format. Vectors (norms, biases, rope factors) are float32 whatever the file has: they
 * are small, and operations take them so. A bias the model does not have is NULL, a matrix has no data.
 *
 * Where a file has q, k and v, or gate and up, in one tensor, each is a range of its rows: nothing is copied, and those
 * of one tensor lie one after the other. */
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
    /* With experts, one expert's after the other: (n_experts, n_ff, n_embd), (n_experts, n_embd, n_ff), their biases
     * (n_experts, n_ff), (n_experts, n_embd). */
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
    /* (n_rot / 2), NULL for none: the file's, or YaRN's; of two lists the short one, and the long one. */
    const float *rope_factors, *rope_factors_long;
    struct kg_layer_weights *layers;

    struct kg_block *blocks; /* owned back-end memory, one a tensor, and YaRN's factors */
    size_t n_blocks;
    uint64_t size_bytes; /* as stored */
    uint64_t n_params;
    const char *dtype_name; /* of all matrices, or "mixed" */
};

/* Takes every tensor of the file exactly once; a missing, unexpected, misshaped or mistyped one is KG_ERR_FORMAT naming
 * it. q, k and v of all layers are one tensor each layer (attn_qkv) or three, whichever the first layer has, as
 * llama.cpp's loader takes them; gpt2's are one, phi3's gate and up are one. If the back end keeps weights in place,
 * the file must stay open until kg_weights_free. */
KG_WARN_UNUSED enum kg_status kg_weights_load(const struct kg_gguf *gguf, const struct kg_model_config *config,
                                              struct kg_backend *backend, const struct kg_model_options *options,
                                              struct kg_model_weights *weights, struct kg_error *err);
void kg_weights_free(struct kg_backend *backend, struct kg_model_weights *weights);

const struct kg_model_weights *kg_model_weights(const struct kg_model *model);
struct kg_backend *kg_model_backend(const struct kg_model *model);

#endif
