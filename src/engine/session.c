#include "engine/session.h"
#include "base/finite.h"
#include "base/buffer.h"
#include "base/size.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Carves the buffers out of one allocation, and names those that nodes read or write. */
static enum kg_status make_buffers(struct kg_session *s, struct kg_error *err) {
    const struct kg_model_config *c = s->config;
    struct kg_activation_buffers *b = &s->buffers;
    const uint64_t rows = b->max_rows, elem = kg_precision_bytes(s->options.activations);
    const uint64_t residual = kg_precision_bytes(kg_residual_precision(c, s->options.activations));
    const uint64_t heads = (uint64_t)c->n_heads * c->head_dim, kv_heads = (uint64_t)c->n_kv_heads * c->head_dim;
    const uint64_t n_used = c->n_experts_used, n_parts = n_used > 0 ? n_used : 1,
                   n_draws = s->backend->ops->draws ? 1 : 0;
    const struct {
        const char *name;
        void **place;
        uint64_t n_rows, n_cols, elem_bytes;
    } parts[] = {
        { "ids", (void **)&b->ids, rows, 1, sizeof *b->ids },
        { "x", &b->x, rows, c->n_embd, residual },
        { "norm", &b->norm, rows, c->n_embd, elem },
        { "q", &b->q, rows, heads, elem }, /* q, k and v of one width lie equally far apart, for one product */
        { "k", &b->k, rows, kv_heads, elem },
        { "v", &b->v, rows, kv_heads, elem },
        { "attn", &b->attn, rows, heads, elem },
        { "gate", &b->gate, rows * n_parts, c->n_ff, elem },
        { "up", &b->up, rows * n_parts, c->n_ff, elem },
        { "projected", &b->projected, rows, c->n_embd, residual },
        { "router_logits", (void **)&b->router_logits, rows, c->n_experts, sizeof *b->router_logits },
        { "expert_ids", (void **)&b->expert_ids, rows, n_used, sizeof *b->expert_ids },
        { "expert_weights", (void **)&b->expert_weights, rows, n_used, sizeof *b->expert_weights },
        { "expert_out", &b->expert_out, rows * n_used, c->n_embd, residual },
        { "logits", (void **)&b->logits, b->logit_rows, c->n_vocab, sizeof *b->logits },
        { "history", (void **)&b->history, n_draws, (uint64_t)s->options.n_ctx + 1, sizeof *b->history },
    };
    enum { ALIGNMENT_BYTES = 256 };
    uint64_t n_bytes[KG_COUNT_OF(parts)], total = 0;
    for (size_t i = 0; i < KG_COUNT_OF(parts); i++) {
        /* At most 2^9 rows of 2^10 experts' 2^32 elements of 4 bytes: sums stay far from 2^64. */
        const uint64_t wanted = parts[i].n_rows * parts[i].n_cols * parts[i].elem_bytes;
        total += n_bytes[i] = (wanted + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
    }
    const enum kg_status status = s->backend->ops->alloc(s->backend, KG_MEMORY_ACTIVATIONS, total,
                                                         "the activations of a session", &s->activations, err);
    if (status) return status;
    _Static_assert(KG_COUNT_OF(parts) <= KG_PLAN_BUFFERS, "a plan names each buffer");
    char *at = s->activations.data;
    for (size_t i = 0, n = 0; i < KG_COUNT_OF(parts); at += n_bytes[i++]) {
        *parts[i].place = at;
        if (n_bytes[i] > 0) b->names[n++] = (struct kg_plan_buffer){ parts[i].name, at };
    }
    return KG_OK;
}

/* Host rows for logits; keeps the present ones if they are large enough. */
static enum kg_status reserve_logits(struct kg_session *s, size_t n_rows, struct kg_error *err) {
    if (n_rows <= s->logits_capacity) return KG_OK;
    free(s->logits);
    s->logits_capacity = 0;
    s->logits = calloc(n_rows, s->config->n_vocab * sizeof(float));
    if (!s->logits)
        return kg_fail(err, KG_ERR_NO_MEMORY, "no memory for %zu rows of %u logits", n_rows, s->config->n_vocab);
    s->logits_capacity = n_rows;
    return KG_OK;
}

static enum kg_status open_mailbox(struct kg_session *s, struct kg_error *err) {
    const struct kg_draw_ops *draws = s->backend->ops->draws;
    void *memory;
    if (!draws) return KG_OK;
    const enum kg_status status = draws->open_mailbox(s->backend, KG_DRAWS_WAITING * sizeof *s->mailbox, &memory, err);
    if (!status) s->mailbox = memory;
    return status;
}

/* There are no positions past those that the model has learned. */
static enum kg_status check_length(const struct kg_session *s, struct kg_error *err) {
    if (!s->config->has_positions || s->options.n_ctx <= s->config->n_ctx_train) return KG_OK;
    return kg_fail(err, KG_ERR_RANGE, "a context of %u: the model has %u learned positions", s->options.n_ctx,
                   s->config->n_ctx_train);
}

enum kg_status kg_session_create(struct kg_model *model, const struct kg_session_options *options,
                                 struct kg_session **out, struct kg_error *err) {
    struct kg_session *s = kg_xcalloc(1, sizeof *s);
    s->model = model;
    s->backend = kg_model_backend(model);
    s->config = kg_model_config(model);
    s->options = *options;
    if (s->options.n_ctx == 0) s->options.n_ctx = s->config->n_ctx_train;
    const uint32_t n_ctx = s->options.n_ctx;
    s->buffers.max_rows = n_ctx < KG_MAX_CHUNK_ROWS ? n_ctx : KG_MAX_CHUNK_ROWS;
    s->buffers.logit_rows = n_ctx < KG_MAX_LOGIT_ROWS ? n_ctx : KG_MAX_LOGIT_ROWS;

