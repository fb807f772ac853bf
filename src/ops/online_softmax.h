/* Online softmax: a query's softmax-weighted sum of values over keys that arrive in several calls. attention and sdpa
 * use it.
 *
 * After keys 0..n-1 with scores s[j] = q . k[j] scale, the state in double is
 *
 *     largest = max s[j],    weight = sum exp(s[j] - largest),    value[d] = sum exp(s[j] - largest) v[j][d]
 *
 * The sums run over blocks of keys counted from the first key, and are rescaled to the largest score so far between
 * blocks. Their order, and so their bits, depend only on the query's keys. */
#ifndef KIGO_OPS_ONLINE_SOFTMAX_H
#define KIGO_OPS_ONLINE_SOFTMAX_H

#include <stddef.h>

enum { KG_ONLINE_SOFTMAX_MAX_HEAD_DIM = 2048 };

struct kg_online_softmax {
    double largest; /* -infinity before the first key */
    double weight;
    double value[KG_ONLINE_SOFTMAX_MAX_HEAD_DIM];
};

void kg_online_softmax_init(struct kg_online_softmax *sum, size_t head_dim);

/* Adds n keys. Row j of k and v starts at element j * stride. */
void kg_online_softmax_add(struct kg_online_softmax *sum, const float *q, const float *k, const float *v,
                           size_t k_stride, size_t v_stride, size_t n, size_t head_dim, double scale);

#endif
