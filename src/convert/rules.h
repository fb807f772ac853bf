/* The tensors of each architecture: their names in a Hugging Face folder and in a GGUF file, their shapes, and how the
 * one becomes the other. Names and arrangement are those of llama.cpp's converter. */
#ifndef KIGO_CONVERT_RULES_H
#define KIGO_CONVERT_RULES_H

#include "convert/hf_config.h"
#include <stddef.h>

/* Lengths of a tensor's sides by meaning. */
enum kg_convert_side {
    KG_SIDE_ONE,
    KG_SIDE_VOCAB,
    KG_SIDE_CONTEXT,
    KG_SIDE_EMBD,
    KG_SIDE_Q,  /* heads times head size */
    KG_SIDE_KV, /* key-value heads times head size */
    KG_SIDE_QKV,
    KG_SIDE_FF,
    KG_SIDE_GATE_AND_UP,
    KG_SIDE_HEADS,
    KG_SIDE_HEAD_DIM,
    KG_SIDE_EXPERTS,
};

/* Row r of what is written is this row of the source. */
enum kg_convert_rows {
    KG_ROWS_SAME,
    KG_ROWS_PAIRED, /* per head, rows (i, i + half) become (2i, 2i + 1): pairs of rope side by side */
    KG_ROWS_EVEN,   /* 2r: of gate and up, which the source interleaves */
    KG_ROWS_ODD,    /* 2r + 1 */
};

/* When a model has the tensor. */
enum kg_convert_when {
    KG_WHEN_ALWAYS,
    KG_WHEN_UNTIED,         /* the output is not the embedding */
    KG_WHEN_ATTENTION_BIAS, /* config.json says attention_bias */
    KG_WHEN_MLP_BIAS,
};

/* Of the written tensor, slowest side first: experts, rows, cols; a vector has cols ONE. The source is (experts, rows,
 * cols), or (experts, cols, rows) if `transposed`, with twice the rows for KG_ROWS_EVEN and KG_ROWS_ODD. */
struct kg_convert_rule {
    const char *gguf; /* of a layer: behind "blk.N." */
    const char *hf;   /* of a layer: behind the architecture's layer prefix and "N." */
    enum kg_convert_side experts, rows, cols;
    enum kg_convert_rows row_map;
    bool transposed;
    bool f32;      /* F32 whatever type is asked for; so are vectors and biases */
    bool plus_one; /* what is written is w + 1: norms that a model stores as their difference from 1 */
    bool packable; /* may come as `hf`_blocks (experts, rows, cols / 32, 16) and `hf`_scales: MXFP4, not transposed */
    enum kg_convert_when when;
};

struct kg_convert_rules {
    unsigned architectures;             /* bits of kg_hf_architecture_bit */
    const char *layer_prefix;           /* "model.layers." */
    const char *optional_prefix;        /* before every name, in some folders; or NULL */
    const struct kg_convert_rule *once; /* before and behind the layers */
    const struct kg_convert_rule *layer;
    size_t n_once, n_layer;
    const char *const *ignored; /* endings of names of what is no weight, up to NULL */
};

/* Never NULL for an architecture of kg_hf_config_read. */
const struct kg_convert_rules *kg_convert_rules_of(const struct kg_hf_architecture *architecture);

/* Whether this model has the rule's tensor. */
bool kg_convert_rule_applies(const struct kg_convert_rule *rule, const struct kg_hf_config *config);

/* In elements. */
uint64_t kg_convert_side_elems(enum kg_convert_side side, const struct kg_hf_config *config);

#endif
