#include "engine/plan.h"
#include "base/buffer.h"
#include "engine/session.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_NODES_OF_LAYER = 32, MOST_NODES_BESIDE_LAYERS = 4 };

/* A plan that is being written. */
struct emitter {
    const struct kg_session *session;
    const struct kg_model_config *config;
    const struct kg_model_weights *weights;
    const struct kg_activation_buffers *buffers;
    enum kg_precision activations, residual;
    int layer;
    struct kg_plan *plan;
};

/* Adds a node of n_parts rows for a row of the run, and its tap. The caller fills in the arguments. */
static union kg_op_args *emit(struct emitter *e, enum kg_op op, uint32_t n_parts, struct kg_tap_point shown) {
    struct kg_node *node = &e->plan->nodes[e->plan->n_nodes++];
    *node = (struct kg_node){ .op = op, .layer = e->layer, .rows_per_id = n_parts, .taps = { shown } };
    return &node->args;
}

static struct kg_tap_point tap(const char *name, enum kg_tapped type, const void *data, uint32_t n_cols) {
    return (struct kg_tap_point){ name, type, data, n_cols };
}

/* Of the residual stream, by the model's kind: rmsnorm, or layernorm with the bias. */
static void norm(struct emitter *e, const float *weight, const float *bias, const char *name) {
    const struct kg_model_config *c = e->config;
    const struct kg_activation_buffers *b = e->buffers;
    const struct kg_tap_point shown = tap(name, KG_TAPPED_ACTIVATIONS, b->norm, c->n_embd);
    if (c->norm == KG_NORM_LAYER)
        emit(e, KG_OP_layernorm, 1, shown)->layernorm = (struct kg_layernorm_args){ .activations = e->activations,
                                                                                    .x = b->x,
                                                                                    .weight = weight,
                                                                                    .bias = bias,
                                                                                    .y = b->norm,
                                                                                    .n_cols = c->n_embd,
                                                                                    .eps = c->norm_eps };
    else
        emit(e, KG_OP_rmsnorm, 1, shown)->rmsnorm =
            (struct kg_rmsnorm_args){ .activations = e->activations,
                                      .x = b->x,
                                      .weight = weight,
                                      .y = b->norm,
                                      .n_cols = c->n_embd,
                                      .eps = c->norm_eps,
                                      .wide_input = e->residual != e->activations };
}

/* RMSNorm in place of n_parts rows for a row of the run, by weight (n_cols); no node without it. */
static void norm_in_place(struct emitter *e, void *x, const float *weight, uint32_t n_parts, uint32_t n_cols,
                          const char *name, enum kg_tapped type) {
    if (!weight) return;
    emit(e, KG_OP_rmsnorm, n_parts, tap(name, type, x, n_parts * n_cols))->rmsnorm =
        (struct kg_rmsnorm_args){ .activations = type == KG_TAPPED_RESIDUAL ? e->residual : e->activations,
                                  .x = x,
                                  .weight = weight,
                                  .y = x,
                                  .n_cols = n_cols,
                                  .eps = e->config->norm_eps };
}

/* y = x weight + bias; y's precision is what the tap has. */
static void linear(struct emitter *e, const void *x, const struct kg_weight *weight, const float *bias, void *y,
                   const char *name, enum kg_tapped type) {
    emit(e, KG_OP_linear, 1, tap(name, type, y, weight->n_rows))->linear =
        (struct kg_linear_args){ .activations = e->activations,
                                 .output = type == KG_TAPPED_F32        ? KG_PRECISION_F32
                                           : type == KG_TAPPED_RESIDUAL ? e->residual
                                                                        : e->activations,
                                 .x = x,
                                 .weight = *weight,
                                 .bias = bias,
                                 .y = y,
                                 .workspace = e->plan->workspace };
}

static void rope(struct emitter *e, void *x, uint32_t n_heads, const char *name) {
    const struct kg_model_config *c = e->config;
    const struct kg_layer_rope of_layer = kg_model_layer_rope(c, (uint32_t)e->layer);
    emit(e, KG_OP_rope, 1, tap(name, KG_TAPPED_ACTIVATIONS, x, n_heads * c->head_dim))->rope =
        (struct kg_rope_args){ .activations = e->activations,
                               .x = x,
                               .y = x,
                               .n_heads = n_heads,
                               .head_dim = c->head_dim,
                               .n_rot = c->n_rot,
                               .pairing = c->rope_pairing,
                               .freq_base = of_layer.freq_base,
                               .freq_scale = of_layer.freq_scale,
                               .magnitude = c->rope_magnitude };
}

