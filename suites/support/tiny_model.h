/* Small random models written by kigo's own GGUF writer, whole or with one thing wrong. */
#ifndef KIGO_SUITES_TINY_MODEL_H
#define KIGO_SUITES_TINY_MODEL_H

#include "format/dtype.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kg_tiny_model {
    const char *architecture;
    uint32_t n_vocab; /* rows of the embedding, at least KG_TINY_TOKENS */
    uint32_t n_ctx, n_embd, n_layers, n_heads, n_kv_heads, n_ff;
    uint32_t head_dim;                                                     /* 0: n_embd / n_heads, and no key says so */
    bool qkv_bias, other_bias /* of the layers' other matrices */, untied; /* qwen2 and llama */
    uint32_t window, n_experts, n_experts_used;                            /* phi3 and gpt-oss; gpt-oss; 0: no key */
    bool long_short;                   /* phi3: two lists of rope factors, for an original context of half n_ctx */
    bool mxfp4_experts;                /* gpt-oss: their matrices, whatever the others are */
    enum kg_dtype matrices, more_bits; /* of attn_v and ffn_down, unless KG_DTYPE_F32: a mixture */
    uint64_t seed;
};

/* Every byte as a token, two merges ("h e", "t h"), then these. Text is a token a byte but for the merges. */
enum {
    KG_TINY_HE = 256,
    KG_TINY_TH,
    KG_TINY_END_OF_TEXT,
    KG_TINY_IM_START,
    KG_TINY_IM_END, /* ends a chat turn */
    KG_TINY_TOKENS,
};

#define KG_TINY_QWEN2                                                                                                  \
    {                                                                                                                  \
        .architecture = "qwen2", .n_vocab = KG_TINY_TOKENS, .n_ctx = 64, .n_embd = 32, .n_layers = 2, .n_heads = 4,    \
        .n_kv_heads = 2, .n_ff = 48, .qkv_bias = true, .matrices = KG_DTYPE_F32, .seed = 1                             \
    }
#define KG_TINY_LLAMA                                                                                                  \
    {                                                                                                                  \
        .architecture = "llama", .n_vocab = KG_TINY_TOKENS, .n_ctx = 64, .n_embd = 32, .n_layers = 2, .n_heads = 4,    \
        .n_kv_heads = 2, .n_ff = 48, .untied = true, .matrices = KG_DTYPE_F32, .seed = 1                               \
    }

#define KG_TINY_PHI3                                                                                                   \
    {                                                                                                                  \
        .architecture = "phi3", .n_vocab = KG_TINY_TOKENS, .n_ctx = 64, .n_embd = 64, .n_layers = 2, .n_heads = 4,     \
        .n_kv_heads = 2, .n_ff = 96, .untied = true, .window = 9, .matrices = KG_DTYPE_F32, .seed = 1                  \
    }
#define KG_TINY_GPT_OSS                                                                                                \
    {                                                                                                                  \
        .architecture = "gpt-oss", .n_vocab = KG_TINY_TOKENS, .n_ctx = 64, .n_embd = 64, .n_layers = 3, .n_heads = 4,  \
        .n_kv_heads = 2, .head_dim = 24, .n_ff = 32, .untied = true, .window = 9, .n_experts = 5, .n_experts_used = 2, \
        .matrices = KG_DTYPE_F32, .seed = 1                                                                            \
    }
#define KG_TINY_GPT2                                                                                                   \
    {                                                                                                                  \
        .architecture = "gpt2", .n_vocab = KG_TINY_TOKENS, .n_ctx = 64, .n_embd = 64, .n_layers = 2, .n_heads = 4,     \
        .n_kv_heads = 4, .n_ff = 96, .matrices = KG_DTYPE_F32, .seed = 1                                               \
    }

#define KG_TINY_QWEN3                                                                                                  \
    {                                                                                                                  \
        .architecture = "qwen3", .n_vocab = KG_TINY_TOKENS, .n_ctx = 64, .n_embd = 32, .n_layers = 2, .n_heads = 4,    \
        .n_kv_heads = 2, .head_dim = 16, .n_ff = 64, .matrices = KG_DTYPE_F32, .seed = 1                               \
    }
/* One layer in six has no window. */
#define KG_TINY_GEMMA3                                                                                                 \
    {                                                                                                                  \
        .architecture = "gemma3", .n_vocab = KG_TINY_TOKENS, .n_ctx = 64, .n_embd = 32, .n_layers = 7, .n_heads = 4,   \
        .n_kv_heads = 2, .head_dim = 16, .n_ff = 64, .window = 9, .matrices = KG_DTYPE_F32, .seed = 1                  \
    }

/* What to do differently with the key or tensor of that name; of a name the model lacks, a key or tensor is added. */
enum kg_tiny_change {
    KG_TINY_OMIT,
    KG_TINY_KEY_U32,
    KG_TINY_KEY_F32,
    KG_TINY_KEY_BOOL,
    KG_TINY_KEY_TEXT,
    KG_TINY_KEY_I32S, /* an array of two */
    KG_TINY_TENSOR_DTYPE,
    KG_TINY_TENSOR_DIMS,
    KG_TINY_TENSOR_FILL, /* all elements of the tensor are `number` */
    KG_TINY_TENSOR_ADD,  /* of dims, F32 */
};
struct kg_tiny_edit {
    const char *name;
    enum kg_tiny_change change;
    double number;
    const char *text;
    enum kg_dtype dtype;
    uint64_t dims[3]; /* fastest first; 0: 1 */
};

/* Fails the running case if the file cannot be written. */
void kg_tiny_model_write(const char *path, const struct kg_tiny_model *model, const struct kg_tiny_edit *edits,
                         size_t n_edits);
/* The same without any tensor. */
void kg_tiny_vocabulary_write(const char *path, const struct kg_tiny_model *model);

#endif
