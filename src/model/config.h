/* Model configuration from a GGUF file's metadata (keys `<architecture>.<key>` of ggml's docs/gguf.md). */
#ifndef KIGO_MODEL_CONFIG_H
#define KIGO_MODEL_CONFIG_H

#include "model/gguf.h"
#include <kigo/model.h>

enum kg_presence { KG_ABSENT, KG_OPTIONAL, KG_REQUIRED };

/* What the name of an architecture says and its metadata do not. */
struct kg_architecture {
    const char *name;
    enum kg_rope_pairing rope_pairing;
    enum kg_presence qkv_bias;   /* attn_q.bias, attn_k.bias, attn_v.bias */
    enum kg_presence other_bias; /* attn_output.bias, ffn_gate.bias, ffn_up.bias, ffn_down.bias */
};

/* NULL if kigo does not run it. */
const struct kg_architecture *kg_architecture_find(const char *name);

/* Reads and validates everything but tensors, of which it only looks at token_embd.weight (n_vocab), output.weight
 * (tied_output) and blk.0.attn_q.bias (has_qkv_bias). A missing or contradictory value is KG_ERR_FORMAT, one that kigo
 * does not implement KG_ERR_UNSUPPORTED; both name file, key and value. Defaults: rope.freq_base 10000,
 * attention.head_count_kv = head_count, attention.key_length = embedding_length / head_count, rope.dimension_count = the
 * head size, attention.scale = 1 / sqrt(head size). */
KG_WARN_UNUSED enum kg_status kg_config_read(const struct kg_gguf *gguf, struct kg_model_config *config,
                                             struct kg_error *err);

#endif
