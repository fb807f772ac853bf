#include "suites/support/plain_f16_steps.h"
#include "base/buffer.h"
#include <stdlib.h>

/* norm is complete but for y: y[i] = norm's y by weight[i], plus bias[i], of n matrices. */
static enum kg_status multiply_normed(const struct plain_f16_steps *s, struct kg_rmsnorm_args norm, size_t n,
                                      const struct kg_weight *weight, const float *const *bias, void *const *y,
                                      struct kg_error *err) {
    uint16_t *normed = kg_xcalloc((size_t)norm.n_rows * norm.n_cols + 1, sizeof *normed);
    norm.y = normed;
    enum kg_status status = s->rmsnorm(s->style, &norm, err);
    for (size_t i = 0; i < n && !status; i++) {
        const struct kg_linear_args product = { .activations = norm.activations,
                                                .output = norm.activations,
                                                .x = normed,
                                                .weight = weight[i],
                                                .bias = bias[i],
                                                .y = y[i],
                                                .n_rows = norm.n_rows };
        status = s->linear(s->style, &product, err);
    }
    free(normed);
    return status;
}

enum kg_status kg_plain_f16_norm_qkv(const struct plain_f16_steps *s, const struct kg_norm_qkv_args *args,
                                     struct kg_error *err) {
    const struct kg_rmsnorm_args norm = { .activations = args->activations,
                                          .x = args->x,
                                          .weight = args->norm_weight,
                                          .n_rows = args->n_rows,
                                          .n_cols = args->n_cols,
                                          .eps = args->eps,
                                          .wide_input = args->wide_input };
    return multiply_normed(s, norm, KG_NORM_QKV_PRODUCTS, args->weight, args->bias, args->y, err);
}

enum kg_status kg_plain_f16_norm_swiglu(const struct plain_f16_steps *s, const struct kg_norm_swiglu_args *args,
                                        struct kg_error *err) {
    const struct kg_rmsnorm_args norm = { .activations = args->activations,
                                          .x = args->x,
                                          .weight = args->norm_weight,
                                          .n_rows = args->n_rows,
                                          .n_cols = args->n_cols,
                                          .eps = args->eps,
                                          .wide_input = args->wide_input };
    const size_t n = (size_t)args->n_rows * args->weight[0].n_rows;
    void *const y[KG_NORM_SWIGLU_PRODUCTS] = { kg_xcalloc(n + 1, sizeof(uint16_t)),
                                               kg_xcalloc(n + 1, sizeof(uint16_t)) };
    const struct kg_swiglu_args gated = { .activations = args->activations,
                                          .gate = y[0],
                                          .up = y[1],
                                          .y = args->y,
                                          .n_rows = args->n_rows,
                                          .n_cols = args->weight[0].n_rows,
                                          .limit = args->limit,
                                          .alpha = args->alpha,
                                          .up_offset = args->up_offset,
                                          .cubic = args->cubic };
    enum kg_status status = multiply_normed(s, norm, KG_NORM_SWIGLU_PRODUCTS, args->weight, args->bias, y, err);
    if (!status) status = s->swiglu(s->style, &gated, err);
    free(y[1]);
    free(y[0]);
    return status;
}

enum kg_status kg_plain_f16_linear_add(const struct plain_f16_steps *s, const struct kg_linear_add_args *args,
                                       struct kg_error *err) {
    struct kg_linear_args product = args->linear;
    void *sum = kg_xcalloc((size_t)product.n_rows * product.weight.n_rows + 1, kg_precision_bytes(product.output));
    product.y = sum;
    enum kg_status status = s->linear(s->style, &product, err);
    const struct kg_add_args added = { .activations = product.output,
                                       .a = args->linear.y,
                                       .b = sum,
                                       .y = args->linear.y,
                                       .n_rows = product.n_rows,
                                       .n_cols = product.weight.n_rows };
    if (!status) status = s->add(s->style, &added, err);
    free(sum);
    return status;
}
