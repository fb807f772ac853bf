/* The program of the persistent kernel (step.cu): shapes, pointers, and the packets that blocks exchange. It is the
 * kernel's parameter; the layers are in device memory.
 *
 * A layer is five products and an attention. Each takes a vector that all blocks need and gives one:
 *     qkv       norm(x) Wq, Wk, Wv               (n_heads + 2 n_kv_heads) head_dim
 *     attention rope, cache, softmax(q k) v      n_heads head_dim
 *     attn_out  x1 = x + attention Wo            n_embd
 *     gate_up   silu(norm(x1) Wgate) norm(x1) Wup  n_ff
 *     down      x2 = x1 + gate_up Wdown          n_embd
 * and after the last layer `output`: logits = norm(x2) Woutput. */
#ifndef KIGO_KERNELS_DECODE_PERSISTENT_PROGRAM_H
#define KIGO_KERNELS_DECODE_PERSISTENT_PROGRAM_H

#include "kernels/block/rotation.cuh"
#include <cuda_fp16.h>
#include <cstdint>

enum kg_persistent_limits {
    KG_PERSISTENT_MAX_LAYERS = 128,
    KG_PERSISTENT_MAX_HEAD_DIM = 128,
    KG_PERSISTENT_MAX_GROUP = 8, /* query heads of a KV head */
    KG_PERSISTENT_MAX_DIRECT = 2 /* splits that every reader of an attention merges itself */
};

/* A product's matrix, and how it goes through the ring of shared memory: a slot is slot_rows rows of piece_cols
 * columns. Block i of B has the rows [i n / B, (i + 1) n / B) of n = n_rows / unit, times unit. */
struct kg_persistent_matrix {
    uint32_t n_rows, n_cols; /* n_rows: outputs; a gated output has two rows of weights */
    uint32_t unit;           /* outputs that stay in one block together */
    uint32_t weight_rows;    /* rows of weights an output has: 1, or 2 where gated */
    uint32_t slot_rows, piece_cols;
    uint32_t block_bits; /* a row has 2^block_bits rows of a tensor-core operand (F16) */
};

enum kg_persistent_product {
    KG_PERSISTENT_QKV,
    KG_PERSISTENT_ATTN_OUT,
    KG_PERSISTENT_GATE_UP,
    KG_PERSISTENT_DOWN,
    KG_PERSISTENT_OUTPUT,
    KG_PERSISTENT_PRODUCTS
};

enum kg_persistent_weight {
    KG_PERSISTENT_Q,
    KG_PERSISTENT_K,
    KG_PERSISTENT_V,
    KG_PERSISTENT_O,
    KG_PERSISTENT_GATE,
    KG_PERSISTENT_UP,
    KG_PERSISTENT_FFN_OUT,
    KG_PERSISTENT_WEIGHTS
};

/* Device memory; biases may be NULL. */
struct kg_persistent_layer {
    const void *weight[KG_PERSISTENT_WEIGHTS];
    const float *attn_norm, *ffn_norm;
    const float *bias[KG_PERSISTENT_WEIGHTS];
    void *k_cache, *v_cache; /* (n_kv_heads, n_ctx, head_dim) */
};

/* Packets (exchange.cuh): 32 bits of value in the low half, the epoch in the high half. Activations: one float32 or two
 * float16 a packet; splits: one float32. */
struct kg_persistent_packets {
    uint64_t *qkv;       /* q, k, v one after another */
    uint64_t *attention; /* (n_heads, head_dim) */
    uint64_t *x1, *x2;   /* (n_embd) */
    uint64_t *gated;     /* (n_ff) */
    uint64_t *partial;   /* (n_splits, n_heads, head_dim): values before the division by their weight */
    uint64_t *weight;    /* (n_splits, n_heads, 2): largest score, sum of weights */
};

/* Offsets in a block's shared memory, in bytes. */
struct kg_persistent_shared_map {
    uint32_t x;        /* the vector of a product */
    uint32_t layers;   /* n_layers + 1: the one past the end is not used */
    uint32_t norm;     /* norm weights (n_embd) of a product with a norm */
    uint32_t biases;   /* two of bias_bytes: biases (bias_rows, 2) of a product */
    uint32_t barriers; /* mbarriers of the slots: full, then empty */
    uint32_t slots;
    uint32_t bias_bytes;
    uint32_t n_bytes;
};

struct kg_persistent_program {
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_ctx;
    uint32_t group; /* query heads of a KV head */
    bool rope_half; /* pairs (i, i + n_rot/2), else (2i, 2i + 1) */
    float norm_eps, attn_scale;
    struct kg_rope_angles rope; /* its factors are those of this position */
    const void *embedding;
    const float *output_norm;
    const void *output;
    float *logits;
    const int32_t *id_in_place;
    int32_t id; /* of the token; KG_ID_IN_PLACE: *id_in_place */
    uint32_t position;
    uint32_t epoch;                          /* of the first layer; layer i has epoch + i; never 0 */
    uint32_t window;                         /* keys that a query sees, in every layer; 0: all before it */
    uint32_t first_key;                      /* that this position sees */
    uint32_t n_splits, keys_per_split;       /* of this position */
    uint32_t n_parts, part_heads;            /* of a KV head's query heads, so that there are jobs for more blocks */
    uint32_t max_splits, min_keys_per_split; /* of all */
    bool is_f16;                             /* matrices, activations and cache; else all float32 */
    uint32_t slot_bytes, n_slots;
    uint32_t max_in_flight; /* slots whose copies are in flight, at most */
    uint32_t bias_rows;     /* outputs of a block with biases, at most */
    struct kg_persistent_shared_map shared;
    struct kg_persistent_matrix matrix[KG_PERSISTENT_PRODUCTS];
    struct kg_persistent_packets packets;
    const struct kg_persistent_layer *layers;
};

#endif
