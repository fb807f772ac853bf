/* swiglu: y = silu(gate) * up, silu(g) = g / (1 + exp(-g)). y may be gate or up. (Shazeer, GLU Variants, 2020.) */
#ifndef KIGO_OPS_SWIGLU_H
#define KIGO_OPS_SWIGLU_H

#include "base/threads.h"
#include <kigo/engine.h>
#include <kigo/status.h>
#include <stdint.h>

struct kg_swiglu_args {
    enum kg_precision activations;
    const void *gate, *up; /* (n_rows, n_cols) */
    void *y;               /* (n_rows, n_cols) */
    uint32_t n_rows, n_cols;
};

KG_WARN_UNUSED enum kg_status kg_swiglu_check(const struct kg_swiglu_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_swiglu(struct kg_thread_pool *pool, const struct kg_swiglu_args *args,
                                            struct kg_error *err);

#endif
