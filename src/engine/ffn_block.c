/* The second half of a layer, by the model's kind:
 *
 *     gated    n = norm(x); x = x + swiglu(n Wgate, n Wup) Wdown
 *     gelu     n = norm(x); x = x + gelu(n Wup) Wdown
 *     experts  n = norm(x); e, w = router(n Wrouter); x = x + sum_j w_j swiglu(n Wgate[e_j], n Wup[e_j]) Wdown[e_j]
 *
 * each product with its bias. */
#include "engine/pass.h"

/* gate = swiglu(gate, up), n_rows of n_ff. */
static enum kg_status gated(const struct kg_pass *p, uint32_t n_rows) {
    const struct kg_activation_buffers *b = p->buffers;
    const struct kg_swiglu_form *form = &p->config->swiglu;
    const struct kg_swiglu_args args = { .activations = p->activations,
                                         .gate = b->gate,
                                         .up = b->up,
                                         .y = b->gate,
                                         .n_rows = n_rows,
                                         .n_cols = p->config->n_ff,
                                         .limit = form->limit,
                                         .alpha = form->alpha,
                                         .up_offset = form->up_offset };
    return p->ops->swiglu(p->backend, &args, p->err);
}

static enum kg_status ffn_gated(const struct kg_pass *p, uint32_t layer, const struct kg_layer_weights *w) {
    const struct kg_activation_buffers *b = p->buffers;
    const uint32_t n_ff = p->config->n_ff;
    KG_TRY(kg_pass_linear(p, b->norm, &w->gate, w->gate_bias, p->activations, b->gate));
    KG_TRY(kg_pass_tap_layer(p, layer, "ffn_gate", b->gate, n_ff));
    KG_TRY(kg_pass_linear(p, b->norm, &w->up, w->up_bias, p->activations, b->up));
    KG_TRY(kg_pass_tap_layer(p, layer, "ffn_up", b->up, n_ff));
    KG_TRY(gated(p, p->n_rows));
    KG_TRY(kg_pass_tap_layer(p, layer, "ffn_act", b->gate, n_ff));
    return kg_pass_linear(p, b->gate, &w->down, w->down_bias, p->residual, b->projected);
}

static enum kg_status ffn_gelu(const struct kg_pass *p, uint32_t layer, const struct kg_layer_weights *w) {
    const struct kg_activation_buffers *b = p->buffers;
    const uint32_t n_ff = p->config->n_ff;
    const struct kg_gelu_args gelu = {
        .activations = p->activations, .x = b->up, .y = b->up, .n_rows = p->n_rows, .n_cols = n_ff, .form = KG_GELU_TANH
    };
    KG_TRY(kg_pass_linear(p, b->norm, &w->up, w->up_bias, p->activations, b->up));
    KG_TRY(kg_pass_tap_layer(p, layer, "ffn_up", b->up, n_ff));
    KG_TRY(p->ops->gelu(p->backend, &gelu, p->err));
    KG_TRY(kg_pass_tap_layer(p, layer, "ffn_act", b->up, n_ff));
    return kg_pass_linear(p, b->up, &w->down, w->down_bias, p->residual, b->projected);
}

/* Rows of x through the matrices of the experts chosen; n_sharing rows of y are of one of x. */
static enum kg_status experts_linear(const struct kg_pass *p, const void *x, const struct kg_weight *weight,
                                     const float *bias, void *y, uint32_t n_sharing, bool wide_output) {
    const struct kg_experts_linear_args args = { .activations = p->activations,
                                                 .x = x,
                                                 .weight = *weight,
                                                 .n_experts = p->config->n_experts,
                                                 .bias = bias,
                                                 .ids = p->buffers->expert_ids,
                                                 .y = y,
                                                 .n_rows = p->n_rows * p->config->n_experts_used,
                                                 .n_sharing = n_sharing,
                                                 .workspace = p->session->workspace.data,
                                                 .wide_output = wide_output };
    return p->ops->experts_linear(p->backend, &args, p->err);
}