static void write_cache(struct emitter *e) {
    const struct kg_kv_cache *kv = &e->session->kv;
    emit(e, KG_OP_kv_write, 1, (struct kg_tap_point){ 0 })->kv_write =
        (struct kg_kv_write_args){ .activations = e->activations,
                                   .kv = kv->precision,
                                   .k = e->buffers->k,
                                   .v = e->buffers->v,
                                   .k_cache = kg_kv_cache_keys(kv, (uint32_t)e->layer),
                                   .v_cache = kg_kv_cache_values(kv, (uint32_t)e->layer),
                                   .n_kv_heads = kv->n_kv_heads,
                                   .head_dim = kv->head_dim,
                                   .n_ctx = kv->n_ctx };
    e->plan->n_cached = e->plan->n_nodes;
}

static void attend(struct emitter *e, const float *sinks) {
    const struct kg_model_config *c = e->config;
    const struct kg_kv_cache *kv = &e->session->kv;
    void *y = e->buffers->attn;
    emit(e, KG_OP_attention, 1, tap("attn", KG_TAPPED_ACTIVATIONS, y, c->n_heads * c->head_dim))->attention =
        (struct kg_attention_args){ .activations = e->activations,
                                    .kv = kv->precision,
                                    .q = e->buffers->q,
                                    .k_cache = kg_kv_cache_keys(kv, (uint32_t)e->layer),
                                    .v_cache = kg_kv_cache_values(kv, (uint32_t)e->layer),
                                    .y = y,
                                    .n_heads = c->n_heads,
                                    .n_kv_heads = kv->n_kv_heads,
                                    .head_dim = kv->head_dim,
                                    .n_ctx = kv->n_ctx,
                                    .scale = c->attn_scale,
                                    .causal = true,
                                    .window = kg_model_layer_window(c, (uint32_t)e->layer),
                                    .workspace = e->plan->workspace,
                                    .sinks = sinks };
}

/* x = x + projected */
static void add_projected(struct emitter *e, const char *name) {
    const struct kg_activation_buffers *b = e->buffers;
    emit(e, KG_OP_add, 1, tap(name, KG_TAPPED_RESIDUAL, b->x, e->config->n_embd))->add = (struct kg_add_args){
        .activations = e->residual, .a = b->x, .b = b->projected, .y = b->x, .n_cols = e->config->n_embd
    };
}

static void attention_block(struct emitter *e, const struct kg_layer_weights *w) {
    const struct kg_model_config *c = e->config;
    const struct kg_activation_buffers *b = e->buffers;
    norm(e, w->attn_norm, w->attn_norm_bias, "attn_norm");
    linear(e, b->norm, &w->q, w->q_bias, b->q, "q", KG_TAPPED_ACTIVATIONS);
    linear(e, b->norm, &w->k, w->k_bias, b->k, "k", KG_TAPPED_ACTIVATIONS);
    linear(e, b->norm, &w->v, w->v_bias, b->v, "v", KG_TAPPED_ACTIVATIONS);
    norm_in_place(e, b->q, w->q_norm, c->n_heads, c->head_dim, "q_norm", KG_TAPPED_ACTIVATIONS);
    norm_in_place(e, b->k, w->k_norm, c->n_kv_heads, c->head_dim, "k_norm", KG_TAPPED_ACTIVATIONS);
    if (c->rope_pairing != KG_ROPE_NONE) {
        rope(e, b->q, c->n_heads, "q_rope");
        rope(e, b->k, c->n_kv_heads, "k_rope");
    }
    write_cache(e);
    attend(e, w->sinks);
    linear(e, b->attn, &w->attn_out, w->attn_out_bias, b->projected, "attn_out", KG_TAPPED_RESIDUAL);
    norm_in_place(e, b->projected, w->attn_post_norm, 1, c->n_embd, "attn_post_norm", KG_TAPPED_RESIDUAL);
    add_projected(e, "attn_residual");
}

