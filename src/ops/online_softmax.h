/* A query's softmax-weighted sum of values, key after key: what attention and sdpa share.
 *
 * After keys 0..n-1 with scores s[j] = q . k[j] scale: largest = max s[j], weight = sum exp(s[j] - largest),
 * value[d] = sum exp(s[j] - largest) v[j][d], in double. Keys are taken in blocks counted from the first one added, so
 * that a query's sums are in the same order whatever else is computed; between blocks they are kept relative to the
 * largest score so far. */
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

/* Adds n keys: row j of k and v begins at element j * stride. */
void kg_online_softmax_add(struct kg_online_softmax *sum, const float *q, const float *k, const float *v,
                           size_t k_stride, size_t v_stride, size_t n, size_t head_dim, double scale);

#endif
