#include "base/buffer.h"
#include "base/clock.h"
#include "engine/pipeline.h"
#include "engine/sampler.h"
#include <kigo/tokenizer.h>
#include <stdlib.h>
#include <string.h>

/* A generation under way. The ids of prompt and answer lie one after another, as the repetition penalty sees them. */
struct run {
    struct kg_session *session;
    const struct kg_tokenizer *tokenizer;
    const struct kg_generate_options *options;
    uint32_t n_drawable;
    bool on_device;              /* the back end draws */
    struct kg_pipeline pipeline; /* if so */
    struct kg_sampler *sampler;  /* else */
    int32_t *history;            /* prompt, then generated ids */
    size_t n_prompt, n_ids;
    size_t n_held;  /* of the prompt: evaluated */
    size_t n_shown; /* generated ids whose text was given out */
    struct kg_text_stream shown;
    struct kg_buffer text;
    bool cancelled;
    struct kg_generate_result result;
    struct kg_error *err;
};

const char *kg_finish_name(enum kg_finish finish) {
    static const char *const NAMES[] = {
        [KG_FINISH_LENGTH] = "length",
        [KG_FINISH_END_TOKEN] = "end_token",
        [KG_FINISH_STOP_SEQUENCE] = "stop_sequence",
        [KG_FINISH_CONTEXT] = "context",
        [KG_FINISH_CANCELLED] = "cancelled",
    };
    return (unsigned)finish < sizeof NAMES / sizeof *NAMES ? NAMES[finish] : "unknown";
}

static int32_t *generated(const struct run *r) {
    return r->history + r->n_prompt;
}

/* Whether the last n generated ids are the first n of a stop sequence. */
static bool ends_with(const struct run *r, const struct kg_stop_sequence *stop, size_t n) {
    return n <= r->n_ids && memcmp(generated(r) + r->n_ids - n, stop->ids, n * sizeof *stop->ids) == 0;
}

/* Length of the longest stop sequence that has just been completed; 0 for none. */
static size_t completed_stop(const struct run *r) {
    size_t longest = 0;
    for (size_t i = 0; i < r->options->n_stops; i++) {
        const struct kg_stop_sequence *stop = &r->options->stops[i];
        if (stop->n > longest && ends_with(r, stop, stop->n)) longest = stop->n;
    }
    return longest;
}

/* How many of the last ids may still become a stop sequence. */
static size_t held_back(const struct run *r) {
    size_t longest = 0;
    for (size_t i = 0; i < r->options->n_stops; i++) {
        const struct kg_stop_sequence *stop = &r->options->stops[i];
        for (size_t n = stop->n - 1; n > longest; n--)
            if (ends_with(r, stop, n)) longest = n;
    }
    return longest;
}

/* Hands the text made since `from` to the caller, unless one of its calls has said to stop. */
static void emit(struct run *r, size_t from) {
    if (r->text.len == from || !r->options->on_text || r->cancelled) return;
    r->cancelled = !r->options->on_text(r->options->user, r->text.data + from, r->text.len - from);
}

/* Decodes the ids up to `end` that were not shown yet, and shows their text. */
static enum kg_status show(struct run *r, size_t end) {
    const size_t from = r->text.len;
    for (; r->n_shown < end; r->n_shown++) {
        const enum kg_status status = kg_text_stream_push(&r->shown, generated(r)[r->n_shown], &r->text, r->err);
        if (status) return status;
    }
    emit(r, from);
    return KG_OK;
}

static bool is_cancelled(struct run *r) {
    if (r->options->is_cancelled && r->options->is_cancelled(r->options->user)) r->cancelled = true;
    return r->cancelled;
}

/* Looks at the id just drawn: keeps it, or ends the generation (*done, with result.finish). */
static enum kg_status settle(struct run *r, int32_t id, bool *done) {
    *done = true;
    if (!r->options->ignore_end && kg_tokenizer_is_end(r->tokenizer, id)) {
        r->result.finish = KG_FINISH_END_TOKEN;
        return KG_OK;
    }
    generated(r)[r->n_ids++] = id;
    const size_t stop = completed_stop(r);
    if (stop > 0) {
        r->n_ids -= stop;
        r->result.finish = KG_FINISH_STOP_SEQUENCE;
        return KG_OK;
    }
    const enum kg_status status = show(r, r->n_ids - held_back(r));
    if (status) return status;
    if (is_cancelled(r) || r->n_ids == r->options->max_tokens) r->result.finish = KG_FINISH_LENGTH;
    else if (kg_session_n_past(r->session) == kg_session_n_ctx(r->session)) r->result.finish = KG_FINISH_CONTEXT;
    else *done = false;
    return KG_OK;
}

