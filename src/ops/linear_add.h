/* linear_add: y += x W^T + bias, y[r][o] += sum_i x[r][i] * W[o][i] + bias[o]: a product that is added to the residual
 * stream.
 *
 * It stands for linear and add, of which it stores the sum alone. The product is not rounded on the CPU; on the GPU it
 * is rounded to y's precision where no kernel adds it. W may have any block format; y may not overlap x. */
#ifndef KIGO_OPS_LINEAR_ADD_H
#define KIGO_OPS_LINEAR_ADD_H

#include "ops/linear.h"

struct kg_linear_add_args {
    struct kg_linear_args linear; /* `output` is the precision of y, which is read and written */
    void *scratch;                /* kg_linear_add_scratch_bytes, on 256 bytes; the cpu back end needs none: NULL */
};

/* Room for the product. */
uint64_t kg_linear_add_scratch_bytes(const struct kg_linear_add_args *args);

KG_WARN_UNUSED enum kg_status kg_linear_add_check(const struct kg_linear_add_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_linear_add(struct kg_thread_pool *pool, const struct kg_linear_add_args *args,
                                                struct kg_error *err);

#endif
