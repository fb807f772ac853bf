/* add: y = a + b, elementwise, for the residual stream. y may be a or b. */
#ifndef KIGO_OPS_ADD_H
#define KIGO_OPS_ADD_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include <stdint.h>

struct kg_add_args {
    enum kg_precision activations;
    const void *a, *b; /* (n_rows, n_cols) */
    void *y;           /* (n_rows, n_cols) */
    uint32_t n_rows, n_cols;
};

KG_WARN_UNUSED enum kg_status kg_add_check(const struct kg_add_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_add(struct kg_thread_pool *pool, const struct kg_add_args *args,
                                         struct kg_error *err);

#endif
