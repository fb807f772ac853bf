/* The layer walk: a chunk of ids through embedding, layers and output, by the operations of the back end.
 *
 *     x = embedding[ids]
 *     layer: n = rmsnorm(x); q, k, v = n Wq + bq, n Wk + bk, n Wv + bv; q, k = rope(q), rope(k); cache <- k, v
 *            x = x + attention(q, cache) Wo + bo
 *            n = rmsnorm(x); x = x + (silu(n Wgate) * (n Wup)) Wdown
 *     logits = rmsnorm(x) Woutput */
#include "base/buffer.h"
#include "engine/session.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A forward pass under way. */
struct pass {
    struct kg_session *session;
    struct kg_backend *backend;
    const struct kg_backend_ops *ops;
    const struct kg_model_config *config;
    const struct kg_activation_buffers *buffers;
    enum kg_precision activations;
    uint32_t n_rows, position;
    struct kg_error *err;
};

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const enum kg_status try_status = (call);                                                                      \
        if (try_status) return try_status;                                                                             \
    } while (0)

/* Widens n elements of 16 bits in the upper half of rows to float32, in place from the front. */
static void widen_f16(float *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, (const char *)rows + 2 * (n + i), sizeof half);
        rows[i] = kg_f16_to_f32(half);
    }
}

/* Shows rows to the tap as float32 in host memory. */
static enum kg_status tap_rows(const struct pass *p, const char *name, enum kg_precision precision, const void *data,
                               uint32_t n_rows, uint32_t n_cols, uint32_t first_position) {
    struct kg_session *s = p->session;
    const size_t n = (size_t)n_rows * n_cols;
    if (s->tap_capacity < n) {
        s->tap_rows = kg_xrealloc(s->tap_rows, n * sizeof(float));
        s->tap_capacity = n;
    }
    const size_t size_bytes = n * kg_precision_bytes(precision);
    TRY(p->ops->download(p->backend, (char *)s->tap_rows + (n * sizeof(float) - size_bytes), data, size_bytes, p->err));
    if (precision == KG_PRECISION_F16) widen_f16(s->tap_rows, n);
    const struct kg_tap tap = {
        .name = name, .data = s->tap_rows, .n_rows = n_rows, .n_cols = n_cols, .first_position = first_position
    };
    s->tap(s->tap_user, &tap);
    return KG_OK;
}

static enum kg_status tap_layer(const struct pass *p, uint32_t layer, const char *what, const void *data,
                                uint32_t n_cols) {
    if (!p->session->tap) return KG_OK;
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s", layer, what);
    return tap_rows(p, name, p->activations, data, p->n_rows, n_cols, p->position);
}

static enum kg_status norm(const struct pass *p, const void *x, const float *weight, void *y, uint32_t n_rows) {
    const struct kg_rmsnorm_args args = { .activations = p->activations,
                                          .x = x,
                                          .weight = weight,
                                          .y = y,
                                          .n_rows = n_rows,
                                          .n_cols = p->config->n_embd,
                                          .eps = p->config->norm_eps };
    return p->ops->rmsnorm(p->backend, &args, p->err);
}

static enum kg_status linear(const struct pass *p, const void *x, const struct kg_weight *weight, const float *bias,
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

static enum kg_status rope(const struct pass *p, void *x, uint32_t n_heads) {
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
                                       .freq_factors = kg_model_weights(p->session->model)->rope_factors,
                                       .magnitude = 1 };
    return p->ops->rope(p->backend, &args, p->err);
}

static enum kg_status write_cache(const struct pass *p, uint32_t layer) {
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

static enum kg_status attend(const struct pass *p, uint32_t layer) {
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
                                            .workspace = p->session->workspace.data };
    return p->ops->attention(p->backend, &args, p->err);
}

/* x = x + projected */
static enum kg_status add_projected(const struct pass *p) {
    const struct kg_add_args args = { .activations = p->activations,
                                      .a = p->buffers->x,
                                      .b = p->buffers->projected,
                                      .y = p->buffers->x,
                                      .n_rows = p->n_rows,
                                      .n_cols = p->config->n_embd };
    return p->ops->add(p->backend, &args, p->err);
}

