/* swiglu: y = g / (1 + exp(-alpha (g + cubic g^3))) * (u + up_offset),
 *
 *     g = min(gate, limit), u = max(-limit, min(up, limit)) with a limit > 0;    g = gate, u = up with limit 0
 *
 * The gate is clamped from above only. alpha 1, up_offset 0 and no limit give the usual silu(gate) * up (Shazeer, GLU
 * Variants, 2020); gpt-oss has limit 7, alpha 1.702, up_offset 1. alpha sqrt(8 / pi) and cubic 0.044715 give gelu(gate)
 * * up in gelu's tanh form (gemma3's GeGLU), because (1 + tanh(z)) / 2 = 1 / (1 + exp(-2z)). y may be gate or up. A NaN
 * in gate or up gives NaN in y. */
#ifndef KIGO_OPS_SWIGLU_H
#define KIGO_OPS_SWIGLU_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include <stdint.h>

struct kg_swiglu_args {
    enum kg_precision activations;
    const void *gate, *up; /* (n_rows, n_cols) */
    void *y;               /* (n_rows, n_cols) */
    uint32_t n_rows, n_cols;
    float limit;     /* >= 0; 0: none */
    float alpha;     /* > 0; 1: silu */
    float up_offset; /* 0: none */
    float cubic;     /* >= 0; 0: none; above 0 only without a limit */
};

KG_WARN_UNUSED enum kg_status kg_swiglu_check(const struct kg_swiglu_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_swiglu(struct kg_thread_pool *pool, const struct kg_swiglu_args *args,
                                            struct kg_error *err);

/* y of one gate and up, in double; of `form` limit, alpha, up_offset and cubic are read. */
double kg_swiglu_of(const struct kg_swiglu_args *form, double gate, double up);

#endif
