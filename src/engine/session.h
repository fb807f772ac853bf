/* What a session holds: its cache, the buffers of a forward pass, and the taps. */
#ifndef KIGO_ENGINE_SESSION_H
#define KIGO_ENGINE_SESSION_H

#include "backend/backend.h"
#include "engine/kv_cache.h"
#include "engine/plan.h"
#include "model/weights.h"
#include <kigo/engine.h>

/* Rows of one forward pass at most: longer prompts go in chunks. Logits are made in smaller groups, as a row of them is
 * the longest there is. */
enum { KG_MAX_CHUNK_ROWS = 512, KG_MAX_LOGIT_ROWS = 32 };

/* Draws of a session that were asked for and not taken, at most: one, and one ahead. */
enum { KG_DRAWS_WAITING = 2 };

/* Back-end memory, all of max_rows rows unless said otherwise, in one block of the session. */
struct kg_activation_buffers {
    int32_t *ids;    /* (max_rows) */
    void *x;         /* (max_rows, n_embd), the residual stream (kg_residual_precision) */
    void *norm;      /* (max_rows, n_embd) */
    void *q, *attn;  /* (max_rows, n_heads * head_dim) */
    void *k, *v;     /* (max_rows, n_kv_heads * head_dim) */
    void *gate, *up; /* (max_rows, n_ff); with experts (max_rows, n_experts_used, n_ff) */
    void *projected; /* (max_rows, n_embd), what is added to x, of its precision */
    /* With experts only. */
    float *router_logits;  /* (max_rows, n_experts) */
    int32_t *expert_ids;   /* (max_rows, n_experts_used) */
    float *expert_weights; /* (max_rows, n_experts_used) */
    void *expert_out;      /* (max_rows, n_experts_used, n_embd), of x's precision */
    float *logits;         /* (logit_rows, n_vocab), float32 in every precision */
    int32_t *history;      /* (n_ctx + 1), the ids that a draw's penalty sees; only where the back end draws */
    uint32_t max_rows, logit_rows;
    struct kg_plan_buffer names[KG_PLAN_BUFFERS]; /* of those that have bytes */
};

/* Of x, and of what is added to it. */
static inline enum kg_precision kg_residual_precision(const struct kg_model_config *config,
                                                      enum kg_precision activations) {
    return config->wide_residual ? KG_PRECISION_F32 : activations;
}

enum kg_rope_list { KG_ROPE_LIST_MIXED, KG_ROPE_LIST_SHORT, KG_ROPE_LIST_LONG };

struct kg_session {
    struct kg_model *model;
    struct kg_backend *backend;
    const struct kg_model_config *config;
    struct kg_session_options options;
    struct kg_kv_cache kv;
    struct kg_activation_buffers buffers;
    struct kg_block activations, workspace;
    struct kg_plan *plan;
    struct kg_lowered *lowered; /* NULL if the back end lowers nothing */
    uint32_t n_past;

    /* Of a model with long and short rope factors: which the cache was made with, and the host's ids of the positions
     * filled (n_ctx), to make it again with the others. */
    enum kg_rope_list rope_list;
    int32_t *past_ids;

    struct kg_sample_result *mailbox; /* (KG_DRAWS_WAITING); NULL if the back end has no draws */
    uint32_t n_draws_asked;           /* the sequence number of the last */

    float *logits;          /* host, the rows given to the caller */
    size_t logits_capacity; /* in rows */

    kg_tap_fn tap;
    void *tap_user;
    float *tap_rows;     /* host */
    size_t tap_capacity; /* in elements */
};

/* Which rows of a forward pass need logits: the last n_rows of it. */
struct kg_logit_rows {
    uint32_t n_rows;
    float *host; /* (n_rows, n_vocab); NULL leaves them in buffers->logits, if it has as many rows */
};

/* One pass of n_rows ids (host, in range) at positions [position, position + n_rows), which fit the cache; n_rows <=
 * max_rows. NULL for ids: the one in buffers->ids[0]. Writes the cache and the wanted logits, and returns when they are
 * there, on the host if they go there. */
KG_WARN_UNUSED enum kg_status kg_forward(struct kg_session *session, const int32_t *ids, uint32_t n_rows,
                                         uint32_t position, const struct kg_logit_rows *wanted, struct kg_error *err);

/* What rope divides frequencies by: the model's only list, or of two the one that the session's length chose. */
const float *kg_session_rope_factors(const struct kg_session *session);

/* Whether rope's list changes when the sequence grows from n_from positions to n_to. */
bool kg_session_rope_changes(const struct kg_session *session, uint32_t n_from, uint64_t n_to);

/* What kg_session_eval evaluates, but the last id's logits stay in row 0 of buffers->logits and nothing looks at them:
 * who does moves n_past. KG_ERR_RANGE as there. */
KG_WARN_UNUSED enum kg_status kg_session_enqueue(struct kg_session *session, const int32_t *ids, size_t n,
                                                 struct kg_error *err);

/* KG_ERR_NUMERIC naming a logit that is not finite. */
enum kg_status kg_session_bad_logit(struct kg_error *err, size_t index, size_t position, float value);

#endif
