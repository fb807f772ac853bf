/* attention: softmax(q k^T scale) v per head, grouped queries, over a cache.
 *
 * Row r is at position p = n_keys - n_rows + r; with `causal` it sees keys 0..p (the queries are aligned with the end
 * of the keys), without it all n_keys. A window w > 0 leaves only keys j with p - j < w (causal only).
 *
 *     y[r][h] = sum_j softmax_j(q[r][h] . k[g][j] * scale) * v[g][j],    g = h / (n_heads / n_kv_heads)
 *
 * A sink is one more logit of the head, not scaled and without a value: it is in the softmax's denominator only.
 *
 * The softmax subtracts the running maximum; sums are double. y may not overlap q. (Xiao et al., Efficient Streaming
 * Language Models with Attention Sinks, 2023, has sinks as tokens; these are learned numbers, as in gpt-oss.) */
#ifndef KIGO_OPS_ATTENTION_H
#define KIGO_OPS_ATTENTION_H

#include "base/threads.h"
#include <kigo/engine.h>
#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

enum { KG_ATTENTION_MAX_HEAD_DIM = 2048 };

struct kg_attention_args {
    enum kg_precision activations, kv;
    const void *q;                 /* (n_rows, n_heads, head_dim) */
    const void *k_cache, *v_cache; /* (n_kv_heads, n_ctx, head_dim), positions [0, n_keys) filled */
    void *y;                       /* (n_rows, n_heads, head_dim) */
    uint32_t n_rows;
    uint32_t n_keys;              /* n_rows <= n_keys <= n_ctx */
    uint32_t n_heads, n_kv_heads; /* n_kv_heads divides n_heads */
    uint32_t head_dim;            /* <= KG_ATTENTION_MAX_HEAD_DIM */
    uint32_t n_ctx;
    float scale;
    bool causal;
    uint32_t window;    /* in positions; 0 is none */
    void *workspace;    /* as in linear.h */
    const float *sinks; /* (n_heads); NULL for none */
};

KG_WARN_UNUSED enum kg_status kg_attention_check(const struct kg_attention_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_attention(struct kg_thread_pool *pool, const struct kg_attention_args *args,
                                               struct kg_error *err);

#endif
