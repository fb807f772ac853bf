#include "engine/pass.h"
#include "base/buffer.h"
#include <stdio.h>
#include <string.h>

/* Widens n elements of 16 bits in the upper half of rows to float32, in place from the front. */
static void widen_f16(float *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, (const char *)rows + 2 * (n + i), sizeof half);
        rows[i] = kg_f16_to_f32(half);
    }
}

/* The same of int32. */
static void convert_i32(float *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int32_t number;
        memcpy(&number, &rows[i], sizeof number);
        rows[i] = (float)number;
    }
}

enum kg_status kg_pass_tap(const struct kg_pass *p, const char *name, enum kg_tapped type, const void *data,
                           uint32_t n_rows, uint32_t n_cols, uint32_t first_position) {
    struct kg_session *s = p->session;
    const size_t n = (size_t)n_rows * n_cols;
    if (s->tap_capacity < n) {
        s->tap_rows = kg_xrealloc(s->tap_rows, n * sizeof(float));
        s->tap_capacity = n;
    }
    const enum kg_precision precision = type == KG_TAPPED_ACTIVATIONS ? p->activations
                                        : type == KG_TAPPED_RESIDUAL  ? p->residual
                                                                      : KG_PRECISION_F32;
    const size_t size_bytes = n * kg_precision_bytes(precision); /* of int32 too */
    KG_TRY(
        p->ops->download(p->backend, (char *)s->tap_rows + (n * sizeof(float) - size_bytes), data, size_bytes, p->err));
    if (precision == KG_PRECISION_F16) widen_f16(s->tap_rows, n);
    if (type == KG_TAPPED_I32) convert_i32(s->tap_rows, n);
    const struct kg_tap tap = {
        .name = name, .data = s->tap_rows, .n_rows = n_rows, .n_cols = n_cols, .first_position = first_position
    };
    s->tap(s->tap_user, &tap);
    return KG_OK;
}

enum kg_status kg_pass_tap_layer_as(const struct kg_pass *p, uint32_t layer, const char *what, enum kg_tapped type,
                                    const void *data, uint32_t n_cols) {
    if (!p->session->tap) return KG_OK;
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s", layer, what);
    return kg_pass_tap(p, name, type, data, p->n_rows, n_cols, p->position);
}

enum kg_status kg_pass_tap_layer(const struct kg_pass *p, uint32_t layer, const char *what, const void *data,
                                 uint32_t n_cols) {
    return kg_pass_tap_layer_as(p, layer, what, KG_TAPPED_ACTIVATIONS, data, n_cols);
}

enum kg_status kg_pass_norm(const struct kg_pass *p, const void *x, const float *weight, const float *bias, void *y,
                            uint32_t n_rows) {
    if (p->config->norm == KG_NORM_LAYER) {
        const struct kg_layernorm_args layer = { .activations = p->activations,
                                                 .x = x,
                                                 .weight = weight,
                                                 .bias = bias,
                                                 .y = y,
                                                 .n_rows = n_rows,
                                                 .n_cols = p->config->n_embd,
                                                 .eps = p->config->norm_eps };
        return p->ops->layernorm(p->backend, &layer, p->err);
    }
    const struct kg_rmsnorm_args args = { .activations = p->activations,
                                          .x = x,
                                          .weight = weight,
                                          .y = y,
                                          .n_rows = n_rows,
                                          .n_cols = p->config->n_embd,
                                          .eps = p->config->norm_eps,
                                          .wide_input = p->residual != p->activations };
    return p->ops->rmsnorm(p->backend, &args, p->err);
}

enum kg_status kg_pass_linear(const struct kg_pass *p, const void *x, const struct kg_weight *weight, const float *bias,
                              enum kg_precision output, void *y) {
    const struct kg_linear_args args = { .activations = p->activations,
                                         .output = output,
                                         .x = x,
                                         .weight = *weight,
                                         .bias = bias,
                                         .y = y,
                                         .n_rows = p->n_rows,
                                         .workspace = p->session->workspace.data };
    return p->ops->linear(p->backend, &args, p->err);
}

enum kg_status kg_pass_add_projected(const struct kg_pass *p) {
    const struct kg_add_args args = { .activations = p->residual,
                                      .a = p->buffers->x,
                                      .b = p->buffers->projected,
                                      .y = p->buffers->x,
                                      .n_rows = p->n_rows,
                                      .n_cols = p->config->n_embd };
    return p->ops->add(p->backend, &args, p->err);
}
