/* Dot products of float32 vectors, accumulated in double in a fixed order.
 *
 * Product i is added to accumulator i mod KG_DOT_LANES; at the end the accumulators are added pairwise. The order
 * depends only on the length, so the result has the same bits for vector registers of any width. A fused multiply-add
 * changes nothing either: the product of two floats is exact in double. */
#ifndef KIGO_OPS_DOT_H
#define KIGO_OPS_DOT_H

#include <stddef.h>
#include <string.h>

enum { KG_DOT_LANES = 8 };

/* lanes[i mod KG_DOT_LANES] += a[i] * b[i]. All calls for one vector but the last need an n that is a multiple of
 * KG_DOT_LANES. */
static inline void kg_dot_accumulate(double lanes[KG_DOT_LANES], const float *a, const float *b, size_t n) {
    double sum[KG_DOT_LANES];
    size_t i = 0;
    memcpy(sum, lanes, sizeof sum);
    for (; i + KG_DOT_LANES <= n; i += KG_DOT_LANES)
        for (size_t lane = 0; lane < KG_DOT_LANES; lane++) sum[lane] += (double)a[i + lane] * (double)b[i + lane];
    for (size_t lane = 0; i < n; i++, lane++) sum[lane] += (double)a[i] * (double)b[i];
    memcpy(lanes, sum, sizeof sum);
}

static inline double kg_dot_finish(const double lanes[KG_DOT_LANES]) {
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

static inline double kg_dot(const float *a, const float *b, size_t n) {
    double lanes[KG_DOT_LANES] = { 0 };
    kg_dot_accumulate(lanes, a, b, n);
    return kg_dot_finish(lanes);
}

#endif
