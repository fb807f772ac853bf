/* experts_linear: y[r][o] = sum_i x[r / n_sharing][i] * W[e][o][i] + bias[e][o], e = ids[r]: a matrix-vector product
 * per (token, chosen expert) pair. Weights may have any block format.
 *
 * y has one row per pair; the k rows of a token are consecutive. If they share one row of x (gate and up), n_sharing is
 * k; if each has a separate row (down), n_sharing is 1. y may not overlap x. */
#ifndef KIGO_OPS_EXPERTS_LINEAR_H
#define KIGO_OPS_EXPERTS_LINEAR_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include "ops/weight.h"
#include <stdbool.h>
#include <stdint.h>

struct kg_experts_linear_args {
    enum kg_precision activations;
    const void *x;           /* (n_rows / n_sharing, n_in) */
    struct kg_weight weight; /* (n_experts, n_out, n_in): its n_rows are n_experts * n_out, its n_cols n_in */
    uint32_t n_experts;      /* divides weight.n_rows */
    const float *bias;       /* (n_experts, n_out); NULL: none */
    const int32_t *ids;      /* (n_rows), each in [0, n_experts); only the cpu back end checks (KG_ERR_RANGE) */
    void *y;                 /* (n_rows, n_out) */
    uint32_t n_rows;
    uint32_t n_sharing; /* >= 1, divides n_rows */
    void *workspace;    /* as in linear.h */
    bool wide_output;   /* y is float32 even if activations are not */
};

KG_WARN_UNUSED enum kg_status kg_experts_linear_check(const struct kg_experts_linear_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_experts_linear(struct kg_thread_pool *pool,
                                                    const struct kg_experts_linear_args *args, struct kg_error *err);

#endif