static enum kg_status attention_block(const struct pass *p, uint32_t layer, const struct kg_layer_weights *w) {
    const struct kg_activation_buffers *b = p->buffers;
    const uint32_t n_embd = p->config->n_embd;
    const uint32_t q_cols = p->config->n_heads * p->config->head_dim;
    const uint32_t kv_cols = p->config->n_kv_heads * p->config->head_dim;
    TRY(norm(p, b->x, w->attn_norm, b->norm, p->n_rows));
    TRY(tap_layer(p, layer, "attn_norm", b->norm, n_embd));
    TRY(linear(p, b->norm, &w->q, w->q_bias, p->activations, b->q));
    TRY(tap_layer(p, layer, "q", b->q, q_cols));
    TRY(linear(p, b->norm, &w->k, w->k_bias, p->activations, b->k));
    TRY(tap_layer(p, layer, "k", b->k, kv_cols));
    TRY(linear(p, b->norm, &w->v, w->v_bias, p->activations, b->v));
    TRY(tap_layer(p, layer, "v", b->v, kv_cols));
    TRY(rope(p, b->q, p->config->n_heads));
    TRY(tap_layer(p, layer, "q_rope", b->q, q_cols));
    TRY(rope(p, b->k, p->config->n_kv_heads));
    TRY(tap_layer(p, layer, "k_rope", b->k, kv_cols));
    TRY(write_cache(p, layer));
    TRY(attend(p, layer));
    TRY(tap_layer(p, layer, "attn", b->attn, q_cols));
    TRY(linear(p, b->attn, &w->attn_out, w->attn_out_bias, p->activations, b->projected));
    TRY(tap_layer(p, layer, "attn_out", b->projected, n_embd));
    TRY(add_projected(p));
    return tap_layer(p, layer, "attn_residual", b->x, n_embd);
}

static enum kg_status ffn_block(const struct pass *p, uint32_t layer, const struct kg_layer_weights *w) {
    const struct kg_activation_buffers *b = p->buffers;
    const uint32_t n_embd = p->config->n_embd, n_ff = p->config->n_ff;
    TRY(norm(p, b->x, w->ffn_norm, b->norm, p->n_rows));
    TRY(tap_layer(p, layer, "ffn_norm", b->norm, n_embd));
    TRY(linear(p, b->norm, &w->gate, w->gate_bias, p->activations, b->gate));
    TRY(tap_layer(p, layer, "ffn_gate", b->gate, n_ff));
    TRY(linear(p, b->norm, &w->up, w->up_bias, p->activations, b->up));
    TRY(tap_layer(p, layer, "ffn_up", b->up, n_ff));
    const struct kg_swiglu_args gated = { .activations = p->activations,
                                          .gate = b->gate,
                                          .up = b->up,
                                          .y = b->gate,
                                          .n_rows = p->n_rows,
                                          .n_cols = n_ff,
                                          .alpha = 1 };
    TRY(p->ops->swiglu(p->backend, &gated, p->err));
    TRY(tap_layer(p, layer, "ffn_act", b->gate, n_ff));
    TRY(linear(p, b->gate, &w->down, w->down_bias, p->activations, b->projected));
    TRY(tap_layer(p, layer, "ffn_out", b->projected, n_embd));
    TRY(add_projected(p));
    return tap_layer(p, layer, "out", b->x, n_embd);
}

/* Logits of the last wanted->n_rows rows, in groups that fit the buffer. */
static enum kg_status output(const struct pass *p, const struct kg_logit_rows *wanted) {
    const struct kg_model_weights *w = kg_model_weights(p->session->model);
    const struct kg_activation_buffers *b = p->buffers;
    const size_t elem = kg_precision_bytes(p->activations);
    const size_t n_embd = p->config->n_embd, n_vocab = p->config->n_vocab;
    if (wanted->n_rows == 0) return KG_OK;

