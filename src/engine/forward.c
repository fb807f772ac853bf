/* The layer walk: a chunk of ids through embedding, layers and output, by the operations of the back end.
 *
 *     x = embedding[ids] + positions
 *     layer: attention_block.c, ffn_block.c
 *     logits = norm(x) Woutput */
#include "engine/pass.h"

/* Logits of the last wanted->n_rows rows, in groups that fit the buffer. */
static enum kg_status output(const struct kg_pass *p, const struct kg_logit_rows *wanted) {
    const struct kg_model_weights *w = kg_model_weights(p->session->model);
    const struct kg_activation_buffers *b = p->buffers;
    const size_t elem = kg_precision_bytes(p->activations);
    const size_t n_embd = p->config->n_embd, n_vocab = p->config->n_vocab;
    if (wanted->n_rows == 0) return KG_OK;

    const uint32_t first = p->n_rows - wanted->n_rows;
    const char *x = (const char *)b->x + first * n_embd * kg_precision_bytes(p->residual);
    KG_TRY(kg_pass_norm(p, x, w->output_norm, w->output_norm_bias, b->norm, wanted->n_rows));
    if (p->session->tap)
        KG_TRY(kg_pass_tap(p, "output_norm", KG_TAPPED_ACTIVATIONS, b->norm, wanted->n_rows, p->config->n_embd,
                           p->position + first));
    for (uint32_t done = 0, rows; done < wanted->n_rows; done += rows) {
        rows = wanted->n_rows - done < b->logit_rows ? wanted->n_rows - done : b->logit_rows;
        struct kg_pass group = *p;
        group.n_rows = rows;
        KG_TRY(kg_pass_linear(&group, (const char *)b->norm + done * n_embd * elem, &w->output, NULL, KG_PRECISION_F32,
                              b->logits));
        if (wanted->host)
            KG_TRY(p->ops->download(p->backend, wanted->host + done * n_vocab, b->logits,
                                    rows * n_vocab * sizeof(float), p->err));
        if (p->session->tap)
            KG_TRY(kg_pass_tap(p, "logits", KG_TAPPED_F32, b->logits, rows, p->config->n_vocab,
                               p->position + first + done));
    }
    return KG_OK;
}

/* Embedding and layers, from ids that are in the buffer. */
static enum kg_status all_layers(const struct kg_pass *p) {
    const struct kg_model_weights *w = kg_model_weights(p->session->model);
    const struct kg_activation_buffers *b = p->buffers;
    const struct kg_embedding_args embed = { .activations = p->residual,
                                             .weight = w->embedding,
                                             .ids = b->ids,
                                             .n_rows = p->n_rows,
                                             .y = b->x,
                                             .positions = w->positions,
                                             .position = p->position };
    KG_TRY(p->ops->embedding(p->backend, &embed, p->err));
    if (p->session->tap)
        KG_TRY(kg_pass_tap(p, "embd", KG_TAPPED_RESIDUAL, b->x, p->n_rows, p->config->n_embd, p->position));
    for (uint32_t layer = 0; layer < p->config->n_layers; layer++) {
        KG_TRY(kg_pass_attention(p, layer, &w->layers[layer]));
        KG_TRY(kg_pass_ffn(p, layer, &w->layers[layer]));
    }
    return KG_OK;
}

static enum kg_status walk_step(const void *pass, struct kg_error *err) {
    struct kg_pass p = *(const struct kg_pass *)pass;
    const struct kg_model_weights *w = kg_model_weights(p.session->model);
    const struct kg_activation_buffers *b = p.buffers;
    p.err = err;
    KG_TRY(all_layers(&p));
    KG_TRY(kg_pass_norm(&p, b->x, w->output_norm, w->output_norm_bias, b->norm, 1));
    return kg_pass_linear(&p, b->norm, &w->output, NULL, KG_PRECISION_F32, b->logits);
}

static enum kg_status whole_step(const struct kg_pass *p, int32_t id, const struct kg_logit_rows *wanted) {
    const struct kg_decode_step_args args = { .config = p->config,
                                              .weights = kg_model_weights(p->session->model),
                                              .kv = &p->session->kv,
                                              .buffers = p->buffers,
                                              .workspace = p->session->workspace.data,
                                              .activations = p->activations,
                                              .rope_factors = kg_session_rope_factors(p->session),
                                              .id = id,
                                              .position = p->position,
                                              .walk = walk_step,
                                              .pass = p };
    KG_TRY(p->ops->decode_step(p->backend, &args, p->err));
    if (!wanted->host) return KG_OK;
    return p->ops->download(p->backend, wanted->host, p->buffers->logits, p->config->n_vocab * sizeof(float), p->err);
}

enum kg_status kg_forward(struct kg_session *session, const int32_t *ids, uint32_t n_rows, uint32_t position,
                          const struct kg_logit_rows *wanted, struct kg_error *err) {
    const struct kg_pass p = { .session = session,
                               .backend = session->backend,
                               .ops = session->backend->ops,
                               .config = session->config,
                               .buffers = &session->buffers,
                               .activations = session->options.activations,
                               .residual = kg_residual_precision(session->config, session->options.activations),
                               .n_rows = n_rows,
                               .position = position,
                               .err = err };
    if (p.ops->decode_step && n_rows == 1 && wanted->n_rows == 1 && !session->tap)
        return whole_step(&p, ids ? ids[0] : KG_ID_IN_PLACE, wanted);

    if (ids) KG_TRY(p.ops->upload(p.backend, p.buffers->ids, ids, n_rows * sizeof *ids, err));
    KG_TRY(all_layers(&p));
    return output(&p, wanted);
}
