#include "suites/tolerance/walk_models.h"
#include "base/size.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HAIKU "haiku-qwen2/haiku-qwen2-f16.gguf"

const struct kg_walk_model kg_walk_models[] = {
    { "haiku_short_prompt", HAIKU, "haiku-qwen2/golden/short.safetensors" },
    { "haiku_prompt", HAIKU, "haiku-qwen2/golden/haiku.safetensors" },
    { "haiku_long_prompt", HAIKU, "haiku-qwen2/golden/long.safetensors" },
    { "llama_f32", "tiny-llama/llama-f32.gguf", "tiny-llama/golden/llama-f32.safetensors" },
    { "llama_blocks_of_32", "tiny-llama/llama-blocks.gguf", "tiny-llama/golden/llama-blocks.safetensors" },
    { "llama_k_blocks_linear_rope", "tiny-llama/llama-k.gguf", "tiny-llama/golden/llama-k.safetensors" },
    { "llama3_rope_factors_tied", "tiny-llama/llama3-freqs.gguf", "tiny-llama/golden/llama3-freqs.safetensors" },
    { "qwen2_head_80", "tiny-qwen2/qwen2-head80.gguf", "tiny-qwen2/golden/qwen2-head80.safetensors" },
};
const size_t kg_n_walk_models = KG_COUNT_OF(kg_walk_models);

const struct kg_walk_model *kg_walk_model_find(const char *name) {
    for (size_t i = 0; i < kg_n_walk_models; i++)
        if (strcmp(kg_walk_models[i].name, name) == 0) return &kg_walk_models[i];
    fprintf(stderr, "no model is called %s\n", name);
    abort();
}

const struct kg_walk_backend kg_walk_backends[] = {
    { "cpu", KG_PRECISION_F32, KG_PRECISION_F32 },
    { "cuda", KG_PRECISION_F32, KG_PRECISION_F32 },
    { "cuda", KG_PRECISION_F16, KG_PRECISION_F16 },
};
const size_t kg_n_walk_backends = KG_COUNT_OF(kg_walk_backends);
