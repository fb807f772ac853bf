/* experts_combine: y[r][i] = residual[r][i] + sum_j weights[r][j] * x[r * n_used + j][i], j < n_used: the weighted sum
 * of a row's expert outputs, plus the residual. y may be the residual, not x. */
#ifndef KIGO_OPS_EXPERTS_COMBINE_H
#define KIGO_OPS_EXPERTS_COMBINE_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include <stdint.h>

struct kg_experts_combine_args {
    enum kg_precision activations;
    const void *x;        /* (n_rows, n_used, n_cols) */
    const float *weights; /* (n_rows, n_used) */
    const void *residual; /* (n_rows, n_cols); NULL: none */
    void *y;              /* (n_rows, n_cols) */
    uint32_t n_rows, n_used, n_cols;
};

KG_WARN_UNUSED enum kg_status kg_experts_combine_check(const struct kg_experts_combine_args *args,
                                                       struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_experts_combine(struct kg_thread_pool *pool,
                                                     const struct kg_experts_combine_args *args, struct kg_error *err);

#endif
