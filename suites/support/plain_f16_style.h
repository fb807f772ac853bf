/* What the files of the plain FP16 implementations share: where one rounds, and its operations over experts. */
#ifndef KIGO_SUITES_PLAIN_F16_STYLE_H
#define KIGO_SUITES_PLAIN_F16_STYLE_H

#include "base/buffer.h"
#include <string.h>
#include "format/dtype.h"
#include "ops/ops.h"
#include <stdlib.h>

/* Where an implementation rounds to FP16 beside the result of an operation. */
struct style {
    bool steps;        /* after each elementary step of a norm, rope, an activation and a bias */
    bool scores;       /* the scores q k scale, and the weights once they sum to 1; else only exp(score - max) */
    bool scaled_q;     /* q scale, before the scores */
    bool float32_sums; /* matrix products in 16 float32 sums, each of every sixteenth product; else double */
};

static inline float rounded(double x) {
    return kg_f16_to_f32(kg_f32_to_f16((float)x));
}

static inline float step(const struct style *s, double x) {
    return s->steps ? rounded(x) : (float)x;
}

static inline float *widened(const void *halves, size_t n) {
    float *x = kg_xcalloc(n + 1, sizeof *x);
    kg_dtype_info(KG_DTYPE_F16)->decode(halves, x, n);
    return x;
}

static inline float *copied(const float *from, size_t n) {
    float *x = kg_xcalloc(n + 1, sizeof *x);
    memcpy(x, from, n * sizeof *x);
    return x;
}

/* Rounds n elements to y and frees them. */
static inline void give(float *x, size_t n, void *y) {
    for (size_t i = 0; i < n; i++) ((uint16_t *)y)[i] = kg_f32_to_f16(x[i]);
    free(x);
}

/* plain_f16_experts.c; linear is the style's own. */
enum kg_status kg_plain_f16_experts_linear(const struct style *s, const struct kg_experts_linear_args *args,
                                           enum kg_status (*linear)(const struct style *, const struct kg_linear_args *,
                                                                    struct kg_error *),
                                           struct kg_error *err);
enum kg_status kg_plain_f16_experts_combine(const struct style *s, const struct kg_experts_combine_args *args);

#endif
