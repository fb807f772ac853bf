/* rmsnorm: y[r][i] = x[r][i] / sqrt(mean_j x[r][j]^2 + eps) * weight[i]. y may be x. (Zhang, Sennrich, Root Mean Square
 * Layer Normalization, 2019.) */
#ifndef KIGO_OPS_RMSNORM_H
#define KIGO_OPS_RMSNORM_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

struct kg_rmsnorm_args {
    enum kg_precision activations;
    const void *x;       /* (n_rows, n_cols) */
    const float *weight; /* (n_cols) */
    void *y;             /* (n_rows, n_cols) */
    uint32_t n_rows, n_cols;
    float eps;       /* >= 0 */
    bool wide_input; /* x is float32 even if activations are not; y may be x only if both are float32 */
};

KG_WARN_UNUSED enum kg_status kg_rmsnorm_check(const struct kg_rmsnorm_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_rmsnorm(struct kg_thread_pool *pool, const struct kg_rmsnorm_args *args,
                                             struct kg_error *err);

#endif