    const struct kg_session_plan plan = { .config = s->config,
                                          .activations = options->activations,
                                          .kv = options->kv,
                                          .n_ctx = n_ctx,
                                          .max_rows = s->buffers.max_rows };
    const struct kg_backend_ops *ops = s->backend->ops;
    uint64_t workspace_bytes = 0;
    enum kg_status status = check_length(s, err);
    if (!status) status = ops->session_plan(s->backend, &plan, &workspace_bytes, err);
    if (!status) status = kg_kv_cache_create(s->backend, s->config, n_ctx, options->kv, &s->kv, err);
    if (!status) status = make_buffers(s, err);
    if (!status)
        status = ops->alloc(s->backend, KG_MEMORY_WORKSPACE, workspace_bytes, "the workspace of a session",
                            &s->workspace, err);
    if (!status) status = kg_plan_create(s, &s->plan, err);
    if (!status && ops->lower) status = ops->lower(s->backend, s->plan, &s->lowered, err);
    if (!status && s->config->rope_long_short) s->past_ids = kg_xcalloc(n_ctx, sizeof *s->past_ids);
    if (!status) status = open_mailbox(s, err);
    if (!status) status = reserve_logits(s, 1, err);
    if (status) kg_session_free(s);
    else *out = s;
    return status;
}

void kg_session_free(struct kg_session *s) {
    if (!s) return;
    if (s->lowered) s->backend->ops->free_lowered(s->backend, s->lowered);
    kg_plan_free(s->plan);
    s->backend->ops->free(s->backend, &s->workspace);
    s->backend->ops->free(s->backend, &s->activations);
    kg_kv_cache_free(s->backend, &s->kv);
    if (s->mailbox) s->backend->ops->draws->close_mailbox(s->backend, s->mailbox);
    free(s->past_ids);
    free(s->tap_rows);
    free(s->logits);
    free(s);
}

uint32_t kg_session_n_past(const struct kg_session *s) {
    return s->n_past;
}

uint32_t kg_session_n_ctx(const struct kg_session *s) {
    return s->options.n_ctx;
}

void kg_session_set_tap(struct kg_session *s, kg_tap_fn fn, void *user) {
    s->tap = fn;
    s->tap_user = user;
}

enum kg_status kg_session_truncate(struct kg_session *s, uint32_t n_past, struct kg_error *err) {
    if (n_past > s->n_past)
        return kg_fail(err, KG_ERR_RANGE, "cannot truncate to %u positions: only %u are filled", n_past, s->n_past);
    s->n_past = n_past;
    return KG_OK;
}

static enum kg_status check_ids(const struct kg_session *s, const int32_t *ids, size_t n, struct kg_error *err) {
    if (n == 0) return kg_fail(err, KG_ERR_USAGE, "no ids to evaluate");
    if (n > s->options.n_ctx - s->n_past)
        return kg_fail(err, KG_ERR_RANGE, "%zu more ids after %u do not fit a context of %u", n, s->n_past,
                       s->options.n_ctx);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= s->config->n_vocab)
            return kg_fail(err, KG_ERR_RANGE, "id %d at index %zu is outside the vocabulary of %u", ids[i], i,
                           s->config->n_vocab);
    return KG_OK;
}

