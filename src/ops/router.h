/* router: selects the top-k experts of each row and their weights.
 *
 *     ids[r][0 .. k) = the experts of the k largest logits[r][e], largest first, the lower id first on a tie
 *     weights[r][j] = exp(l_j) / sum_i exp(l_i), l_j = logits[r][ids[r][j]]: a softmax over the chosen
 *
 * A row with a NaN or infinite logit gets NaN weights; its ids are still in range and distinct. */
#ifndef KIGO_OPS_ROUTER_H
#define KIGO_OPS_ROUTER_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include <stdint.h>

enum { KG_ROUTER_MAX_EXPERTS = 1024 };

struct kg_router_args {
    const float *logits; /* (n_rows, n_experts), float32 in every precision */
    int32_t *ids;        /* (n_rows, n_used) */
    float *weights;      /* (n_rows, n_used) */
    uint32_t n_rows;
    uint32_t n_experts; /* <= KG_ROUTER_MAX_EXPERTS */
    uint32_t n_used;    /* k, in [1, n_experts] */
};

KG_WARN_UNUSED enum kg_status kg_router_check(const struct kg_router_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_router(struct kg_thread_pool *pool, const struct kg_router_args *args,
                                            struct kg_error *err);

#endif
