/* attention_weights: the softmax of attention's scores by itself: what each query gives to each key.
 *
 *     s[h][i][j] = scale * q[i][h] . k[j][g],    g = h / (n_heads / n_kv_heads)
 *     y[h][i][j] = exp(s[h][i][j] - m) / (sum_l exp(s[h][i][l] - m) + exp(sinks[h] - m))
 *
 * The sum runs over the keys l that query i sees, m is the largest of their scores and the sink; of the others y is 0.
 * Without sinks the last term is 0. Query i is at position p = n_keys - n_queries + i, which may be negative. With
 * `causal` it sees keys 0..p, otherwise all; a window w > 0 (causal only) limits it to keys j with p - j < w. A query
 * that sees no key, or only scores of -inf and no sink, gives zeros. A NaN or +inf among its scores makes what it sees
 * NaN. attention and sdpa compute the weights' sum of values without storing them; unfused, this is linear and softmax.
 *
 * Any number of keys: a row of scores is never in memory. Sums are double on the CPU, float32 on the GPU. */
#ifndef KIGO_OPS_ATTENTION_WEIGHTS_H
#define KIGO_OPS_ATTENTION_WEIGHTS_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

struct kg_attention_weights_args {
    enum kg_precision activations;
    const void *q;      /* (n_queries, n_heads, head_dim) */
    const void *k;      /* (n_keys, n_kv_heads, head_dim) */
    void *y;            /* (n_heads, n_queries, n_keys); overlaps no input */
    const float *sinks; /* (n_heads), logits on the scale of scaled scores; NULL: none */
    uint32_t n_queries, n_keys;
    uint32_t n_heads, n_kv_heads; /* n_kv_heads divides n_heads */
    uint32_t head_dim;            /* 1 to KG_ATTENTION_MAX_HEAD_DIM (attention.h) */
    float scale;
    bool causal;
    uint32_t window; /* 0: none */
};

KG_WARN_UNUSED enum kg_status kg_attention_weights_check(const struct kg_attention_weights_args *args,
                                                         struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_attention_weights(struct kg_thread_pool *pool,
                                                       const struct kg_attention_weights_args *args,
                                                       struct kg_error *err);

#endif
