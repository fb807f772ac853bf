/* embedding: y[r] = scale * W[ids[r]] + P[position + r], rows of weights in any block format. P, the learned positions,
 * is optional. Product and sum are float32; y is rounded from them once. */
#ifndef KIGO_OPS_EMBEDDING_H
#define KIGO_OPS_EMBEDDING_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include "ops/weight.h"
#include <stdint.h>

struct kg_embedding_args {
    enum kg_precision activations;
    struct kg_weight weight; /* (n_vocab, n_embd) */
    const int32_t *ids;      /* (n_rows), each in [0, n_vocab); only the cpu back end checks (KG_ERR_RANGE) */
    uint32_t n_rows;
    void *y;                    /* (n_rows, n_embd) */
    struct kg_weight positions; /* (n_positions, n_embd); data NULL: none */
    float scale;                /* of W's rows; 0 or 1: none */
    uint32_t position;          /* of row 0; with learned positions, position + n_rows <= n_positions */
};

KG_WARN_UNUSED enum kg_status kg_embedding_check(const struct kg_embedding_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_embedding(struct kg_thread_pool *pool, const struct kg_embedding_args *args,
                                               struct kg_error *err);

#endif
