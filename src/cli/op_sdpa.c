/* Scaled-dot-product attention and its quantisation for `kigo op`: tensors of a file, dense. */
#include "base/size.h"
#include "cli/op_call.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Quantised numbers mean nothing without their scales. */
enum kg_status kg_op_settle_sdpa(struct kg_op_call *c, struct kg_error *err) {
    static const char *const SCALES[] = { "q_scale", "k_scale", "v_scale" };
    const bool quantized = kg_precision_is_quantized(c->quantized);
    for (size_t i = 0; i < KG_COUNT_OF(SCALES); i++) {
        if (quantized == (kg_op_data(c, SCALES[i]) != NULL)) continue;
        return kg_fail(err, KG_ERR_USAGE,
                       quantized ? "tensor '%s' is missing; E4M3 and int8 inputs need it"
                                 : "tensor '%s' is of no use without E4M3 or int8 inputs",
                       SCALES[i]);
    }
    if (kg_op_length(c, "n_heads") % kg_op_length(c, "n_kv_heads") != 0)
        return kg_fail(err, KG_ERR_USAGE, "%u heads cannot share %u KV heads", kg_op_length(c, "n_heads"),
                       kg_op_length(c, "n_kv_heads"));
    return KG_OK;
}

/* Zero, as the contract wants it. */
static enum kg_status put_workspace(struct kg_op_call *c, struct kg_sdpa_args *args, struct kg_error *err) {
    const uint64_t size_bytes = kg_sdpa_workspace_bytes(args);
    void *zeros;
    if (size_bytes == 0) return KG_OK;
    enum kg_status status = kg_op_host_alloc(size_bytes, &zeros, err);
    if (status != KG_OK) return status;
    memset(zeros, 0, size_bytes);
    status = kg_op_put(c, zeros, size_bytes, &args->workspace, err);
    free(zeros);
    return status;
}

enum kg_status kg_op_run_sdpa(struct kg_op_call *c, struct kg_error *err) {
    const double scale = kg_op_param(c, "scale");
    struct kg_sdpa_args args = {
        .inputs = c->quantized,
        .output = c->activations,
        .variant = (enum kg_sdpa_variant)kg_op_param(c, "variant"),
        .q = kg_op_data(c, "q"),
        .k = kg_op_data(c, "k"),
        .v = kg_op_data(c, "v"),
        .y = kg_op_data(c, "out"),
        .q_scale = kg_op_data(c, "q_scale"),
        .k_scale = kg_op_data(c, "k_scale"),
        .v_scale = kg_op_data(c, "v_scale"),
        .sinks = kg_op_data(c, "sinks"),
        .n_batch = kg_op_length(c, "n_batch"),
        .n_heads = kg_op_length(c, "n_heads"),
        .n_kv_heads = kg_op_length(c, "n_kv_heads"),
        .n_queries = kg_op_length(c, "n_queries"),
        .n_keys = kg_op_length(c, "n_keys"),
        .head_dim = kg_op_length(c, "head_dim"),
        .causal = kg_op_param(c, "causal") != 0,
        .window = (uint32_t)kg_op_param(c, "window"),
    };
    args.scale = isnan(scale) ? (float)(1 / sqrt((double)args.head_dim)) : (float)scale;
    args.q_strides = args.y_strides = kg_sdpa_dense(args.n_heads, args.n_queries, args.head_dim);
    args.k_strides = args.v_strides = kg_sdpa_dense(args.n_kv_heads, args.n_keys, args.head_dim);
    const enum kg_status status = put_workspace(c, &args, err);
    return status == KG_OK ? c->backend->ops->sdpa(c->backend, &args, err) : status;
}

enum kg_status kg_op_settle_sdpa_quantize(struct kg_op_call *c, struct kg_error *err) {
    (void)err;
    c->quantized = kg_op_param(c, "int8") != 0 ? KG_PRECISION_I8 : KG_PRECISION_F8;
    return KG_OK;
}

enum kg_status kg_op_run_sdpa_quantize(struct kg_op_call *c, struct kg_error *err) {
    struct kg_sdpa_quantize_args args = {
        .input = c->activations,
        .output = c->quantized,
        .x = kg_op_data(c, "x"),
        .y = kg_op_data(c, "out"),
        .scale = kg_op_data(c, "scale"),
        .n_batch = kg_op_length(c, "n_batch"),
        .n_heads = kg_op_length(c, "n_heads"),
        .n_rows = kg_op_length(c, "n_rows"),
        .head_dim = kg_op_length(c, "head_dim"),
    };
    args.x_strides = args.y_strides = kg_sdpa_dense(args.n_heads, args.n_rows, args.head_dim);
    return c->backend->ops->sdpa_quantize(c->backend, &args, err);
}
