/* linear: y = x W^T + bias, y[r][o] = sum_i x[r][i] * W[o][i] + bias[o]. W may have any block format; its rows are
 * decoded on the fly. y may not overlap x. */
#ifndef KIGO_OPS_LINEAR_H
#define KIGO_OPS_LINEAR_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include "ops/weight.h"
#include <stdbool.h>
#include <stdint.h>

struct kg_linear_args {
    enum kg_precision activations; /* of x */
    enum kg_precision output;      /* of y: like activations, or f32 (logits) */
    const void *x;                 /* (n_rows, weight.n_cols) */
    struct kg_weight weight;       /* (n_out, n_in) */
    const float *bias;             /* (n_out); NULL: none */
    void *y;                       /* (n_rows, weight.n_rows) */
    uint32_t n_rows;
    void *workspace; /* the session's, at least the bytes session_plan returned; NULL if 0 */
};

KG_WARN_UNUSED enum kg_status kg_linear_check(const struct kg_linear_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_linear(struct kg_thread_pool *pool, const struct kg_linear_args *args,
                                            struct kg_error *err);

/* The same for arguments that are good, in float32; `adds`: y += it. */
void kg_linear_on_cpu(struct kg_thread_pool *pool, const struct kg_linear_args *args, bool adds);

#endif