/* gate = swiglu(gate, up), of n_parts rows for a row of the run. */
static void gate_up(struct emitter *e, uint32_t n_parts) {
    const struct kg_activation_buffers *b = e->buffers;
    const struct kg_swiglu_form *form = &e->config->swiglu;
    const uint32_t n_ff = e->config->n_ff;
    emit(e, KG_OP_swiglu, n_parts, tap("ffn_act", KG_TAPPED_ACTIVATIONS, b->gate, n_parts * n_ff))->swiglu =
        (struct kg_swiglu_args){ .activations = e->activations,
                                 .gate = b->gate,
                                 .up = b->up,
                                 .y = b->gate,
                                 .n_cols = n_ff,
                                 .limit = form->limit,
                                 .alpha = form->alpha,
                                 .up_offset = form->up_offset,
                                 .cubic = form->cubic };
}

static void ffn_gated(struct emitter *e, const struct kg_layer_weights *w) {
    const struct kg_activation_buffers *b = e->buffers;
    linear(e, b->norm, &w->gate, w->gate_bias, b->gate, "ffn_gate", KG_TAPPED_ACTIVATIONS);
    linear(e, b->norm, &w->up, w->up_bias, b->up, "ffn_up", KG_TAPPED_ACTIVATIONS);
    gate_up(e, 1);
    linear(e, b->gate, &w->down, w->down_bias, b->projected, "ffn_out", KG_TAPPED_RESIDUAL);
}

static void ffn_gelu(struct emitter *e, const struct kg_layer_weights *w) {
    const struct kg_activation_buffers *b = e->buffers;
    const uint32_t n_ff = e->config->n_ff;
    linear(e, b->norm, &w->up, w->up_bias, b->up, "ffn_up", KG_TAPPED_ACTIVATIONS);
    emit(e, KG_OP_gelu, 1, tap("ffn_act", KG_TAPPED_ACTIVATIONS, b->up, n_ff))->gelu = (struct kg_gelu_args){
        .activations = e->activations, .x = b->up, .y = b->up, .n_cols = n_ff, .form = KG_GELU_TANH
    };
    linear(e, b->up, &w->down, w->down_bias, b->projected, "ffn_out", KG_TAPPED_RESIDUAL);
}

/* Rows of x through the matrices of the experts chosen; n_sharing rows of y are of one of x. */
static void experts_linear(struct emitter *e, const void *x, const struct kg_weight *weight, const float *bias, void *y,
                           uint32_t n_sharing, const char *name, enum kg_tapped type) {
    const struct kg_model_config *c = e->config;
    const uint32_t n_cols = c->n_experts_used * (weight->n_rows / c->n_experts);
    emit(e, KG_OP_experts_linear, c->n_experts_used, tap(name, type, y, n_cols))->experts_linear =
        (struct kg_experts_linear_args){ .activations = e->activations,
                                         .x = x,
                                         .weight = *weight,
                                         .n_experts = c->n_experts,
                                         .bias = bias,
                                         .ids = e->buffers->expert_ids,
                                         .y = y,
                                         .n_sharing = n_sharing,
                                         .workspace = e->plan->workspace,
                                         .wide_output = type == KG_TAPPED_RESIDUAL && e->residual != e->activations };
}

static void ffn_experts(struct emitter *e, const struct kg_layer_weights *w) {
    const struct kg_activation_buffers *b = e->buffers;
    const uint32_t n_experts = e->config->n_experts, n_used = e->config->n_experts_used;
    linear(e, b->norm, &w->router, w->router_bias, b->router_logits, "router", KG_TAPPED_F32);
    emit(e, KG_OP_router, 1, tap("expert_ids", KG_TAPPED_I32, b->expert_ids, n_used))->router =
        (struct kg_router_args){ .logits = b->router_logits,
                                 .ids = b->expert_ids,
                                 .weights = b->expert_weights,
                                 .n_experts = n_experts,
                                 .n_used = n_used };
    e->plan->nodes[e->plan->n_nodes - 1].taps[1] = tap("expert_weights", KG_TAPPED_F32, b->expert_weights, n_used);
    experts_linear(e, b->norm, &w->gate, w->gate_bias, b->gate, n_used, "ffn_gate", KG_TAPPED_ACTIVATIONS);
    experts_linear(e, b->norm, &w->up, w->up_bias, b->up, n_used, "ffn_up", KG_TAPPED_ACTIVATIONS);
    gate_up(e, n_used);
    experts_linear(e, b->gate, &w->down, w->down_bias, b->expert_out, 1, "expert_out", KG_TAPPED_RESIDUAL);
    const struct kg_tap_point out = tap("ffn_out", KG_TAPPED_RESIDUAL, b->projected, e->config->n_embd);
    emit(e, KG_OP_experts_combine, 1, out)->experts_combine =
        (struct kg_experts_combine_args){ .activations = e->residual,
                                          .x = b->expert_out,
                                          .weights = b->expert_weights,
                                          .y = b->projected,
                                          .n_used = n_used,
                                          .n_cols = e->config->n_embd };
}

