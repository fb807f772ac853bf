#include "engine/op_workspace.h"
#include <kigo/model.h>

enum { ANY_HEAD_DIM = 64 }; /* one that every back end has */

enum kg_status kg_op_workspace_bytes(struct kg_backend *backend, const struct kg_op_extent *extent,
                                     uint64_t *size_bytes, struct kg_error *err) {
    const bool attends = extent->n_heads > 0;
    const uint32_t n_ctx = attends ? extent->n_ctx : extent->n_rows;
    const struct kg_model_config config = {
        .architecture = "qwen2",
        .n_vocab = extent->n_out,
        .n_ctx_train = n_ctx,
        .n_embd = extent->n_in,
        .n_layers = 1,
        .n_heads = attends ? extent->n_heads : 1,
        .n_kv_heads = attends ? extent->n_kv_heads : 1,
        .head_dim = attends ? extent->head_dim : ANY_HEAD_DIM,
        .n_ff = extent->n_in,
        .norm_eps = 1e-6f,
        .rope_pairing = KG_ROPE_HALF,
        .n_rot = attends ? extent->head_dim : ANY_HEAD_DIM,
        .rope_freq_base = 10000,
        .rope_freq_scale = 1,
        .rope_magnitude = 1,
        .attn_scale = 1,
    };
    const struct kg_session_plan plan = { .config = &config,
                                          .activations = extent->activations,
                                          .kv = extent->kv,
                                          .n_ctx = n_ctx,
                                          .max_rows = extent->n_rows };
    return backend->ops->session_plan(backend, &plan, size_bytes, err);
}