static enum kg_status draw(struct run *r, const float *logits, int32_t *id) {
    return kg_sampler_draw(r->sampler, logits, r->history, r->n_prompt + r->n_ids, id, r->err);
}

static uint64_t n_allocations(const struct run *r) {
    struct kg_memory_use use;
    kg_backend_memory(r->session->backend, &use);
    return use.n_allocations;
}

static uint64_t n_waits(const struct run *r) {
    return __atomic_load_n(&r->session->backend->n_waits, __ATOMIC_RELAXED);
}

/* Where the caller may cancel: all chunks of the prompt but the last. The host computes so slowly that it is asked more
 * often; what it computes does not depend on the chunks. */
static enum kg_status evaluate_chunks(struct run *r) {
    enum { HOST_ROWS = 32 };
    const size_t n_rows = r->session->mailbox ? KG_MAX_CHUNK_ROWS : HOST_ROWS;
    const float *logits;
    enum kg_status status = KG_OK;
    while (r->options->is_cancelled && !status && !is_cancelled(r) && r->n_prompt - r->n_held > n_rows) {
        status = kg_session_eval(r->session, r->history + r->n_held, n_rows, KG_LOGITS_LAST, &logits, r->err);
        if (!status) r->n_held += n_rows;
    }
    return status;
}

/* The prompt's evaluation and the first draw, if there is to be one. */
static enum kg_status begin(struct run *r, uint64_t start_ns, int32_t *id) {
    const float *logits;
    enum kg_status status = evaluate_chunks(r);
    if (status || r->cancelled) return status;
    const size_t n_new = r->n_prompt - r->n_held;
    r->on_device = r->options->max_tokens > 0 && kg_pipeline_can(r->session, n_new, r->options->max_tokens);
    if (r->on_device) {
        status = kg_pipeline_begin(&r->pipeline, r->session, &r->options->sampler, r->n_drawable, r->history,
                                   r->n_prompt, r->n_held, id, r->err);
        r->result.prefill_ns = r->result.first_token_ns = kg_clock_monotonic_ns() - start_ns;
        return status;
    }
    status = kg_sampler_create(&r->options->sampler, r->n_drawable, &r->sampler, r->err);
    if (!status) status = kg_session_eval(r->session, r->history + r->n_held, n_new, KG_LOGITS_LAST, &logits, r->err);
    r->result.prefill_ns = kg_clock_monotonic_ns() - start_ns;
    if (status || r->options->max_tokens == 0) return status;
    status = draw(r, logits, id);
    r->result.first_token_ns = kg_clock_monotonic_ns() - start_ns;
    return status;
}

/* Evaluates *id and draws the next. */
static enum kg_status advance(struct run *r, int32_t *id) {
    if (r->on_device) return kg_pipeline_next(&r->pipeline, r->n_ids + 1 < r->options->max_tokens, id, r->err);
    const float *logits;
    const enum kg_status status = kg_session_eval(r->session, id, 1, KG_LOGITS_LAST, &logits, r->err);
    return status ? status : draw(r, logits, id);
}

static enum kg_status decode(struct run *r, int32_t id) {
    const uint64_t start_ns = kg_clock_monotonic_ns(), n_allocations_before = n_allocations(r);
    const uint64_t n_waits_before = n_waits(r);
    uint64_t drawn_ns = start_ns;
    bool done = false;
    enum kg_status status = settle(r, id, &done);
    while (!status && !done) {
        status = advance(r, &id);
        const uint64_t now_ns = kg_clock_monotonic_ns();
        r->result.token_ns[r->result.n_evals++] = now_ns - drawn_ns;
        drawn_ns = now_ns;
        if (!status) status = settle(r, id, &done);
    }
    r->result.decode_ns = kg_clock_monotonic_ns() - start_ns;
    r->result.n_decode_allocations = n_allocations(r) - n_allocations_before;
    r->result.n_decode_waits = n_waits(r) - n_waits_before;
    return status;
}

