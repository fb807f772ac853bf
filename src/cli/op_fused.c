/* Calls of the operations that are several in one, as their arguments. */
#include "cli/op_spec.h"

/* call->workspace for products with matrices of so many outputs at most, and room for what is between the steps. */
static enum kg_status make_room(struct kg_op_call *c, uint32_t n_out, uint64_t scratch_bytes, void **scratch,
                                struct kg_error *err) {
    const struct kg_op_extent extent = { .n_rows = kg_op_length(c, "rows"),
                                         .n_in = kg_op_length(c, "n_in"),
                                         .n_out = n_out };
    const enum kg_status status = kg_op_workspace(c, &extent, err);
    return status ? status : kg_op_alloc(c, KG_MEMORY_WORKSPACE, scratch_bytes, scratch, err);
}

enum kg_status kg_op_run_norm_qkv(struct kg_op_call *c, struct kg_error *err) {
    struct kg_norm_qkv_args args = {
        .activations = c->activations,
        .x = kg_op_data(c, "x"),
        .norm_weight = kg_op_data(c, "norm_weight"),
        .weight = { kg_op_weight(c, "q_weight"), kg_op_weight(c, "k_weight"), kg_op_weight(c, "v_weight") },
        .bias = { kg_op_data(c, "q_bias"), kg_op_data(c, "k_bias"), kg_op_data(c, "v_bias") },
        .y = { kg_op_data(c, "q"), kg_op_data(c, "k"), kg_op_data(c, "v") },
        .n_rows = kg_op_length(c, "rows"),
        .n_cols = kg_op_length(c, "n_in"),
        .eps = (float)kg_op_param(c, "eps"),
    };
    uint32_t widest = 0;
    for (size_t p = 0; p < KG_NORM_QKV_PRODUCTS; p++)
        if (args.weight[p].n_rows > widest) widest = args.weight[p].n_rows;
    const enum kg_status status = make_room(c, widest, kg_norm_qkv_scratch_bytes(&args), &args.scratch, err);
    if (status) return status;
    args.workspace = c->workspace;
    return c->backend->ops->norm_qkv(c->backend, &args, err);
}

enum kg_status kg_op_run_norm_swiglu(struct kg_op_call *c, struct kg_error *err) {
    struct kg_norm_swiglu_args args = {
        .activations = c->activations,
        .x = kg_op_data(c, "x"),
        .norm_weight = kg_op_data(c, "norm_weight"),
        .weight = { kg_op_weight(c, "gate_weight"), kg_op_weight(c, "up_weight") },
        .bias = { kg_op_data(c, "gate_bias"), kg_op_data(c, "up_bias") },
        .y = kg_op_data(c, "out"),
        .n_rows = kg_op_length(c, "rows"),
        .n_cols = kg_op_length(c, "n_in"),
        .eps = (float)kg_op_param(c, "eps"),
        .limit = (float)kg_op_param(c, "limit"),
        .alpha = (float)kg_op_param(c, "alpha"),
        .up_offset = (float)kg_op_param(c, "up_offset"),
        .cubic = (float)kg_op_param(c, "cubic"),
    };
    const enum kg_status status =
        make_room(c, kg_op_length(c, "n_out"), kg_norm_swiglu_scratch_bytes(&args), &args.scratch, err);
    if (status) return status;
    args.workspace = c->workspace;
    return c->backend->ops->norm_swiglu(c->backend, &args, err);
}

enum kg_status kg_op_run_linear_add(struct kg_op_call *c, struct kg_error *err) {
    struct kg_linear_add_args args = {
        .linear = { .activations = c->activations,
                    .output = c->activations,
                    .x = kg_op_data(c, "x"),
                    .weight = kg_op_weight(c, "weight"),
                    .bias = kg_op_data(c, "bias"),
                    .y = kg_op_data(c, "residual"),
                    .n_rows = kg_op_length(c, "rows") },
    };
    const enum kg_status status =
        make_room(c, kg_op_length(c, "n_out"), kg_linear_add_scratch_bytes(&args), &args.scratch, err);
    if (status) return status;
    args.linear.workspace = c->workspace;
    kg_op_give(c, "out", args.linear.y);
    return c->backend->ops->linear_add(c->backend, &args, err);
}
