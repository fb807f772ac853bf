/* softmax: y[r][i] = exp(scale x[r][i] - m_r) / sum_j exp(scale x[r][j] - m_r), m_r = max_j scale x[r][j]. y may be x.
 *
 * An element of -inf is masked: its y is 0. A fully masked row (all -inf) gives zeros, not NaN. A NaN or +inf makes its
 * whole row NaN. Finite rows never overflow. */
#ifndef KIGO_OPS_SOFTMAX_H
#define KIGO_OPS_SOFTMAX_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include <stdint.h>

struct kg_softmax_args {
    enum kg_precision activations;
    const void *x; /* (n_rows, n_cols) */
    void *y;       /* (n_rows, n_cols) */
    uint32_t n_rows, n_cols;
    float scale; /* > 0; 1: none */
};

KG_WARN_UNUSED enum kg_status kg_softmax_check(const struct kg_softmax_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_softmax(struct kg_thread_pool *pool, const struct kg_softmax_args *args,
                                             struct kg_error *err);

#endif
