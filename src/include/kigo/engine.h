/* The engine: sessions, sampling and generation. A session is a KV cache over a model.
 *
 * A model may serve any number of sessions. One thread at a time may use a session. */
#ifndef KIGO_ENGINE_H
#define KIGO_ENGINE_H

#include <kigo/backend.h>
#include <kigo/model.h>
#include <kigo/ops.h>
#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kg_session;

struct kg_session_options {
    uint32_t n_ctx; /* positions the KV cache holds; 0: the model's training context */
    enum kg_precision activations, kv;
};

KG_WARN_UNUSED enum kg_status kg_session_create(struct kg_model *model, const struct kg_session_options *options,
                                                struct kg_session **session, struct kg_error *err);
void kg_session_free(struct kg_session *session);
uint32_t kg_session_n_past(const struct kg_session *session); /* positions filled */
uint32_t kg_session_n_ctx(const struct kg_session *session);

/* Drops all positions from n_past on, so that the next eval continues there; n_past <= the positions filled. */
KG_WARN_UNUSED enum kg_status kg_session_truncate(struct kg_session *session, uint32_t n_past, struct kg_error *err);

enum kg_logits_wanted { KG_LOGITS_LAST, KG_LOGITS_ALL };

/* Appends n ids to the sequence and computes logits of the last id, or of every id: float32 (1 or n, n_vocab) in host
 * memory, valid until the next call. Synchronous. KG_ERR_RANGE if an id is outside the vocabulary or the context would
 * overflow; the session is then unchanged. KG_ERR_NUMERIC if a logit is NaN or infinite, naming position and index. */
KG_WARN_UNUSED enum kg_status kg_session_eval(struct kg_session *session, const int32_t *ids, size_t n,
                                              enum kg_logits_wanted wanted, const float **logits, struct kg_error *err);

/* Taps: eval calls fn with each named activation, as float32 rows in host memory, valid during the call. Row r is
 * position first_position + r. NULL disables taps. Names: embd (learned positions added),
 * blk.N.{attn_norm,q,k,v,q_rope,k_rope,attn,attn_out,attn_residual,ffn_norm,ffn_gate,ffn_up,ffn_act,ffn_out,out},
 * output_norm, logits. A model with experts also has blk.N.{router (logits), expert_ids, expert_weights, expert_out};
 * its ffn_gate, ffn_up, ffn_act and expert_out hold the columns of the chosen experts one after the other. A model
 * without an operation (rope, gates) has no tap for it. */
struct kg_tap {
    const char *name;
    const float *data;
    size_t n_rows, n_cols;
    uint32_t first_position;
};
typedef void (*kg_tap_fn)(void *user, const struct kg_tap *tap);
void kg_session_set_tap(struct kg_session *session, kg_tap_fn fn, void *user);

/* Bytes of a KV cache: n_layers * 2 * n_kv_heads * head_dim * n_ctx * element size. */
uint64_t kg_kv_cache_bytes(const struct kg_model_config *config, uint32_t n_ctx, enum kg_precision kv);

struct kg_sampler;
/* KG_ERR_USAGE names the option that is out of range. */
KG_WARN_UNUSED enum kg_status kg_sampler_create(const struct kg_sampler_options *options, uint32_t n_vocab,
                                                struct kg_sampler **sampler, struct kg_error *err);
void kg_sampler_free(struct kg_sampler *sampler);
/* Draws an id from logits[n_vocab]. history: the ids so far (prompt and generated), for the repetition penalty.
 * KG_ERR_NUMERIC if a logit is NaN or none is finite. */
KG_WARN_UNUSED enum kg_status kg_sampler_draw(struct kg_sampler *sampler, const float *logits, const int32_t *history,
                                              size_t n_history, int32_t *id, struct kg_error *err);

/* Generation. */
enum kg_finish {
    KG_FINISH_LENGTH,
    KG_FINISH_END_TOKEN,
    KG_FINISH_STOP_SEQUENCE,
    KG_FINISH_CONTEXT,
    KG_FINISH_CANCELLED
};
const char *kg_finish_name(enum kg_finish finish); /* "length", "end_token", ... */

struct kg_generate_options {
    struct kg_sampler_options sampler;
    uint32_t max_tokens;
    const struct kg_stop_sequence *stops; /* matched on token ids; left out of the result */
    size_t n_stops;
    bool ignore_end; /* continue past end tokens */
    /* Receives text as it is generated, in whole UTF-8 characters; returns false to cancel. May be NULL. Text that may
     * still become a stop sequence is held back. */
    bool (*on_text)(void *user, const char *text, size_t len);
    /* Asked between the prompt's chunks and after each id; true cancels. May be NULL. */
    bool (*is_cancelled)(void *user);
    void *user;
    /* The prompt's first n_held ids are evaluated already: they are the session's last n_held positions. What is left
     * of the prompt, one id or more, is evaluated. The repetition penalty sees all of the prompt. */
    size_t n_held;
};
struct kg_stop_sequence {
    const int32_t *ids;
    size_t n;
};

struct kg_generate_result {
    int32_t *ids; /* generated, without end token and stop sequence */
    size_t n_ids;
    char *text; /* decoded ids, without special tokens; malloc'ed */
    size_t text_len;
    enum kg_finish finish;
    /* first_token: from the call to the first id. prefill: from the call to the prompt's logits; where the back end
     * draws the id itself, to the first id, because the host cannot separate the two. */
    uint64_t prefill_ns, first_token_ns, decode_ns;
    uint64_t *token_ns; /* (n_evals): from one id to the next, evaluation and draw */
    size_t n_evals;
    uint64_t n_decode_allocations; /* back-end allocations while decoding; must be 0 */
    uint64_t n_decode_waits;       /* host waits while decoding, except for a drawn id; 0 where the back end draws */
};

/* Appends the prompt ids that are not held to the session (prefill), then generates. KG_ERR_RANGE if the prompt does
 * not fit the context. A context that fills up during generation ends it with KG_FINISH_CONTEXT. Whatever ends it, what
 * the session then holds are the first ids of the prompt and the answer. */
KG_WARN_UNUSED enum kg_status kg_generate(struct kg_session *session, const int32_t *prompt, size_t n_prompt,
                                          const struct kg_generate_options *options, struct kg_generate_result *result,
                                          struct kg_error *err);
void kg_generate_result_free(struct kg_generate_result *result);

#ifdef __cplusplus
}
#endif

#endif
