/* layernorm: y[r][i] = (x[r][i] - mean_r) / sqrt(var_r + eps) * weight[i] + bias[i], mean_r = mean_j x[r][j] and var_r
 * = mean_j (x[r][j] - mean_r)^2 (divided by n, not n - 1). y may be x. A row of equal elements gives the bias if eps >
 * 0, and NaN if eps is 0. A NaN or infinite element makes its whole row NaN. (Ba, Kiros, Hinton, Layer Normalization,
 * 2016.)
 *
 * The variance takes two passes, mean first, on both back ends: a mean that is large relative to the deviation costs no
 * digits. */
#ifndef KIGO_OPS_LAYERNORM_H
#define KIGO_OPS_LAYERNORM_H

#include "base/threads.h"
#include <kigo/ops.h>
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
