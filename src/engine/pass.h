/* A forward pass under way, as its parts see it: the blocks of a layer, and what they share. */
#ifndef KIGO_ENGINE_PASS_H
#define KIGO_ENGINE_PASS_H

#include "engine/session.h"

struct kg_pass {
    struct kg_session *session;
    struct kg_backend *backend;
    const struct kg_backend_ops *ops;
    const struct kg_model_config *config;
    const struct kg_activation_buffers *buffers;
    enum kg_precision activations, residual; /* residual: of x and of what is added to it */
    uint32_t n_rows, position;
    struct kg_error *err;
};

#define KG_TRY(call)                                                                                                   \
    do {                                                                                                               \
        const enum kg_status try_status = (call);                                                                      \
        if (try_status) return try_status;                                                                             \
    } while (0)

/* Rows to the session's tap as float32 in host memory: activations, of the residual stream, or float32 or int32 as they
 * are in the back end. */
enum kg_tapped { KG_TAPPED_ACTIVATIONS, KG_TAPPED_RESIDUAL, KG_TAPPED_F32, KG_TAPPED_I32 };
KG_WARN_UNUSED enum kg_status kg_pass_tap(const struct kg_pass *pass, const char *name, enum kg_tapped type,
                                          const void *data, uint32_t n_rows, uint32_t n_cols, uint32_t first_position);
/* All rows as "blk.<layer>.<what>"; nothing without a tap. */
KG_WARN_UNUSED enum kg_status kg_pass_tap_layer(const struct kg_pass *pass, uint32_t layer, const char *what,
                                                const void *data, uint32_t n_cols);
KG_WARN_UNUSED enum kg_status kg_pass_tap_layer_as(const struct kg_pass *pass, uint32_t layer, const char *what,
                                                   enum kg_tapped type, const void *data, uint32_t n_cols);

/* Of the residual stream, by the model's kind: rmsnorm, or layernorm with the bias. */
KG_WARN_UNUSED enum kg_status kg_pass_norm(const struct kg_pass *pass, const void *x, const float *weight,
                                           const float *bias, void *y, uint32_t n_rows);
KG_WARN_UNUSED enum kg_status kg_pass_linear(const struct kg_pass *pass, const void *x, const struct kg_weight *weight,
                                             const float *bias, enum kg_precision output, void *y);
/* x = x + projected */
KG_WARN_UNUSED enum kg_status kg_pass_add_projected(const struct kg_pass *pass);

/* The two halves of a layer: attention_block.c, ffn_block.c. */
KG_WARN_UNUSED enum kg_status kg_pass_attention(const struct kg_pass *pass, uint32_t layer,
                                                const struct kg_layer_weights *weights);
KG_WARN_UNUSED enum kg_status kg_pass_ffn(const struct kg_pass *pass, uint32_t layer,
                                          const struct kg_layer_weights *weights);

#endif
