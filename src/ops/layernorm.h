/* layernorm: y[r][i] = (x[r][i] - mean_r) / sqrt(var_r + eps) * weight[i] + bias[i], mean_r = mean_j x[r][j] and
 * var_r = mean_j (x[r][j] - mean_r)^2 (of n, not n - 1). y may be x. A row of equal elements gives the bias, for any
 * eps > 0; with eps 0 it gives NaN. A NaN or infinite element makes its whole row NaN.
 * (Ba, Kiros, Hinton, Layer Normalization, 2016.)
 *
 * Both back ends take the mean first and the squares of what is left, so that digits are not lost where the mean is
 * large beside the deviation. */
#ifndef KIGO_OPS_LAYERNORM_H
#define KIGO_OPS_LAYERNORM_H

#include "base/threads.h"
#include <kigo/engine.h>
#include <kigo/status.h>
#include <stdint.h>

struct kg_layernorm_args {
    enum kg_precision activations;
    const void *x;       /* (n_rows, n_cols) */
    const float *weight; /* (n_cols) */
    const float *bias;   /* (n_cols) or NULL: none */
    void *y;             /* (n_rows, n_cols) */
    uint32_t n_rows, n_cols;
    float eps; /* >= 0 */
};

KG_WARN_UNUSED enum kg_status kg_layernorm_check(const struct kg_layernorm_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_layernorm(struct kg_thread_pool *pool, const struct kg_layernorm_args *args,
                                               struct kg_error *err);

#endif