static enum kg_status route(const struct kg_pass *p, uint32_t layer, const struct kg_layer_weights *w) {
    const struct kg_activation_buffers *b = p->buffers;
    const uint32_t n_experts = p->config->n_experts, n_used = p->config->n_experts_used;
    const struct kg_router_args args = { .logits = b->router_logits,
                                         .ids = b->expert_ids,
                                         .weights = b->expert_weights,
                                         .n_rows = p->n_rows,
                                         .n_experts = n_experts,
                                         .n_used = n_used };
    KG_TRY(kg_pass_linear(p, b->norm, &w->router, w->router_bias, KG_PRECISION_F32, b->router_logits));
    KG_TRY(kg_pass_tap_layer_as(p, layer, "router", KG_TAPPED_F32, b->router_logits, n_experts));
    KG_TRY(p->ops->router(p->backend, &args, p->err));
    KG_TRY(kg_pass_tap_layer_as(p, layer, "expert_ids", KG_TAPPED_I32, b->expert_ids, n_used));
    return kg_pass_tap_layer_as(p, layer, "expert_weights", KG_TAPPED_F32, b->expert_weights, n_used);
}

static enum kg_status ffn_experts(const struct kg_pass *p, uint32_t layer, const struct kg_layer_weights *w) {
    const struct kg_activation_buffers *b = p->buffers;
    const uint32_t n_used = p->config->n_experts_used, n_ff = p->config->n_ff, n_embd = p->config->n_embd;
    const struct kg_experts_combine_args combine = { .activations = p->residual,
                                                     .x = b->expert_out,
                                                     .weights = b->expert_weights,
                                                     .y = b->projected,
                                                     .n_rows = p->n_rows,
                                                     .n_used = n_used,
                                                     .n_cols = n_embd };
    KG_TRY(route(p, layer, w));
    KG_TRY(experts_linear(p, b->norm, &w->gate, w->gate_bias, b->gate, n_used, false));
    KG_TRY(kg_pass_tap_layer(p, layer, "ffn_gate", b->gate, n_used * n_ff));
    KG_TRY(experts_linear(p, b->norm, &w->up, w->up_bias, b->up, n_used, false));
    KG_TRY(kg_pass_tap_layer(p, layer, "ffn_up", b->up, n_used * n_ff));
    KG_TRY(gated(p, p->n_rows * n_used));
    KG_TRY(kg_pass_tap_layer(p, layer, "ffn_act", b->gate, n_used * n_ff));
    KG_TRY(experts_linear(p, b->gate, &w->down, w->down_bias, b->expert_out, 1, p->residual != p->activations));
    KG_TRY(kg_pass_tap_layer_as(p, layer, "expert_out", KG_TAPPED_RESIDUAL, b->expert_out, n_used * n_embd));
    return p->ops->experts_combine(p->backend, &combine, p->err);
}

enum kg_status kg_pass_ffn(const struct kg_pass *p, uint32_t layer, const struct kg_layer_weights *w) {
    static enum kg_status (*const KINDS[])(const struct kg_pass *, uint32_t, const struct kg_layer_weights *) = {
        [KG_FFN_GATED] = ffn_gated, [KG_FFN_GELU] = ffn_gelu, [KG_FFN_EXPERTS] = ffn_experts
    };
    const struct kg_activation_buffers *b = p->buffers;
    const uint32_t n_embd = p->config->n_embd;
    KG_TRY(kg_pass_norm(p, b->x, w->ffn_norm, w->ffn_norm_bias, b->norm, p->n_rows));
    KG_TRY(kg_pass_tap_layer(p, layer, "ffn_norm", b->norm, n_embd));
    KG_TRY(KINDS[p->config->ffn](p, layer, w));
    KG_TRY(kg_pass_tap_layer_as(p, layer, "ffn_out", KG_TAPPED_RESIDUAL, b->projected, n_embd));
    KG_TRY(kg_pass_add_projected(p));
    return kg_pass_tap_layer_as(p, layer, "out", KG_TAPPED_RESIDUAL, b->x, n_embd);
}
