/* The first half of a layer:
 *
 *     n = norm(x); q, k, v = n Wq + bq, n Wk + bk, n Wv + bv; q, k = rope(q), rope(k); cache <- k, v
 *     x = x + attention(q, cache) Wo + bo */
#include "engine/pass.h"

static enum kg_status rope(const struct kg_pass *p, void *x, uint32_t n_heads) {
    const struct kg_model_config *c = p->config;
    const struct kg_rope_args args = { .activations = p->activations,
                                       .x = x,
                                       .y = x,
                                       .n_rows = p->n_rows,
                                       .n_heads = n_heads,
                                       .head_dim = c->head_dim,
                                       .position = p->position,
                                       .n_rot = c->n_rot,
                                       .pairing = c->rope_pairing,
                                       .freq_base = c->rope_freq_base,
                                       .freq_scale = c->rope_freq_scale,
                                       .freq_factors = kg_session_rope_factors(p->session),
                                       .magnitude = c->rope_magnitude };
    return p->ops->rope(p->backend, &args, p->err);
}

static enum kg_status write_cache(const struct kg_pass *p, uint32_t layer) {
    const struct kg_kv_cache *kv = &p->session->kv;
    const struct kg_kv_write_args args = { .activations = p->activations,
                                           .kv = kv->precision,
                                           .k = p->buffers->k,
                                           .v = p->buffers->v,
                                           .k_cache = kg_kv_cache_keys(kv, layer),
                                           .v_cache = kg_kv_cache_values(kv, layer),
                                           .n_rows = p->n_rows,
                                           .n_kv_heads = kv->n_kv_heads,
                                           .head_dim = kv->head_dim,
                                           .n_ctx = kv->n_ctx,
                                           .position = p->position };
    return p->ops->kv_write(p->backend, &args, p->err);
}

static enum kg_status attend(const struct kg_pass *p, uint32_t layer, const float *sinks) {
    const struct kg_kv_cache *kv = &p->session->kv;
    const struct kg_attention_args args = { .activations = p->activations,
                                            .kv = kv->precision,
                                            .q = p->buffers->q,
                                            .k_cache = kg_kv_cache_keys(kv, layer),
                                            .v_cache = kg_kv_cache_values(kv, layer),
                                            .y = p->buffers->attn,
                                            .n_rows = p->n_rows,
                                            .n_keys = p->position + p->n_rows,
                                            .n_heads = p->config->n_heads,
                                            .n_kv_heads = kv->n_kv_heads,
                                            .head_dim = kv->head_dim,
                                            .n_ctx = kv->n_ctx,
                                            .scale = p->config->attn_scale,
                                            .causal = true,
                                            .window = kg_model_layer_window(p->config, layer),
                                            .workspace = p->session->workspace.data,
                                            .sinks = sinks };
    return p->ops->attention(p->backend, &args, p->err);
}

enum kg_status kg_pass_attention(const struct kg_pass *p, uint32_t layer, const struct kg_layer_weights *w) {
    const struct kg_activation_buffers *b = p->buffers;
    const uint32_t n_embd = p->config->n_embd;
    const uint32_t q_cols = p->config->n_heads * p->config->head_dim;
    const uint32_t kv_cols = p->config->n_kv_heads * p->config->head_dim;
    KG_TRY(kg_pass_norm(p, b->x, w->attn_norm, w->attn_norm_bias, b->norm, p->n_rows));
    KG_TRY(kg_pass_tap_layer(p, layer, "attn_norm", b->norm, n_embd));
    KG_TRY(kg_pass_linear(p, b->norm, &w->q, w->q_bias, p->activations, b->q));
    KG_TRY(kg_pass_tap_layer(p, layer, "q", b->q, q_cols));
    KG_TRY(kg_pass_linear(p, b->norm, &w->k, w->k_bias, p->activations, b->k));
    KG_TRY(kg_pass_tap_layer(p, layer, "k", b->k, kv_cols));
    KG_TRY(kg_pass_linear(p, b->norm, &w->v, w->v_bias, p->activations, b->v));
    KG_TRY(kg_pass_tap_layer(p, layer, "v", b->v, kv_cols));
    if (p->config->rope_pairing != KG_ROPE_NONE) {
        KG_TRY(rope(p, b->q, p->config->n_heads));
        KG_TRY(kg_pass_tap_layer(p, layer, "q_rope", b->q, q_cols));
        KG_TRY(rope(p, b->k, p->config->n_kv_heads));
        KG_TRY(kg_pass_tap_layer(p, layer, "k_rope", b->k, kv_cols));
    }
    KG_TRY(write_cache(p, layer));
    KG_TRY(attend(p, layer, w->sinks));
    KG_TRY(kg_pass_tap_layer(p, layer, "attn", b->attn, q_cols));
    KG_TRY(kg_pass_linear(p, b->attn, &w->attn_out, w->attn_out_bias, p->residual, b->projected));
    KG_TRY(kg_pass_tap_layer_as(p, layer, "attn_out", KG_TAPPED_RESIDUAL, b->projected, n_embd));
    KG_TRY(kg_pass_add_projected(p));
    return kg_pass_tap_layer_as(p, layer, "attn_residual", KG_TAPPED_RESIDUAL, b->x, n_embd);
}
