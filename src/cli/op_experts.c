/* A call of router, experts_linear or experts_combine as its arguments. */
#include "cli/op_spec.h"

enum kg_status kg_op_settle_router(struct kg_op_call *c, struct kg_error *err) {
    const uint32_t n_used = kg_op_length(c, "n_used"), n_experts = kg_op_length(c, "n_experts");
    if (n_used == 0) return kg_fail(err, KG_ERR_USAGE, "router needs --param n_used=N, how many experts are chosen");
    if (n_used > n_experts) return kg_fail(err, KG_ERR_USAGE, "n_used is %u, of %u experts", n_used, n_experts);
    return KG_OK;
}

enum kg_status kg_op_run_router(struct kg_op_call *c, struct kg_error *err) {
    const struct kg_router_args args = {
        .logits = kg_op_data(c, "logits"),
        .ids = kg_op_data(c, "ids"),
        .weights = kg_op_data(c, "weights"),
        .n_rows = kg_op_length(c, "rows"),
        .n_experts = kg_op_length(c, "n_experts"),
        .n_used = kg_op_length(c, "n_used"),
    };
    return c->backend->ops->router(c->backend, &args, err);
}

enum kg_status kg_op_settle_experts_linear(struct kg_op_call *c, struct kg_error *err) {
    const uint32_t n_rows = kg_op_length(c, "rows"), x_rows = kg_op_length(c, "x_rows");
    if (n_rows % x_rows == 0) return KG_OK;
    return kg_fail(err, KG_ERR_USAGE, "%u ids are no multiple of the %u rows of tensor 'x'", n_rows, x_rows);
}

enum kg_status kg_op_run_experts_linear(struct kg_op_call *c, struct kg_error *err) {
    struct kg_experts_linear_args args = {
        .activations = c->activations,
        .x = kg_op_data(c, "x"),
        .weight = kg_op_weight(c, "weight"),
        .n_experts = kg_op_length(c, "n_experts"),
        .bias = kg_op_data(c, "bias"),
        .ids = kg_op_data(c, "ids"),
        .y = kg_op_data(c, "out"),
        .n_rows = kg_op_length(c, "rows"),
        .n_sharing = kg_op_length(c, "rows") / kg_op_length(c, "x_rows"),
    };
    const struct kg_op_extent extent = { .n_rows = args.n_rows,
                                         .n_in = kg_op_length(c, "n_in"),
                                         .n_out = kg_op_length(c, "n_out") };
    const enum kg_status status = kg_op_workspace(c, &extent, err);
    if (status != KG_OK) return status;
    args.workspace = c->workspace;
    return c->backend->ops->experts_linear(c->backend, &args, err);
}

enum kg_status kg_op_run_experts_combine(struct kg_op_call *c, struct kg_error *err) {
    const struct kg_experts_combine_args args = {
        .activations = c->activations,
        .x = kg_op_data(c, "x"),
        .weights = kg_op_data(c, "weights"),
        .residual = kg_op_data(c, "residual"),
        .y = kg_op_data(c, "out"),
        .n_rows = kg_op_length(c, "rows"),
        .n_used = kg_op_length(c, "n_used"),
        .n_cols = kg_op_length(c, "n_cols"),
    };
    return c->backend->ops->experts_combine(c->backend, &args, err);
}
