/* A forward pass: a chunk of ids through the session's plan, node by node or fused where the back end lowers it, or as
 * a lowered decode step. */
#include "base/buffer.h"
#include "engine/session.h"
#include <stdio.h>
#include <string.h>

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

/* The same of int32. */
static void convert_i32(float *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int32_t number;
        memcpy(&number, &rows[i], sizeof number);
        rows[i] = (float)number;
    }
}

/* Rows to the session's tap, as float32 in host memory. */
static enum kg_status show(struct kg_session *s, const struct kg_node *node, const struct kg_tap_point *point,
                           const struct kg_run *run, struct kg_error *err) {
    const enum kg_precision precision = point->type == KG_TAPPED_ACTIVATIONS ? s->plan->activations
                                        : point->type == KG_TAPPED_RESIDUAL  ? s->plan->residual
                                                                             : KG_PRECISION_F32;
    const size_t n = (size_t)run->n_rows * point->n_cols;
    const size_t size_bytes = n * kg_precision_bytes(precision); /* of int32 too */
    char name[64];
    if (s->tap_capacity < n) {
        s->tap_rows = kg_xrealloc(s->tap_rows, n * sizeof(float));
        s->tap_capacity = n;
    }
    TRY(s->backend->ops->download(s->backend, (char *)s->tap_rows + (n * sizeof(float) - size_bytes), point->data,
                                  size_bytes, err));
    if (precision == KG_PRECISION_F16) widen_f16(s->tap_rows, n);
    if (point->type == KG_TAPPED_I32) convert_i32(s->tap_rows, n);
    if (node->layer == KG_NO_LAYER) snprintf(name, sizeof name, "%s", point->name);
    else snprintf(name, sizeof name, "blk.%d.%s", node->layer, point->name);
    const struct kg_tap tap = { .name = name,
                                .data = s->tap_rows,
                                .n_rows = run->n_rows,
                                .n_cols = point->n_cols,
                                .first_position = run->position };
    s->tap(s->tap_user, &tap);
    return KG_OK;
}

static enum kg_status run_node(struct kg_session *s, const struct kg_node *node, const struct kg_run *run,
                               struct kg_error *err) {
    TRY(kg_plan_run_node(s->backend, node, run, err));
    for (int i = 0; s->tap && i < KG_NODE_TAPS && node->taps[i].name; i++) TRY(show(s, node, &node->taps[i], run, err));
    return KG_OK;
}

/* The node with q and the residual stream further on by n rows. What is between them is scratch. */
static struct kg_node from_row(const struct kg_session *s, const struct kg_node *node, uint32_t n) {
    const struct kg_activation_buffers *b = &s->buffers;
    const size_t q_cols = (size_t)s->config->n_heads * s->config->head_dim;
    struct kg_node moved = *node;
    kg_node_move(&moved, b->q, (const char *)b->q + n * q_cols * kg_precision_bytes(s->plan->activations));
    kg_node_move(&moved, b->x, (const char *)b->x + n * s->config->n_embd * kg_precision_bytes(s->plan->residual));
    return moved;
}

/* The node of logits for rows from n on of those that the norm before it has made. */
static struct kg_node logits_from_row(const struct kg_session *s, uint32_t n) {
    const char *norm = s->buffers.norm;
    struct kg_node moved = s->plan->nodes[s->plan->n_nodes - 1];
    kg_node_move(&moved, norm, norm + n * s->config->n_embd * kg_precision_bytes(s->plan->activations));
    return moved;
}

/* Logits of the last wanted->n_rows rows of a run, in groups that fit the buffer. */
static enum kg_status output(struct kg_session *s, const struct kg_run *run, const struct kg_logit_rows *wanted,
                             struct kg_error *err) {
    const size_t n_vocab = s->config->n_vocab;
    if (wanted->n_rows == 0) return KG_OK;

    const uint32_t first = run->n_rows - wanted->n_rows;
    struct kg_run last = *run;
    last.n_rows = wanted->n_rows;
    last.position += first;
    const struct kg_node norm = from_row(s, &s->plan->nodes[s->plan->n_body], first);
    TRY(run_node(s, &norm, &last, err));
    for (uint32_t done = 0; done < wanted->n_rows; done += last.n_rows, last.position += last.n_rows) {
        const uint32_t left = wanted->n_rows - done;
        const struct kg_node group = logits_from_row(s, done);
        last.n_rows = left < s->buffers.logit_rows ? left : s->buffers.logit_rows;
        TRY(kg_plan_run_node(s->backend, &group, &last, err));
        if (wanted->host)
            TRY(s->backend->ops->download(s->backend, wanted->host + done * n_vocab, s->buffers.logits,
                                          last.n_rows * n_vocab * sizeof(float), err));
        if (s->tap) TRY(show(s, &group, &group.taps[0], &last, err));
    }
    return KG_OK;
}

/* Nodes [first, end) for all rows of the run. */
static enum kg_status run_nodes(struct kg_session *s, uint32_t first, uint32_t end, const struct kg_run *run,
                                struct kg_error *err) {
    for (uint32_t i = first, n; i < end; i += n) {
        n = 0;
        if (s->lowered && s->backend->ops->run_rows && !s->tap)
            TRY(s->backend->ops->run_rows(s->backend, s->lowered, i, run, &n, err));
        if (n > 0) continue;
        TRY(run_node(s, &s->plan->nodes[i], run, err));
        n = 1;
    }
    return KG_OK;
}

/* What is left of the last layer when keys and values are in the cache, without the first n_unasked rows of the run:
 * nothing reads what would come of them. */
static enum kg_status finish_rows(struct kg_session *s, const struct kg_run *run, uint32_t n_unasked,
                                  struct kg_error *err) {
    struct kg_run last = *run;
    last.n_rows -= n_unasked;
    last.position += n_unasked;
    for (uint32_t i = s->plan->n_cached; i < s->plan->n_body && last.n_rows > 0; i++) {
        const struct kg_node node = from_row(s, &s->plan->nodes[i], n_unasked);
        TRY(run_node(s, &node, &last, err));
    }
    return KG_OK;
}

static enum kg_status whole_step(struct kg_session *s, int32_t id, const struct kg_run *run,
                                 const struct kg_logit_rows *wanted, struct kg_error *err) {
    const struct kg_step_args args = { .run = *run, .id = id };
    TRY(s->backend->ops->decode_step(s->backend, s->lowered, &args, err));
    if (!wanted->host) return KG_OK;
    return s->backend->ops->download(s->backend, wanted->host, s->buffers.logits, s->config->n_vocab * sizeof(float),
                                     err);
}

enum kg_status kg_forward(struct kg_session *s, const int32_t *ids, uint32_t n_rows, uint32_t position,
                          const struct kg_logit_rows *wanted, struct kg_error *err) {
    const struct kg_run run = { .n_rows = n_rows, .position = position, .rope_factors = kg_session_rope_factors(s) };
    if (s->lowered && n_rows == 1 && wanted->n_rows == 1 && !s->tap)
        return whole_step(s, ids ? ids[0] : KG_ID_IN_PLACE, &run, wanted, err);

    if (ids) TRY(s->backend->ops->upload(s->backend, s->buffers.ids, ids, n_rows * sizeof *ids, err));
    const uint32_t n_unasked = s->tap ? 0 : n_rows - wanted->n_rows;
    TRY(run_nodes(s, 0, n_unasked > 0 ? s->plan->n_cached : s->plan->n_body, &run, err));
    if (n_unasked > 0) TRY(finish_rows(s, &run, n_unasked, err));
    return output(s, &run, wanted, err);
}
