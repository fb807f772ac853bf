/* The workspace of a single operation, for callers that run one without a model: the back end is asked for the plan of
 * a session whose model is no larger than that operation. */
#ifndef KIGO_ENGINE_OP_WORKSPACE_H
#define KIGO_ENGINE_OP_WORKSPACE_H

#include "backend/backend.h"

struct kg_op_extent {
    enum kg_precision activations, kv;
    uint32_t n_rows;
    uint32_t n_in, n_out;                          /* of a matrix */
    uint32_t n_heads, n_kv_heads, head_dim, n_ctx; /* of attention; n_heads 0: there is none */
};

/* *size_bytes = what args->workspace must have. KG_ERR_UNSUPPORTED naming what the back end cannot do. */
KG_WARN_UNUSED enum kg_status kg_op_workspace_bytes(struct kg_backend *backend, const struct kg_op_extent *extent,
                                                    uint64_t *size_bytes, struct kg_error *err);

#endif
