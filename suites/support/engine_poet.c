/* The engine as a poet: the public API, as the CLI uses it. A fresh session for each answer, so that none knows
 * another. */
#include "suites/support/poet.h"
#include <stdlib.h>
#include <string.h>

enum kg_status kg_engine_poet_open(const char *backend_name, enum kg_precision precision, const char *model_path,
                                   struct kg_engine_poet *poet, struct kg_error *err) {
    struct kg_engine_poet opened = { .precision = precision };
    enum kg_status status = kg_backend_open(backend_name, 0, &opened.backend, err);
    if (status == KG_OK) status = kg_model_load(model_path, opened.backend, NULL, &opened.model, err);
    if (status == KG_OK) status = kg_model_require_tokenizer(opened.model, &opened.tokenizer, err);
    if (status != KG_OK) {
        kg_engine_poet_close(&opened);
        return status;
    }
    opened.n_vocab = kg_model_config(opened.model)->n_vocab;
    *poet = opened;
    return KG_OK;
}

void kg_engine_poet_close(struct kg_engine_poet *poet) {
    kg_model_free(poet->model);
    kg_backend_close(poet->backend);
    memset(poet, 0, sizeof *poet);
}

static enum kg_status open_session(struct kg_engine_poet *poet, size_t n_ctx, struct kg_session **session,
                                   struct kg_error *err) {
    const struct kg_session_options options = { .n_ctx = (uint32_t)n_ctx,
                                                .activations = poet->precision,
                                                .kv = poet->precision };
    return kg_session_create(poet->model, &options, session, err);
}

static enum kg_status encode_request(const struct kg_engine_poet *poet, const struct kg_haiku_request *request,
                                     struct kg_haiku_answer *answer, struct kg_error *err) {
    char *const user = kg_haiku_user_text(request);
    if (poet->plain) answer->prompt_text = user;
    else {
        const struct kg_chat_message message = { .role = "user", .content = user };
        const struct kg_chat_options options = { .date = request->chat->date };
        const enum kg_status status =
            kg_chat_render_with(poet->tokenizer, &message, 1, true, &options, &answer->prompt_text, err);
        free(user);
        if (status != KG_OK) return status;
    }
    return kg_tokenizer_encode(poet->tokenizer, answer->prompt_text, strlen(answer->prompt_text), !poet->plain,
                               &answer->prompt_ids, err);
}

static enum kg_status answer_request(void *self, const struct kg_haiku_request *request, struct kg_haiku_answer *answer,
                                     struct kg_error *err) {
    struct kg_engine_poet *const poet = self;
    struct kg_haiku_answer own = { 0 };
    struct kg_session *session = NULL;
    const struct kg_generate_options options = { .sampler = request->sampler, .max_tokens = request->max_tokens };
    enum kg_status status = encode_request(poet, request, &own, err);
    if (status == KG_OK) status = open_session(poet, own.prompt_ids.n + request->max_tokens, &session, err);
    if (status == KG_OK)
        status = kg_generate(session, own.prompt_ids.ids, own.prompt_ids.n, &options, &own.result, err);
    kg_session_free(session);
    if (status == KG_OK) *answer = own;
    else kg_haiku_answer_free(&own);
    return status;
}

static enum kg_status evaluate(void *self, const int32_t *ids, size_t n, size_t n_prefill, bool all_rows, float *rows,
                               struct kg_error *err) {
    struct kg_engine_poet *const poet = self;
    const size_t n_vocab = poet->n_vocab;
    struct kg_session *session;
    const size_t n_ctx = all_rows ? n : n_prefill + KG_HAIKU_MAX_TOKENS; /* a generation's */
    enum kg_status status = open_session(poet, n > n_ctx ? n : n_ctx, &session, err);
    if (status != KG_OK) return status;
    for (size_t at = 0, step; status == KG_OK && at < n; at += step) {
        const float *logits;
        step = at < n_prefill ? n_prefill - at : 1;
        status = kg_session_eval(session, ids + at, step, all_rows ? KG_LOGITS_ALL : KG_LOGITS_LAST, &logits, err);
        const size_t n_rows = all_rows ? step : 1;
        if (status == KG_OK) memcpy(rows + (at + step - n_rows) * n_vocab, logits, n_rows * n_vocab * sizeof *rows);
    }
    kg_session_free(session);
    return status;
}

static void memory(void *self, struct kg_memory_use *use) {
    const struct kg_engine_poet *const poet = self;
    kg_backend_memory(poet->backend, use);
}

struct kg_poet kg_engine_poet(struct kg_engine_poet *poet) {
    return (struct kg_poet){ .self = poet, .answer = answer_request, .logits = evaluate, .memory = memory };
}
