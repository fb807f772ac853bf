/* Reads config.json of a Hugging Face model into validated numbers, for the architectures that kigo converts.
 *
 * Names are those of transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters). KG_ERR_UNSUPPORTED names a
 * value that changes the computation in a way that kigo or a GGUF file cannot express. */
#ifndef KIGO_CONVERT_HF_CONFIG_H
#define KIGO_CONVERT_HF_CONFIG_H

#include <jansson.h>
#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

enum kg_hf_architecture_bit {
    KG_HF_QWEN2 = 1,
    KG_HF_LLAMA = 2,
    KG_HF_PHI3 = 4,
    KG_HF_GPT_OSS = 8,
    KG_HF_GPT2 = 16,
    KG_HF_QWEN3 = 32,
    KG_HF_GEMMA3 = 64,
};
enum { KG_HF_ALL = 127 };

struct kg_hf_architecture {
    const char *class_name; /* in "architectures" of config.json */
    const char *model_type;
    const char *gguf_name; /* general.architecture */
    enum kg_hf_architecture_bit bit;
    bool tied; /* tie_word_embeddings if config.json does not have it */
};

enum kg_hf_rope_scaling { KG_HF_ROPE_NONE, KG_HF_ROPE_LINEAR, KG_HF_ROPE_YARN, KG_HF_ROPE_LONGROPE, KG_HF_ROPE_LLAMA3 };

struct kg_hf_rope {
    enum kg_hf_rope_scaling scaling;
    double base;        /* rope_theta */
    double window_base; /* rope base of sliding-window layers, if separate (gemma3); else NaN */
    double factor,
        attention_factor; /* NaN: not stated; likewise below. yarn: mscale and mscale_all_dim give attention_factor */
    double extrapolation_factor, beta_fast, beta_slow; /* yarn */
    double low_freq_factor, high_freq_factor;          /* llama3 */
    double mscale, mscale_all_dim;                     /* yarn */
    bool truncates;                                    /* yarn's ramp begins and ends at whole pairs */
    uint32_t original_ctx;                             /* 0: not stated */
    float *long_factors, *short_factors;               /* (n_rot / 2) of longrope, else NULL */
};

struct kg_hf_config {
    const struct kg_hf_architecture *architecture;
    uint32_t n_layers, n_ctx, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab;
    uint32_t n_rot;                     /* dims of a head that rope rotates */
    uint32_t window;                    /* 0: none */
    uint32_t window_period;             /* every window_period-th layer has full attention; 0: all layers slide */
    uint32_t query_scale_dims;          /* scores are scaled by 1 / sqrt of this; 0: of the head size */
    uint32_t n_experts, n_experts_used; /* 0 without experts */
    double norm_eps;
    struct kg_hf_rope rope;
    bool tied_output, attention_bias, mlp_bias;
    bool states_head_dim; /* config.json has head_dim: attention.key_length is written */
};

/* Reads json, the object of config.json. dir is for error messages. On failure there is nothing to free. */
KG_WARN_UNUSED enum kg_status kg_hf_config_read(const char *dir, const json_t *json, struct kg_hf_config *config,
                                                struct kg_error *err);
void kg_hf_config_free(struct kg_hf_config *config);

#endif