    const uint32_t first = p->n_rows - wanted->n_rows;
    const char *x = (const char *)b->x + first * n_embd * elem;
    TRY(norm(p, x, w->output_norm, b->norm, wanted->n_rows));
    if (p->session->tap)
        TRY(tap_rows(p, "output_norm", p->activations, b->norm, wanted->n_rows, p->config->n_embd,
                     p->position + first));
    for (uint32_t done = 0, rows; done < wanted->n_rows; done += rows) {
        rows = wanted->n_rows - done < b->logit_rows ? wanted->n_rows - done : b->logit_rows;
        struct pass group = *p;
        group.n_rows = rows;
        TRY(linear(&group, (const char *)b->norm + done * n_embd * elem, &w->output, NULL, KG_PRECISION_F32,
                   b->logits));
        if (wanted->host)
            TRY(p->ops->download(p->backend, wanted->host + done * n_vocab, b->logits, rows * n_vocab * sizeof(float),
                                 p->err));
        if (p->session->tap)
            TRY(tap_rows(p, "logits", KG_PRECISION_F32, b->logits, rows, p->config->n_vocab,
                         p->position + first + done));
    }
    return KG_OK;
}

/* Embedding and layers, from ids that are in the buffer. */
static enum kg_status all_layers(const struct pass *p) {
    const struct kg_model_weights *w = kg_model_weights(p->session->model);
    const struct kg_activation_buffers *b = p->buffers;
    const struct kg_embedding_args embed = {
        .activations = p->activations, .weight = w->embedding, .ids = b->ids, .n_rows = p->n_rows, .y = b->x
    };
    TRY(p->ops->embedding(p->backend, &embed, p->err));
    if (p->session->tap) TRY(tap_rows(p, "embd", p->activations, b->x, p->n_rows, p->config->n_embd, p->position));
    for (uint32_t layer = 0; layer < p->config->n_layers; layer++) {
        TRY(attention_block(p, layer, &w->layers[layer]));
        TRY(ffn_block(p, layer, &w->layers[layer]));
    }
    return KG_OK;
}

static enum kg_status walk_step(const void *pass, struct kg_error *err) {
    struct pass p = *(const struct pass *)pass;
    const struct kg_model_weights *w = kg_model_weights(p.session->model);
    const struct kg_activation_buffers *b = p.buffers;
    p.err = err;
    TRY(all_layers(&p));
    TRY(norm(&p, b->x, w->output_norm, b->norm, 1));
    return linear(&p, b->norm, &w->output, NULL, KG_PRECISION_F32, b->logits);
}

static enum kg_status whole_step(const struct pass *p, int32_t id, const struct kg_logit_rows *wanted) {
    const struct kg_decode_step_args args = { .config = p->config,
                                              .weights = kg_model_weights(p->session->model),
                                              .kv = &p->session->kv,
                                              .buffers = p->buffers,
                                              .workspace = p->session->workspace.data,
                                              .activations = p->activations,
                                              .id = id,
                                              .position = p->position,
                                              .walk = walk_step,
                                              .pass = p };
    TRY(p->ops->decode_step(p->backend, &args, p->err));
    if (!wanted->host) return KG_OK;
    return p->ops->download(p->backend, wanted->host, p->buffers->logits, p->config->n_vocab * sizeof(float), p->err);
}

enum kg_status kg_forward(struct kg_session *session, const int32_t *ids, uint32_t n_rows, uint32_t position,
                          const struct kg_logit_rows *wanted, struct kg_error *err) {
    const struct pass p = { .session = session,
                            .backend = session->backend,
                            .ops = session->backend->ops,
                            .config = session->config,
                            .buffers = &session->buffers,
                            .activations = session->options.activations,
                            .n_rows = n_rows,
                            .position = position,
                            .err = err };
    if (p.ops->decode_step && n_rows == 1 && wanted->n_rows == 1 && !session->tap)
        return whole_step(&p, ids ? ids[0] : KG_ID_IN_PLACE, wanted);

    if (ids) TRY(p.ops->upload(p.backend, p.buffers->ids, ids, n_rows * sizeof *ids, err));
    TRY(all_layers(&p));
    return output(&p, wanted);
}
