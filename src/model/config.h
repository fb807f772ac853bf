/* Model configuration from a GGUF file's metadata (keys `<architecture>.<key>` of ggml's docs/gguf.md). */
#ifndef KIGO_MODEL_CONFIG_H
#define KIGO_MODEL_CONFIG_H

#include "format/gguf.h"
#include <kigo/model.h>

/* Sets of architectures, for tables. */
enum {
    KG_ARCH_QWEN2 = 1,
    KG_ARCH_LLAMA = 2,
    KG_ARCH_PHI3 = 4,
    KG_ARCH_GPT_OSS = 8,
    KG_ARCH_GPT2 = 16,
    KG_ARCH_QWEN3 = 32,
    KG_ARCH_GEMMA3 = 64,
    KG_ARCH_ALL = 127,
};

/* What the name of an architecture says and its metadata do not. */
struct kg_architecture {
    const char *name;
    unsigned bit;
    enum kg_rope_pairing rope_pairing; /* none: positions are learned */
    enum kg_norm norm;
    enum kg_ffn ffn;
    struct kg_swiglu_form swiglu;
    bool has_sinks;
    bool slides;            /* may have windows; for others a window shorter than the context is refused */
    uint32_t window_period; /* as in struct kg_model_config, if the file does not say */
    bool window_optional;   /* a file without a window is one whose layers all see everything */
    float window_freq_base; /* RoPE's base in layers with a window, if the file does not say; 0: that of all layers */
    bool has_qk_norm, has_post_norms; /* as in struct kg_model_config */
    bool scales_embedding;            /* by sqrt(n_embd) */
    /* A file of so many layers that does not state its attention.scale has 1 / sqrt(n_embd / n_heads): llama.cpp's
     * converter leaves the key out, and its reader knows the one published model whose scale that is. 0: none. */
    uint32_t n_layers_scaled_by_width;
    bool wide_residual; /* as in struct kg_model_config */
    bool yarn_exact;    /* as published: the ramp is not rounded to whole pairs */
};

/* A key of kigo's own: whether YaRN's ramp begins and ends at whole pairs, where that is not as published. */
#define KG_YARN_TRUNCATE_KEY "kigo.rope.yarn_truncate"

/* NULL if kigo does not run it. */
const struct kg_architecture *kg_architecture_find(const char *name);

/* Reads and validates everything but tensors, of which it only looks at token_embd.weight (n_vocab), at output.weight
 * (tied_output), at the first bias of q, k and v (has_qkv_bias) and at which lists of rope factors there are. A missing
 * or contradictory value is KG_ERR_FORMAT, one that kigo does not implement KG_ERR_UNSUPPORTED; both name file, key and
 * value. Defaults: rope.freq_base 10000, attention.head_count_kv = head_count, attention.key_length = embedding_length
 * / head_count, rope.dimension_count = the head size, attention.scale = 1 / sqrt(head size), rope.freq_base_swa = the
 * architecture's (gemma3: 10000, unscaled) or rope.freq_base,
 * rope.scaling.original_context_length = context_length, YaRN's betas 32 and 1. YaRN's magnitude is 0.1 ln(factor) + 1
 * times rope.scaling.attn_factor; without that key it is rope.scaling.yarn_attn_factor, where llama.cpp's converter
 * puts the attention_factor of a config.json. */
KG_WARN_UNUSED enum kg_status kg_config_read(const struct kg_gguf *gguf, struct kg_model_config *config,
                                             struct kg_error *err);

#endif
