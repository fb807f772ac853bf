/* sdpa: scaled-dot-product attention on plain strided tensors (no KV cache), softmax(q k^T scale) v per batch entry and
 * head.
 *
 *     s[i][j] = scale * q[b][h][i] . k[b][g][j],    g = h / (n_heads / n_kv_heads)
 *     y[b][h][i] = sum_j exp(s[i][j] - m) v[b][g][j] / (sum_j exp(s[i][j] - m) + exp(sink[h] - m))
 *
 * The sums run over the keys j that query i sees; m is the largest of its scores and its sink. Without sinks the last
 * term is 0. Query i is at position p = n_keys - n_queries + i: the queries are the last rows of the sequence, and p
 * may be negative. Full attention sees every key, causal attention keys 0..p. A window w > 0 (causal only) limits it to
 * keys j with p - j < w. A query that sees no key gives zeros, with or without a sink. Finite inputs whose scores are
 * finite in float32 give finite outputs.
 *
 * Precision. Inputs are f32, f16, f8 or i8, the last two times a float32 scale per (batch entry, head) of q, k and v.
 * f8 is E4M3 (OCP 8-bit Floating Point Specification; no infinities, largest 448), i8 is int8. On the GPU, inputs are
 * f16, f8 or i8, y is f16, and the softmax and all sums are float32 (int32 in scores of i8). On the CPU, the reference,
 * inputs are f32, f8 or i8, y is f32, and sums are double. docs/sdpa.md compares what quantisation to f8 and to i8
 * costs.
 *
 * A variant is one implementation; it has a name so that benchmarks and cases can select it. AUTO selects by shape and
 * device. A variant that does not support the shape, the precision or the device is KG_ERR_UNSUPPORTED with the reason.
 * Every variant is deterministic: the same input on the same device gives the same bits. */
#ifndef KIGO_OPS_SDPA_H
#define KIGO_OPS_SDPA_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

enum { KG_SDPA_MAX_HEAD_DIM = 2048, KG_SDPA_MAX_LENGTH = 131072 };

/* Split-K over keys: the most queries of a call that may split its keys, and the most blocks (of one KV head's rows
 * each) whose partial results the workspace holds. */
enum { KG_SDPA_SPLIT_MAX_QUERIES = 16, KG_SDPA_SPLIT_MAX_BLOCKS = 256 };

/* The largest finite E4M3 value, and the largest int8 that quantisation gives. */
#define KG_SDPA_E4M3_LARGEST 448.0f
#define KG_SDPA_I8_LARGEST 127.0f

/* X(VARIANT, name, what it is) */
#define KG_SDPA_VARIANT_LIST(X)                                                                                        \
    X(AUTO, "auto", "the fastest known for the shape and the device")                                                  \
    X(SCALAR, "scalar", "online softmax on the CUDA cores, one warp per query")                                        \
    X(MMA, "mma", "tensor cores by mma.sync, keys and values by double-buffered asynchronous copies (sm_80)")          \
    X(SPLIT, "split", "few queries: keys split over blocks, whose partial results are merged (sm_80)")                 \
    X(WGMMA, "wgmma", "tensor cores by wgmma, tiles by tensor copies, specialised warps (sm_90a)")                     \
    X(CLUSTER, "cluster", "wgmma with the keys split over a cluster, for few tiles (sm_90a)")

enum kg_sdpa_variant {
#define KG_SDPA_VARIANT_ENUM(name, text, what) KG_SDPA_##name,
    KG_SDPA_VARIANT_LIST(KG_SDPA_VARIANT_ENUM)
#undef KG_SDPA_VARIANT_ENUM
        KG_SDPA_VARIANT_COUNT
};

const char *kg_sdpa_variant_name(enum kg_sdpa_variant variant); /* "scalar" */
KG_WARN_UNUSED enum kg_status kg_sdpa_variant_from_name(const char *name, enum kg_sdpa_variant *variant,
                                                        struct kg_error *err);

/* A tensor (batch, heads, rows, head_dim): element (b, h, r, d) is at b * batch + h * head + r * row + d, in elements.
 * The tensor-core variants need the address and every stride to be multiples of 16 bytes. */
struct kg_sdpa_strides {
    uint64_t batch, head, row;
};

struct kg_sdpa_args {
    enum kg_precision inputs, output;
    enum kg_sdpa_variant variant;
    const void *q;     /* (n_batch, n_heads, n_queries, head_dim) */
    const void *k, *v; /* (n_batch, n_kv_heads, n_keys, head_dim) */
    void *y;           /* (n_batch, n_heads, n_queries, head_dim); overlaps no input; its rows are disjoint */
    struct kg_sdpa_strides q_strides, k_strides, v_strides, y_strides;
    const float *q_scale;                  /* f8, i8: (n_batch, n_heads), each finite and > 0; else NULL */
    const float *k_scale, *v_scale;        /* f8, i8: (n_batch, n_kv_heads) */
    const float *sinks;                    /* (n_heads), logits on the scale of scaled scores; NULL: none */
    uint32_t n_batch, n_heads, n_kv_heads; /* n_kv_heads divides n_heads */
    uint32_t n_queries, n_keys;            /* 0 to KG_SDPA_MAX_LENGTH */
    uint32_t head_dim;
    float scale;
    bool causal;
    uint32_t window; /* 0: none */
    /* kg_sdpa_workspace_bytes bytes; NULL if that is 0, and on the CPU. Zero it before its first use; every call leaves
     * it ready for the next. Concurrent calls need separate workspaces. */
    void *workspace;
};

/* Strides of a dense tensor (batch, n_heads, n_rows, head_dim). */
struct kg_sdpa_strides kg_sdpa_dense(uint32_t n_heads, uint32_t n_rows, uint32_t head_dim);

/* The bytes that args->workspace needs for any variant on any device; 0: none. Does not read the pointers in args. */
uint64_t kg_sdpa_workspace_bytes(const struct kg_sdpa_args *args);

KG_WARN_UNUSED enum kg_status kg_sdpa_check(const struct kg_sdpa_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_sdpa(struct kg_thread_pool *pool, const struct kg_sdpa_args *args,
                                          struct kg_error *err);

/* sdpa_quantize: quantises a tensor to E4M3 or int8 with a scale per (batch entry, head).
 *
 *     f8: scale[b][h] = max |x[b][h]| / 448,    y = e4m3(x / scale), saturating
 *     i8: scale[b][h] = max |x[b][h]| / 127,    y = int8(x / scale), -127 to 127
 *
 * Quotients are float32, rounded to nearest even; a scale that would be 0 is 1. x is f16 on the GPU and f32 on the CPU;
 * the same values give the same bits on both. A NaN in x gives, of f8, NaN in y and is ignored by the scale; of i8,
 * which has none, a scale of NaN and zeros in all of the head. An infinity makes its head's scale infinite; callers
 * must avoid it. */
struct kg_sdpa_quantize_args {
    enum kg_precision input, output; /* output: f8 or i8 */
    const void *x;                   /* (n_batch, n_heads, n_rows, head_dim) */
    void *y;                         /* the same shape: uint8_t of f8, int8_t of i8 */
    struct kg_sdpa_strides x_strides, y_strides;
    float *scale; /* (n_batch, n_heads) */
    uint32_t n_batch, n_heads, n_rows, head_dim;
};

KG_WARN_UNUSED enum kg_status kg_sdpa_quantize_check(const struct kg_sdpa_quantize_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_sdpa_quantize(struct kg_thread_pool *pool,
                                                   const struct kg_sdpa_quantize_args *args, struct kg_error *err);

#endif