enum kg_status kg_session_bad_logit(struct kg_error *err, size_t index, size_t position, float value) {
    return kg_fail(err, KG_ERR_NUMERIC, "logit %zu at position %zu is %g", index, position, (double)value);
}

static enum kg_status check_finite(const struct kg_session *s, size_t n_rows, size_t first_position,
                                   struct kg_error *err) {
    const size_t n_vocab = s->config->n_vocab;
    if (kg_finite_all(s->logits, n_rows * n_vocab)) return KG_OK;
    for (size_t i = 0; i < n_rows * n_vocab; i++)
        if (!isfinite(s->logits[i]))
            return kg_session_bad_logit(err, i % n_vocab, first_position + i / n_vocab, s->logits[i]);
    return KG_OK;
}

static enum kg_rope_list rope_list_of(const struct kg_session *s, uint64_t n_positions) {
    return n_positions > s->config->rope_original_ctx ? KG_ROPE_LIST_LONG : KG_ROPE_LIST_SHORT;
}

const float *kg_session_rope_factors(const struct kg_session *s) {
    const struct kg_model_weights *w = kg_model_weights(s->model);
    return s->rope_list == KG_ROPE_LIST_LONG ? w->rope_factors_long : w->rope_factors;
}

bool kg_session_rope_changes(const struct kg_session *s, uint32_t n_from, uint64_t n_to) {
    return s->config->rope_long_short && rope_list_of(s, n_from) != rope_list_of(s, n_to);
}

/* All of a sequence is rotated by one list, chosen by its length: keys that were cached with the other are made again.
 */
static enum kg_status choose_rope_list(struct kg_session *s, const int32_t *ids, size_t n, struct kg_error *err) {
    const struct kg_logit_rows none = { 0 };
    if (!s->config->rope_long_short) return KG_OK;
    const enum kg_rope_list list = rope_list_of(s, s->n_past + n), was = s->rope_list;
    const kg_tap_fn tap = s->tap;
    enum kg_status status = KG_OK;
    memcpy(s->past_ids + s->n_past, ids, n * sizeof *ids);
    s->rope_list = list;
    s->tap = NULL; /* it has seen these rows */
    for (uint32_t done = 0, rows; done < s->n_past && was != list && !status; done += rows) {
        rows = s->n_past - done < s->buffers.max_rows ? s->n_past - done : s->buffers.max_rows;
        status = kg_forward(s, s->past_ids + done, rows, done, &none, err);
    }
    s->tap = tap;
    if (status) s->rope_list = KG_ROPE_LIST_MIXED;
    return status;
}

/* In chunks of at most max_rows; logits of every row or of the last, to the host unless that is NULL. */
static enum kg_status evaluate(struct kg_session *s, const int32_t *ids, size_t n, enum kg_logits_wanted wanted,
                               float *host, struct kg_error *err) {
    const enum kg_status chosen = choose_rope_list(s, ids, n, err);
    if (chosen) return chosen;
    for (size_t done = 0, rows; done < n; done += rows) {
        rows = n - done < s->buffers.max_rows ? n - done : s->buffers.max_rows;
        struct kg_logit_rows here = { .n_rows = done + rows == n ? 1 : 0, .host = host };
        if (wanted == KG_LOGITS_ALL)
            here = (struct kg_logit_rows){ .n_rows = (uint32_t)rows, .host = host + done * s->config->n_vocab };
        const enum kg_status status = kg_forward(s, ids + done, (uint32_t)rows, s->n_past + (uint32_t)done, &here, err);
        if (status) return status;
    }
    return KG_OK;
}

enum kg_status kg_session_enqueue(struct kg_session *s, const int32_t *ids, size_t n, struct kg_error *err) {
    const enum kg_status status = check_ids(s, ids, n, err);
    return status ? status : evaluate(s, ids, n, KG_LOGITS_LAST, NULL, err);
}

enum kg_status kg_session_eval(struct kg_session *s, const int32_t *ids, size_t n, enum kg_logits_wanted wanted,
                               const float **logits, struct kg_error *err) {
    enum kg_status status = check_ids(s, ids, n, err);
    const size_t n_wanted = wanted == KG_LOGITS_ALL ? n : 1;
    if (!status) status = reserve_logits(s, n_wanted, err);
    if (!status) status = evaluate(s, ids, n, wanted, s->logits, err);
    if (status) return status;
    status = check_finite(s, n_wanted, s->n_past + n - n_wanted, err);
    if (status) return status;
    s->n_past += (uint32_t)n;
    *logits = s->logits;
    return KG_OK;
}
