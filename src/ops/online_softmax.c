#include "ops/online_softmax.h"
#include "base/clones.h"
#include "ops/dot.h"
#include <math.h>

enum { KEY_BLOCK = 64 };

void kg_online_softmax_init(struct kg_online_softmax *sum, size_t head_dim) {
    sum->largest = -INFINITY;
    sum->weight = 0;
    memset(sum->value, 0, head_dim * sizeof *sum->value);
}

/* Adds n keys, 0 < n <= KEY_BLOCK. */
KG_VECTOR_CLONES static void add_block(struct kg_online_softmax *sum, const float *q, const float *k, const float *v,
                                       size_t k_stride, size_t v_stride, size_t n, size_t dim, double scale) {
    double score[KEY_BLOCK];
    double largest = sum->largest;
    size_t j = 0;
    do { /* n is not 0: every score used below is written */
        score[j] = kg_dot(q, k + j * k_stride, dim) * scale;
        if (score[j] > largest) largest = score[j];
    } while (++j < n);
    if (largest > sum->largest) {
        const double shrink = exp(sum->largest - largest); /* exp(-inf) = 0 before the first block */
        sum->weight *= shrink;
        for (size_t d = 0; d < dim; d++) sum->value[d] *= shrink;
        sum->largest = largest;
    }
    for (j = 0; j < n; j++) {
        const double p = exp(score[j] - sum->largest);
        const float *value = v + j * v_stride;
        sum->weight += p;
        for (size_t d = 0; d < dim; d++) sum->value[d] += p * (double)value[d];
    }
}

void kg_online_softmax_add(struct kg_online_softmax *sum, const float *q, const float *k, const float *v,
                           size_t k_stride, size_t v_stride, size_t n, size_t head_dim, double scale) {
    for (size_t j = 0, block; j < n; j += block) {
        block = n - j < KEY_BLOCK ? n - j : KEY_BLOCK;
        add_block(sum, q, k + j * k_stride, v + j * v_stride, k_stride, v_stride, block, head_dim, scale);
    }
}