/* Decodes what was held back and ends the text, which is that of all ids even if the caller has cancelled. */
static enum kg_status finish_text(struct run *r) {
    const enum kg_status status = show(r, r->n_ids);
    if (status) return status;
    const size_t from = r->text.len;
    kg_text_stream_finish(&r->shown, &r->text);
    emit(r, from);
    if (r->cancelled) r->result.finish = KG_FINISH_CANCELLED;
    return KG_OK;
}

static enum kg_status check_arguments(const struct kg_session *s, size_t n_prompt,
                                      const struct kg_generate_options *options, struct kg_error *err) {
    const uint32_t left = kg_session_n_ctx(s) - kg_session_n_past(s);
    if (n_prompt == 0) return kg_fail(err, KG_ERR_USAGE, "the prompt is empty");
    if (options->n_held >= n_prompt || options->n_held > kg_session_n_past(s))
        return kg_fail(err, KG_ERR_USAGE, "%zu ids held: the prompt has %zu, the session %u", options->n_held, n_prompt,
                       kg_session_n_past(s));
    if (n_prompt - options->n_held > left)
        return kg_fail(err, KG_ERR_RANGE, "the prompt has %zu tokens, the context has room for %u of %u",
                       n_prompt - options->n_held, left, kg_session_n_ctx(s));
    for (size_t i = 0; i < options->n_stops; i++)
        if (options->stops[i].n == 0) return kg_fail(err, KG_ERR_USAGE, "stop sequence %zu is empty", i);
    return KG_OK;
}

enum kg_status kg_generate(struct kg_session *session, const int32_t *prompt, size_t n_prompt,
                           const struct kg_generate_options *options, struct kg_generate_result *result,
                           struct kg_error *err) {
    const uint64_t start_ns = kg_clock_monotonic_ns();
    struct run r = { .session = session, .options = options, .n_prompt = n_prompt, .err = err };
    r.n_held = options->n_held;
    enum kg_status status = kg_model_require_tokenizer(session->model, &r.tokenizer, err);
    if (!status) status = check_arguments(session, n_prompt, options, err);
    if (status) return status;
    status = kg_sampler_check(&options->sampler, err);
    if (status) return status;
    /* Rows past the tokenizer's tokens only pad the matrix: their logits exist, but are never drawn. */
    r.n_drawable = (uint32_t)kg_tokenizer_n_drawable(r.tokenizer);

    const size_t room = kg_session_n_ctx(session) - kg_session_n_past(session) - (n_prompt - options->n_held) + 1;
    const size_t most = options->max_tokens < room ? options->max_tokens : room;
    r.history = kg_xcalloc(n_prompt + most, sizeof *r.history);
    r.result.token_ns = kg_xcalloc(most + 1, sizeof *r.result.token_ns);
    memcpy(r.history, prompt, n_prompt * sizeof *prompt);
    kg_text_stream_begin(&r.shown, r.tokenizer, prompt, n_prompt);

    int32_t id = -1;
    status = begin(&r, start_ns, &id);
    if (!status && options->max_tokens > 0 && !r.cancelled) status = decode(&r, id);
    if (!status) status = finish_text(&r);
    if (status) goto cleanup;

    r.result.n_ids = r.n_ids;
    r.result.ids = kg_xcalloc(r.n_ids + 1, sizeof *r.result.ids);
    memcpy(r.result.ids, generated(&r), r.n_ids * sizeof *r.result.ids);
    r.result.text = kg_xstrndup(kg_buffer_text(&r.text), r.text.len);
    r.result.text_len = r.text.len;
    *result = r.result;
    r.result = (struct kg_generate_result){ 0 };
cleanup:
    kg_generate_result_free(&r.result);
    kg_buffer_free(&r.text);
    free(r.history);
    kg_sampler_free(r.sampler);
    return status;
}

void kg_generate_result_free(struct kg_generate_result *result) {
    free(result->ids);
    free(result->text);
    free(result->token_ns);
    *result = (struct kg_generate_result){ 0 };
}
