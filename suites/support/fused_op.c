#include "suites/support/fused_op.h"
#include "base/buffer.h"
#include "ops/scratch.h"
#include <stdlib.h>

const char *kg_fused_op_name(enum kg_fused_op op) {
    static const char *const NAMES[KG_N_FUSED_OPS] = { "norm_qkv", "norm_swiglu", "linear_add" };
    return NAMES[op];
}

uint32_t kg_fused_n_matrices(enum kg_fused_op op) {
    static const uint32_t N[KG_N_FUSED_OPS] = { KG_NORM_QKV_PRODUCTS, KG_NORM_SWIGLU_PRODUCTS, 1 };
    return N[op];
}

uint32_t kg_fused_n_results(enum kg_fused_op op) {
    return op == KG_FUSED_NORM_QKV ? KG_NORM_QKV_PRODUCTS : 1;
}

enum kg_precision kg_fused_result_precision(const struct kg_fused_call *call) {
    return call->op == KG_FUSED_LINEAR_ADD && call->wide ? KG_PRECISION_F32 : call->activations;
}

/* Device memory that nobody has written. */
static void *room(struct kg_op_device *d, uint64_t size_bytes) {
    unsigned char *contents = kg_xmalloc(size_bytes + 1);
    memset(contents, KG_FUSED_UNWRITTEN, size_bytes);
    void *data = kg_op_device_put(d, contents, size_bytes);
    free(contents);
    return data;
}

static enum kg_status norm_qkv(struct kg_op_device *d, const struct kg_fused_call *c, void *const y[KG_FUSED_MATRICES],
                               struct kg_fused_scratch *scratch, struct kg_error *err) {
    struct kg_norm_qkv_args args = { .activations = c->activations,
                                     .x = c->x,
                                     .norm_weight = c->norm_weight,
                                     .n_rows = c->n_rows,
                                     .n_cols = c->n_cols,
                                     .eps = c->eps,
                                     .wide_input = c->wide,
                                     .workspace = c->workspace };
    for (size_t i = 0; i < KG_NORM_QKV_PRODUCTS; i++)
        args.weight[i] = c->weight[i], args.bias[i] = c->bias[i], args.y[i] = y[i];
    scratch->size_bytes = kg_norm_qkv_scratch_bytes(&args);
    args.scratch = scratch->data = room(d, scratch->size_bytes);
    return d->backend->ops->norm_qkv(d->backend, &args, err);
}

static enum kg_status norm_swiglu(struct kg_op_device *d, const struct kg_fused_call *c,
                                  void *const y[KG_FUSED_MATRICES], struct kg_fused_scratch *scratch,
                                  struct kg_error *err) {
    struct kg_norm_swiglu_args args = { .activations = c->activations,
                                        .x = c->x,
                                        .norm_weight = c->norm_weight,
                                        .weight = { c->weight[0], c->weight[1] },
                                        .bias = { c->bias[0], c->bias[1] },
                                        .y = y[0],
                                        .n_rows = c->n_rows,
                                        .n_cols = c->n_cols,
                                        .eps = c->eps,
                                        .limit = c->limit,
                                        .alpha = c->alpha,
                                        .up_offset = c->up_offset,
                                        .cubic = c->cubic,
                                        .wide_input = c->wide,
                                        .workspace = c->workspace };
    scratch->size_bytes = kg_norm_swiglu_scratch_bytes(&args);
    args.scratch = scratch->data = room(d, scratch->size_bytes);
    return d->backend->ops->norm_swiglu(d->backend, &args, err);
}

static struct kg_linear_args product_of(const struct kg_fused_call *c, uint32_t i, const void *x, void *y) {
    return (struct kg_linear_args){ .activations = c->activations,
                                    .output = kg_fused_result_precision(c),
                                    .x = x,
                                    .weight = c->weight[i],
                                    .bias = c->bias[i],
                                    .y = y,
                                    .n_rows = c->n_rows,
                                    .workspace = c->workspace };
}

static enum kg_status linear_add(struct kg_op_device *d, const struct kg_fused_call *c,
                                 void *const y[KG_FUSED_MATRICES], struct kg_fused_scratch *scratch,
                                 struct kg_error *err) {
    struct kg_linear_add_args args = { .linear = product_of(c, 0, c->x, y[0]) };
    scratch->size_bytes = kg_linear_add_scratch_bytes(&args);
    args.scratch = scratch->data = room(d, scratch->size_bytes);
    return d->backend->ops->linear_add(d->backend, &args, err);
}

enum kg_status kg_fused_run(struct kg_op_device *d, const struct kg_fused_call *call, void *const y[KG_FUSED_MATRICES],
                            struct kg_fused_scratch *scratch, struct kg_error *err) {
    static enum kg_status (*const RUN[KG_N_FUSED_OPS])(struct kg_op_device *, const struct kg_fused_call *,
                                                       void *const *, struct kg_fused_scratch *,
                                                       struct kg_error *) = { norm_qkv, norm_swiglu, linear_add };
    return RUN[call->op](d, call, y, scratch, err);
}

enum kg_status kg_fused_run_apart(struct kg_op_device *d, const struct kg_fused_call *c,
                                  void *const y[KG_FUSED_MATRICES], struct kg_error *err) {
    const struct kg_backend_ops *ops = d->backend->ops;
    const enum kg_precision results = kg_fused_result_precision(c);
    const uint64_t y_bytes = kg_scratch_bytes(c->n_rows, c->weight[0].n_rows, results);
    const void *x = c->x;
    void *product[KG_FUSED_MATRICES] = { y[0], y[1], y[2] };
    enum kg_status status = KG_OK;
    if (c->norm_weight) {
        const struct kg_rmsnorm_args norm = { .activations = c->activations,
                                              .x = c->x,
                                              .weight = c->norm_weight,
                                              .y = room(d, kg_scratch_bytes(c->n_rows, c->n_cols, c->activations)),
                                              .n_rows = c->n_rows,
                                              .n_cols = c->n_cols,
                                              .eps = c->eps,
                                              .wide_input = c->wide };
        status = ops->rmsnorm(d->backend, &norm, err);
        x = norm.y;
    }
    for (uint32_t i = 0; i < kg_fused_n_matrices(c->op) && !status; i++) {
        if (c->op != KG_FUSED_NORM_QKV) product[i] = room(d, y_bytes);
        const struct kg_linear_args linear = product_of(c, i, x, product[i]);
        status = ops->linear(d->backend, &linear, err);
    }
    const struct kg_swiglu_args gated = { .activations = c->activations,
                                          .gate = product[0],
                                          .up = product[1],
                                          .y = y[0],
                                          .n_rows = c->n_rows,
                                          .n_cols = c->weight[0].n_rows,
                                          .limit = c->limit,
                                          .alpha = c->alpha,
                                          .up_offset = c->up_offset,
                                          .cubic = c->cubic };
    const struct kg_add_args added = { .activations = results,
                                       .a = y[0],
                                       .b = product[0],
                                       .y = y[0],
                                       .n_rows = c->n_rows,
                                       .n_cols = c->weight[0].n_rows };
    if (c->op == KG_FUSED_NORM_SWIGLU && !status) status = ops->swiglu(d->backend, &gated, err);
    if (c->op == KG_FUSED_LINEAR_ADD && !status) status = ops->add(d->backend, &added, err);
    return status;
}