static void ffn_block(struct emitter *e, const struct kg_layer_weights *w) {
    static void (*const KINDS[])(struct emitter *, const struct kg_layer_weights *) = {
        [KG_FFN_GATED] = ffn_gated, [KG_FFN_GELU] = ffn_gelu, [KG_FFN_EXPERTS] = ffn_experts
    };
    norm(e, w->ffn_norm, w->ffn_norm_bias, "ffn_norm");
    KINDS[e->config->ffn](e, w);
    norm_in_place(e, e->buffers->projected, w->ffn_post_norm, 1, e->config->n_embd, "ffn_post_norm",
                  KG_TAPPED_RESIDUAL);
    add_projected(e, "out");
}

static void embedding(struct emitter *e) {
    emit(e, KG_OP_embedding, 1, tap("embd", KG_TAPPED_RESIDUAL, e->buffers->x, e->config->n_embd))->embedding =
        (struct kg_embedding_args){ .activations = e->residual,
                                    .weight = e->weights->embedding,
                                    .ids = e->buffers->ids,
                                    .y = e->buffers->x,
                                    .scale = e->config->embedding_scale,
                                    .positions = e->weights->positions };
}

static void emit_all(struct emitter *e) {
    const struct kg_model_weights *w = e->weights;
    e->layer = KG_NO_LAYER;
    embedding(e);
    for (uint32_t i = 0; i < e->config->n_layers; i++) {
        e->layer = (int)i;
        attention_block(e, &w->layers[i]);
        ffn_block(e, &w->layers[i]);
    }
    e->layer = KG_NO_LAYER;
    e->plan->n_body = e->plan->n_nodes;
    norm(e, w->output_norm, w->output_norm_bias, "output_norm");
    linear(e, e->buffers->norm, &w->output, NULL, e->buffers->logits, "logits", KG_TAPPED_F32);
}

const char *kg_plan_buffer_name(const struct kg_plan *plan, const void *data) {
    for (size_t i = 0; i < KG_PLAN_BUFFERS && plan->buffers[i].name; i++)
        if (plan->buffers[i].data == data) return plan->buffers[i].name;
    return "cache";
}

enum kg_status kg_plan_create(const struct kg_session *s, struct kg_plan **out, struct kg_error *err) {
    const size_t most = (size_t)s->config->n_layers * MOST_NODES_OF_LAYER + MOST_NODES_BESIDE_LAYERS;
    const enum kg_precision activations = s->options.activations;
    struct kg_plan *plan = kg_xcalloc(1, sizeof *plan);
    plan->nodes = calloc(most, sizeof *plan->nodes);
    if (!plan->nodes) {
        free(plan);
        return kg_fail(err, KG_ERR_NO_MEMORY, "no memory for a plan of %zu nodes", most);
    }
    plan->activations = activations;
    plan->residual = kg_residual_precision(s->config, activations);
    plan->kv = s->options.kv;
    plan->ids = s->buffers.ids;
    plan->max_rows = s->buffers.max_rows;
    plan->n_ctx = s->options.n_ctx;
    plan->workspace = s->workspace.data;
    struct emitter e = { .session = s,
                         .config = s->config,
                         .weights = kg_model_weights(s->model),
                         .buffers = &s->buffers,
                         .activations = activations,
                         .residual = plan->residual,
                         .plan = plan };
    memcpy(plan->buffers, s->buffers.names, sizeof plan->buffers);
    emit_all(&e);
    *out = plan;
    return KG_OK;
}

void kg_plan_free(struct kg_plan *plan) {
    if (!plan) return;
    free(plan->nodes);
    free(plan);
}
