/* Calls of attention, whose keys and values go to a cache first, and of its weights, as their arguments. */
#include "cli/op_spec.h"
#include <math.h>

enum kg_status kg_op_settle_attention(struct kg_op_call *c, struct kg_error *err) {
    const uint32_t n_rows = kg_op_length(c, "rows"), n_keys = kg_op_length(c, "n_keys");
    const double n_past = kg_op_param(c, "n_past");
    if (n_rows > n_keys) return kg_fail(err, KG_ERR_USAGE, "%u rows of tensor 'q', but %u keys", n_rows, n_keys);
    if (!isnan(n_past) && n_past != n_keys - n_rows)
        return kg_fail(err, KG_ERR_USAGE, "n_past is %.0f, but %u keys less %u rows are %u", n_past, n_keys, n_rows,
                       n_keys - n_rows);
    if (!isnan(kg_op_param(c, "n_ctx")) && kg_op_param(c, "n_ctx") < n_keys)
        return kg_fail(err, KG_ERR_USAGE, "n_ctx is %.0f, less than the %u keys", kg_op_param(c, "n_ctx"), n_keys);
    return KG_OK;
}

/* Keys and values go to a cache by kv_write first. */
static enum kg_status fill_caches(struct kg_op_call *c, struct kg_kv_write_args *write, struct kg_error *err) {
    const uint64_t bytes = (uint64_t)write->n_ctx * write->n_kv_heads * write->head_dim * kg_precision_bytes(c->kv);
    enum kg_status status = kg_op_alloc(c, KG_MEMORY_KV, bytes, &write->k_cache, err);
    if (status == KG_OK) status = kg_op_alloc(c, KG_MEMORY_KV, bytes, &write->v_cache, err);
    return status == KG_OK ? c->backend->ops->kv_write(c->backend, write, err) : status;
}

enum kg_status kg_op_run_attention(struct kg_op_call *c, struct kg_error *err) {
    const double scale = kg_op_param(c, "scale"), n_ctx = kg_op_param(c, "n_ctx");
    struct kg_kv_write_args write = {
        .activations = c->activations,
        .kv = c->kv,
        .k = kg_op_data(c, "k"),
        .v = kg_op_data(c, "v"),
        .n_rows = kg_op_length(c, "n_keys"),
        .n_kv_heads = kg_op_length(c, "n_kv_heads"),
        .head_dim = kg_op_length(c, "head_dim"),
        .n_ctx = isnan(n_ctx) ? kg_op_length(c, "n_keys") : (uint32_t)n_ctx,
    };
    struct kg_attention_args args = {
        .activations = c->activations,
        .kv = c->kv,
        .q = kg_op_data(c, "q"),
        .y = kg_op_data(c, "out"),
        .n_rows = kg_op_length(c, "rows"),
        .n_keys = write.n_rows,
        .n_heads = kg_op_length(c, "n_heads"),
        .n_kv_heads = write.n_kv_heads,
        .head_dim = write.head_dim,
        .n_ctx = write.n_ctx,
        .scale = isnan(scale) ? (float)(1 / sqrt((double)write.head_dim)) : (float)scale,
        .causal = kg_op_param(c, "causal") != 0,
        .window = (uint32_t)kg_op_param(c, "window"),
        .sinks = kg_op_data(c, "sinks"),
    };
    if (args.n_heads % args.n_kv_heads != 0)
        return kg_fail(err, KG_ERR_USAGE, "%u heads cannot share %u KV heads", args.n_heads, args.n_kv_heads);
    const struct kg_op_extent extent = { .n_rows = args.n_rows,
                                         .n_in = args.n_heads * args.head_dim,
                                         .n_out = args.n_heads * args.head_dim,
                                         .n_heads = args.n_heads,
                                         .n_kv_heads = args.n_kv_heads,
                                         .head_dim = args.head_dim,
                                         .n_ctx = args.n_ctx };
    enum kg_status status = fill_caches(c, &write, err);
    if (status == KG_OK) status = kg_op_workspace(c, &extent, err);
    if (status != KG_OK) return status;
    args.k_cache = write.k_cache;
    args.v_cache = write.v_cache;
    args.workspace = c->workspace;
    return c->backend->ops->attention(c->backend, &args, err);
}

enum kg_status kg_op_run_attention_weights(struct kg_op_call *c, struct kg_error *err) {
    const double scale = kg_op_param(c, "scale");
    struct kg_attention_weights_args args = {
        .activations = c->activations,
        .q = kg_op_data(c, "q"),
        .k = kg_op_data(c, "k"),
        .y = kg_op_data(c, "out"),
        .sinks = kg_op_data(c, "sinks"),
        .n_queries = kg_op_length(c, "n_queries"),
        .n_keys = kg_op_length(c, "n_keys"),
        .n_heads = kg_op_length(c, "n_heads"),
        .n_kv_heads = kg_op_length(c, "n_kv_heads"),
        .head_dim = kg_op_length(c, "head_dim"),
        .causal = kg_op_param(c, "causal") != 0,
        .window = (uint32_t)kg_op_param(c, "window"),
    };
    args.scale = isnan(scale) ? (float)(1 / sqrt((double)args.head_dim)) : (float)scale;
    return c->backend->ops->attention_weights(c->backend, &args, err);
}
