/* The tensors of each architecture: their names in a Hugging Face folder and in a GGUF file, their shapes, and the
 * conversion between them. Names and layout are those of llama.cpp's converter. */
#ifndef KIGO_CONVERT_RULES_H
#define KIGO_CONVERT_RULES_H

#include "convert/hf_config.h"
#include <stddef.h>

/* The meaning of a tensor's dimension, which gives its length. */
enum kg_convert_side {
    KG_SIDE_ONE,
    KG_SIDE_VOCAB,
    KG_SIDE_CONTEXT,
    KG_SIDE_EMBD,
    KG_SIDE_Q,  /* n_heads * head_dim */
    KG_SIDE_KV, /* n_kv_heads * head_dim */
    KG_SIDE_QKV,
    KG_SIDE_FF,
    KG_SIDE_GATE_AND_UP,
    KG_SIDE_HEADS,
    KG_SIDE_HEAD_DIM,
    KG_SIDE_EXPERTS,
};

/* The source row of row r of the written tensor. */
enum kg_convert_rows {
    KG_ROWS_SAME,
    KG_ROWS_PAIRED, /* per head, rows (i, i + half) become (2i, 2i + 1): interleaved rope pairs */
    KG_ROWS_EVEN,   /* 2r: one of gate and up, which the source interleaves */
    KG_ROWS_ODD,    /* 2r + 1 */
};

/* When a model has the tensor. */
enum kg_convert_when {
    KG_WHEN_ALWAYS,
    KG_WHEN_UNTIED,         /* the output is not the embedding */
    KG_WHEN_ATTENTION_BIAS, /* config.json says attention_bias */
    KG_WHEN_MLP_BIAS,
};

/* A tensor of an architecture. The written shape is (experts, rows, cols); a vector has cols ONE. The source has the
 * same shape, or (experts, cols, rows) if `transposed`; KG_ROWS_EVEN and KG_ROWS_ODD read a source with twice the
 * rows. */
struct kg_convert_rule {
    const char *gguf; /* for a layer: the name after "blk.N." */
    const char *hf;   /* for a layer: the name after the architecture's layer prefix and "N." */
    enum kg_convert_side experts, rows, cols;
    enum kg_convert_rows row_map;
    bool transposed;
    bool f32;      /* always F32, like vectors and biases */
    bool plus_one; /* what is written is w + 1: norms that a model stores as their difference from 1 */
    bool packable; /* the source may be MXFP4, not transposed: `hf`_blocks (experts, rows, cols / 32, 16) and
                      `hf`_scales */
    enum kg_convert_when when;
};

struct kg_convert_rules {
    unsigned architectures;             /* bits of kg_hf_architecture_bit */
    const char *layer_prefix;           /* "model.layers." */
    const char *optional_prefix;        /* some folders have it before every name; or NULL */
    const struct kg_convert_rule *once; /* outside the layers */
    const struct kg_convert_rule *layer;
    size_t n_once, n_layer;
    const char *const *ignored; /* suffixes of tensors that are not weights; NULL-terminated */
};

/* The rules of an architecture; never NULL for one that kg_hf_config_read returns. */
const struct kg_convert_rules *kg_convert_rules_of(const struct kg_hf_architecture *architecture);

/* Whether the model has the rule's tensor. */
bool kg_convert_rule_applies(const struct kg_convert_rule *rule, const struct kg_hf_config *config);

/* The length of a dimension, in elements. */
uint64_t kg_convert_side_elems(enum kg_convert_side side, const struct kg_hf_config *config);

#endif
