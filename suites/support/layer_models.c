#include "suites/support/layer_models.h"
#include "base/size.h"
#include "suites/support/plain_f16.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HAIKU "haiku-qwen2/haiku-qwen2-f16.gguf"
#define HAIKU_GPT2 "haiku-gpt2/haiku-gpt2-mxfp4.gguf"
#define HAIKU_GPT_OSS "haiku-gpt-oss/haiku-gpt-oss-mxfp4.gguf"
#define HAIKU_PHI3 "haiku-phi3/haiku-phi3-q8_0.gguf"

const struct kg_layer_model kg_layer_models[] = {
    { "haiku_short_prompt", HAIKU, "haiku-qwen2/golden/short.safetensors", 2.06e-13 },
    { "haiku_prompt", HAIKU, "haiku-qwen2/golden/haiku.safetensors", 1.42e-13 },
    { "haiku_long_prompt", HAIKU, "haiku-qwen2/golden/long.safetensors", 2.14e-13 },
    { "llama_f32", "tiny-llama/llama-f32.gguf", "tiny-llama/golden/llama-f32.safetensors", 1.19e-12 },
    { "llama_blocks_of_32", "tiny-llama/llama-blocks.gguf", "tiny-llama/golden/llama-blocks.safetensors", 1.17e-12 },
    { "llama_k_blocks_linear_rope", "tiny-llama/llama-k.gguf", "tiny-llama/golden/llama-k.safetensors", 1.61e-11 },
    { "llama3_rope_factors_tied", "tiny-llama/llama3-freqs.gguf", "tiny-llama/golden/llama3-freqs.safetensors",
      2.29e-12 },
    { "qwen2_head_80", "tiny-qwen2/qwen2-head80.gguf", "tiny-qwen2/golden/qwen2-head80.safetensors", 3.25e-13 },
    { "qwen3_qk_norms", "tiny-qwen3/qwen3-head40.gguf", "tiny-qwen3/golden/qwen3-head40.safetensors", 5.29e-13 },
    { "gemma3_windows", "tiny-gemma3/gemma3-window.gguf", "tiny-gemma3/golden/gemma3-window.safetensors", 2.14e-13 },
    { "gpt2_short_text", HAIKU_GPT2, "haiku-gpt2/golden/short.safetensors", 1.05e-13 },
    { "haiku_gpt2_prompt", HAIKU_GPT2, "haiku-gpt2/golden/haiku.safetensors", 1.33e-13 },
    { "haiku_gpt2_long_prompt", HAIKU_GPT2, "haiku-gpt2/golden/long.safetensors", 2.54e-13 },
    { "gpt_oss_short_text", HAIKU_GPT_OSS, "haiku-gpt-oss/golden/short.safetensors", 1.02e-13 },
    { "haiku_gpt_oss_prompt", HAIKU_GPT_OSS, "haiku-gpt-oss/golden/haiku.safetensors", 1.11e-13 },
    { "haiku_gpt_oss_long_prompt", HAIKU_GPT_OSS, "haiku-gpt-oss/golden/long.safetensors", 2.38e-13 },
    { "phi3_short_text", HAIKU_PHI3, "haiku-phi3/golden/short.safetensors", 8.48e-14 },
    { "haiku_phi3_prompt", HAIKU_PHI3, "haiku-phi3/golden/haiku.safetensors", 9.94e-14 },
    { "haiku_phi3_long_prompt", HAIKU_PHI3, "haiku-phi3/golden/long.safetensors", 1.68e-13 },
};
const size_t kg_n_layer_models = KG_COUNT_OF(kg_layer_models);

const struct kg_layer_model *kg_layer_model_find(const char *name) {
    for (size_t i = 0; i < kg_n_layer_models; i++)
        if (strcmp(kg_layer_models[i].name, name) == 0) return &kg_layer_models[i];
    fprintf(stderr, "no model is called %s\n", name);
    abort();
}

static const struct kg_backend_ops *fused_f16(void) {
    return kg_plain_f16(KG_PLAIN_F16_FUSED);
}

static const struct kg_backend_ops *scaled_q_f16(void) {
    return kg_plain_f16(KG_PLAIN_F16_SCALED_Q);
}

const struct kg_layer_backend kg_layer_backends[] = {
    { "cpu", "f32", KG_PRECISION_F32, KG_PRECISION_F32, NULL },
    { "cpu", "plain_f16_fused", KG_PRECISION_F16, KG_PRECISION_F16, fused_f16 },
    { "cpu", "plain_f16_scaled_q", KG_PRECISION_F16, KG_PRECISION_F16, scaled_q_f16 },
    { "cuda", "f32", KG_PRECISION_F32, KG_PRECISION_F32, NULL },
    { "cuda", "f16", KG_PRECISION_F16, KG_PRECISION_F16, NULL },
};
const size_t kg_n_layer_backends = KG_COUNT_OF(kg_layer_backends);
