/* Model configuration from a GGUF file's metadata (keys `<architecture>.<key>` of ggml's docs/gguf.md). */
#ifndef KIGO_MODEL_CONFIG_H
#define KIGO_MODEL_CONFIG_H

#include "format/gguf.h"
#include <kigo/model.h>

/* Architectures as bits, so that tables can hold sets of them. */
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

/* The properties that follow from an architecture's name; its metadata does not have them. */
struct kg_architecture {
    const char *name;
    unsigned bit;
    enum kg_rope_pairing rope_pairing; /* KG_ROPE_NONE: learned positions */
    enum kg_norm norm;
    enum kg_ffn ffn;
    struct kg_swiglu_form swiglu;
    bool has_sinks;
    bool slides;            /* may have sliding windows; other architectures reject a window shorter than the context */
    uint32_t window_period; /* as in struct kg_model_config; the default if the file has no key */
    bool window_optional;   /* a file without a window has full attention in all layers */
    float window_freq_base; /* default rope base of sliding-window layers; 0: the base of all layers */
    bool has_qk_norm, has_post_norms; /* as in struct kg_model_config */
    bool scales_embedding;            /* by sqrt(n_embd) */
    /* A file with this number of layers and without attention.scale has the scale 1 / sqrt(n_embd / n_heads):
     * llama.cpp's converter omits the key, and its reader knows the one published model with that scale. 0: none. */
    uint32_t n_layers_scaled_by_width;
    bool wide_residual; /* as in struct kg_model_config */
    bool yarn_exact;    /* YaRN's ramp is published without rounding to whole pairs */
};

/* kigo's key: whether YaRN's ramp begins and ends at whole pairs, if that differs from the published architecture. */
#define KG_YARN_TRUNCATE_KEY "kigo.rope.yarn_truncate"

/* Finds an architecture by name; NULL if kigo does not support it. */
const struct kg_architecture *kg_architecture_find(const char *name);

/* Reads and validates the configuration. Of the tensors it only looks at token_embd.weight (n_vocab), output.weight
 * (tied_output), the first bias of q, k and v (has_qkv_bias), and which lists of rope factors exist. KG_ERR_FORMAT for
 * a missing or contradictory value, KG_ERR_UNSUPPORTED for one that kigo does not implement; both name file, key and
 * value. Defaults: rope.freq_base 10000, attention.head_count_kv = head_count, attention.key_length = embedding_length
 * / head_count, rope.dimension_count = the head size, attention.scale = 1 / sqrt(head size), rope.freq_base_swa = the
 * architecture's (gemma3: 10000, unscaled) or rope.freq_base,
 * rope.scaling.original_context_length = context_length, YaRN's betas 32 and 1. YaRN's magnitude is 0.1 ln(factor) + 1
 * times rope.scaling.attn_factor; without that key it is rope.scaling.yarn_attn_factor, where llama.cpp's converter
 * puts the attention_factor of a config.json. */
KG_WARN_UNUSED enum kg_status kg_config_read(const struct kg_gguf *gguf, struct kg_model_config *config,
                                             struct kg_error *err);

#endif
