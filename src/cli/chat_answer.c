#include "base/json_put.h"
#include "base/say.h"
#include "cli/chat.h"
#include "cli/generate.h"
#include "cli/interrupt.h"
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static bool print_text(void *user, const char *text, size_t len) {
    (void)user;
    if (kg_out_exact(stdout, text, len) && fflush(stdout) == 0) return true;
    if (kg_cli_interrupted()) clearerr(stdout); /* Ctrl-C while the terminal took nothing */
    return false;
}

static bool is_cancelled(void *user) {
    (void)user;
    return kg_cli_interrupted();
}

/* What a person can do about a full context. */
static void say_full(const struct kg_cli_chat *chat) {
    const uint32_t n_ctx = kg_session_n_ctx(chat->engine.session),
                   n_most = kg_model_config(chat->engine.model)->n_ctx_train;
    kg_say(stderr, "The context of %u positions is full. /undo takes the last question back, /reset begins anew.\n",
           n_ctx);
    if (n_ctx < n_most)
        kg_say(stderr,
               "/save FILE, then 'kigo chat --ctx N --load FILE' goes on in a longer one (the model: up to %u).\n",
               n_most);
}

static void say_end(const struct kg_cli_chat *chat, const struct kg_conversation_answer *answer) {
    const struct kg_generate_result *r = &answer->result;
    if (r->finish == KG_FINISH_CONTEXT) say_full(chat);
    if (r->finish == KG_FINISH_LENGTH && chat->ask.on_terminal)
        kg_say(stderr, "(ended after %zu tokens, by --max-tokens)\n", r->n_ids);
    if (r->finish == KG_FINISH_CANCELLED)
        kg_say(stderr, answer->is_kept ? "(stopped; what was written is part of the conversation)\n"
                                       : "(stopped; the question is out of the conversation)\n");
}

/* One object, as one line (malloc'ed); NULL if it cannot be made. */
static char *answer_json(const struct kg_cli_chat *chat, const char *question,
                         const struct kg_conversation_answer *answer, uint64_t seed) {
    const struct kg_generate_result *r = &answer->result;
    json_t *ids = json_array();
    for (size_t i = 0; i < r->n_ids; i++) json_array_append_new(ids, json_integer(r->ids[i]));
    json_t *object = json_pack(
        "{s:s, s:s, s:s%, s:o, s:s, s:b, s:o, s:I, s:I, s:I, s:I, s:I, s:{s:f, s:f, s:f, s:f}}", "question", question,
        "answer", answer->text, "text", r->text, r->text_len, "ids", ids, "finish", kg_finish_name(r->finish), "kept",
        answer->is_kept, "seed", kg_cli_json_u64(seed), "prompt_tokens", (json_int_t)answer->n_prompt, "held_tokens",
        (json_int_t)answer->n_held, "prefill_tokens", (json_int_t)(answer->n_prompt - answer->n_held), "positions",
        (json_int_t)kg_session_n_past(chat->engine.session), "ctx", (json_int_t)kg_session_n_ctx(chat->engine.session),
        "timings", "prefill_ms", (double)r->prefill_ns * 1e-6, "first_token_ms", (double)r->first_token_ns * 1e-6,
        "decode_ms", (double)r->decode_ns * 1e-6, "decode_tokens_per_s", kg_cli_generate_speed(r));
    char *line = object ? kg_json_dump(object, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(object);
    return line;
}

static enum kg_status print_answer(const struct kg_cli_chat *chat, const char *question,
                                   const struct kg_conversation_answer *answer, uint64_t seed, struct kg_error *err) {
    const struct kg_generate_result *r = &answer->result;
    if (chat->json) {
        char *line = answer_json(chat, question, answer, seed);
        if (!line) return kg_fail(err, KG_ERR_INTERNAL, "cannot write the answer as JSON");
        kg_out_put(stdout, line, strlen(line));
        kg_say(stdout, "\n");
        free(line);
    } else if (r->text_len == 0 || r->text[r->text_len - 1] != '\n') {
        kg_say(stdout, "\n");
    }
    if (ferror(stdout) || fflush(stdout) != 0) return kg_fail(err, KG_ERR_IO, "standard output: %s", strerror(errno));
    return KG_OK;
}

static void note_stats(struct kg_cli_chat *chat, const struct kg_conversation_answer *answer) {
    const struct kg_generate_result *r = &answer->result;
    chat->stats = (struct kg_cli_chat_stats){ .n_prompt = answer->n_prompt,
                                              .n_held = answer->n_held,
                                              .n_ids = r->n_ids,
                                              .prefill_ms = (double)r->prefill_ns * 1e-6,
                                              .decode_ms = (double)r->decode_ns * 1e-6,
                                              .tokens_per_s = kg_cli_generate_speed(r) };
}

enum kg_status kg_cli_chat_answer(struct kg_cli_chat *chat, const char *question, struct kg_error *err) {
    struct kg_conversation *c = &chat->conversation;
    struct kg_conversation_answer answer = { .text = "" };
    struct kg_generate_options options = kg_cli_sampling_options(&chat->sampling);
    options.sampler.seed += chat->n_answers;
    options.is_cancelled = is_cancelled;
    if (!chat->json) options.on_text = print_text;
    kg_cli_interrupt_take(); /* one that came before the question */
    enum kg_status status = question ? kg_conversation_ask(c, question, &options, &answer, err)
                                     : kg_conversation_ask_again(c, &options, &answer, err);
    if (status == KG_ERR_RANGE) {
        say_full(chat);
        status = kg_error_context(err, status, question ? "the question is not kept" : "the answer stands");
    }
    if (status) return status;
    chat->n_answers++;
    if (!question && answer.is_kept) question = c->messages[c->n_messages - 2].content;
    note_stats(chat, &answer);
    status = print_answer(chat, question ? question : "", &answer, options.sampler.seed, err);
    if (!status && answer.result.finish == KG_FINISH_CANCELLED && !kg_cli_interrupt_take())
        status = kg_fail(err, KG_ERR_IO, "standard output: %s", strerror(errno));
    if (!status) say_end(chat, &answer);
    kg_conversation_answer_free(&answer);
    return status;
}
