/* attention: softmax(q k^T scale) v per head over the KV cache, with grouped-query heads (GQA).
 *
 * Row r is at position p = n_keys - n_rows + r: the queries are the last rows of the sequence. With `causal`, a row
 * sees keys 0..p, otherwise all n_keys. A window w > 0 (causal only) limits it to keys j with p - j < w.
 *
 *     y[r][h] = sum_j softmax_j(q[r][h] . k[g][j] * scale) * v[g][j],    g = h / (n_heads / n_kv_heads)
 *
 * A sink is an extra logit per head, unscaled and without a value: it only adds to the softmax's denominator. Sinks are
 * learned numbers, as in gpt-oss; in Xiao et al., Efficient Streaming Language Models with Attention Sinks, 2023, they
 * are tokens.
 *
 * The softmax is online: it subtracts the running maximum. Sums are double. y may not overlap q. */
#ifndef KIGO_OPS_ATTENTION_H
#define KIGO_OPS_ATTENTION_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

enum { KG_ATTENTION_MAX_HEAD_DIM = 2048 };

struct kg_attention_args {
    enum kg_precision activations, kv;
    const void *q;                 /* (n_rows, n_heads, head_dim) */
    const void *k_cache, *v_cache; /* (n_kv_heads, n_ctx, head_dim); positions [0, n_keys) are filled */
    void *y;                       /* (n_rows, n_heads, head_dim) */
    uint32_t n_rows;
    uint32_t n_keys;              /* n_rows <= n_keys <= n_ctx */
    uint32_t n_heads, n_kv_heads; /* n_kv_heads divides n_heads */
    uint32_t head_dim;            /* <= KG_ATTENTION_MAX_HEAD_DIM */
    uint32_t n_ctx;
    float scale;
    bool causal;
    uint32_t window;    /* in positions; 0: none */
    void *workspace;    /* as in linear.h */
    const float *sinks; /* (n_heads); NULL: none */
};

KG_WARN_UNUSED enum kg_status kg_attention_check(const struct kg_attention_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_attention(struct kg_thread_pool *pool, const struct kg_attention_args *args,
                                               struct kg_error *err);

#endif
