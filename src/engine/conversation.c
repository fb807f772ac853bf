#include "engine/conversation.h"
#include "base/buffer.h"
#include "engine/prompt.h"
#include <stdlib.h>
#include <string.h>

static const char *const SYSTEM = "system", *const USER = "user", *const ASSISTANT = "assistant";

static void push(struct kg_conversation *c, const char *role, const char *content) {
    c->messages = kg_xrealloc(c->messages, (c->n_messages + 1) * sizeof *c->messages);
    c->messages[c->n_messages++] = (struct kg_conversation_message){ role, kg_xstrdup(content) };
}

static void pop(struct kg_conversation *c) {
    free(c->messages[--c->n_messages].content);
}

static bool has_system(const struct kg_conversation *c) {
    return c->n_messages > 0 && strcmp(c->messages[0].role, SYSTEM) == 0;
}

static enum kg_status encode(const struct kg_conversation *c, struct kg_ids *ids, struct kg_error *err) {
    struct kg_chat_message *messages = kg_xcalloc(c->n_messages + 1, sizeof *messages);
    char *rendered = NULL;
    for (size_t i = 0; i < c->n_messages; i++)
        messages[i] = (struct kg_chat_message){ c->messages[i].role, c->messages[i].content };
    const enum kg_status status =
        kg_prompt_encode_chat_with(c->tokenizer, messages, c->n_messages, &c->options, &rendered, ids, err);
    free(rendered);
    free(messages);
    return status;
}

/* The answer as a message: its final channel. A message is a C string, so NUL bytes are left out. */
static enum kg_status keep_answer(struct kg_conversation *c, const struct kg_ids *prompt,
                                  const struct kg_generate_result *r, struct kg_error *err) {
    char *text;
    size_t len, n = 0;
    const enum kg_status status =
        kg_tokenizer_show(c->tokenizer, prompt->ids, prompt->n, r->ids, r->n_ids, true, &text, &len, err);
    if (status) return status;
    for (size_t i = 0; i < len; i++)
        if (text[i]) text[n++] = text[i];
    text[n] = '\0';
    push(c, ASSISTANT, text);
    free(text);
    return KG_OK;
}

/* Answers the messages; *answer is set if that succeeds, and its message is there if it is kept. */
static enum kg_status answer_messages(struct kg_conversation *c, const struct kg_generate_options *options,
                                      struct kg_conversation_answer *answer, struct kg_error *err) {
    struct kg_conversation_answer made = { .text = "" };
    struct kg_ids prompt = { 0 };
    enum kg_status status = encode(c, &prompt, err);
    if (!status) status = kg_prompt_cache_generate(&c->cache, prompt.ids, prompt.n, options, &made.result, err);
    made.n_prompt = prompt.n;
    made.n_held = c->cache.n_held;
    made.is_kept = made.result.finish != KG_FINISH_CANCELLED || made.result.n_ids > 0;
    if (!status && made.is_kept) status = keep_answer(c, &prompt, &made.result, err);
    if (!status && made.is_kept) made.text = c->messages[c->n_messages - 1].content;
    if (status) kg_conversation_answer_free(&made);
    else *answer = made;
    kg_ids_free(&prompt);
    return status;
}

enum kg_status kg_conversation_ask(struct kg_conversation *c, const char *question,
                                   const struct kg_generate_options *options, struct kg_conversation_answer *answer,
                                   struct kg_error *err) {
    push(c, USER, question);
    const enum kg_status status = answer_messages(c, options, answer, err);
    if (status || !answer->is_kept) pop(c);
    return status;
}

static bool has_question(const struct kg_conversation *c) {
    return c->n_messages >= 2 + (size_t)has_system(c);
}

enum kg_status kg_conversation_ask_again(struct kg_conversation *c, const struct kg_generate_options *options,
                                         struct kg_conversation_answer *answer, struct kg_error *err) {
    if (!has_question(c)) return kg_fail(err, KG_ERR_USAGE, "there is no answer yet");
    char *before = c->messages[--c->n_messages].content;
    const enum kg_status status = answer_messages(c, options, answer, err);
    if (status || !answer->is_kept) push(c, ASSISTANT, before);
    free(before);
    return status;
}

void kg_conversation_answer_free(struct kg_conversation_answer *answer) {
    kg_generate_result_free(&answer->result);
    *answer = (struct kg_conversation_answer){ .text = "" };
}

bool kg_conversation_take_back(struct kg_conversation *c) {
    if (!has_question(c)) return false;
    pop(c);
    pop(c);
    return true;
}

static void free_messages(struct kg_conversation *c) {
    while (c->n_messages > 0) pop(c);
    free(c->messages);
    c->messages = NULL;
}

/* Takes over the messages of a conversation that the format can write with a question behind them. */
static enum kg_status take_over(struct kg_conversation *c, struct kg_conversation *other, struct kg_error *err) {
    struct kg_ids ids = { 0 };
    push(other, USER, "?");
    const enum kg_status status = encode(other, &ids, err);
    pop(other);
    kg_ids_free(&ids);
    if (status) {
        free_messages(other);
        return status;
    }
    free_messages(c);
    c->messages = other->messages;
    c->n_messages = other->n_messages;
    return KG_OK;
}

enum kg_status kg_conversation_set_system(struct kg_conversation *c, const char *text, struct kg_error *err) {
    struct kg_conversation other = { .tokenizer = c->tokenizer, .options = c->options };
    if (text) push(&other, SYSTEM, text);
    for (size_t i = has_system(c); i < c->n_messages; i++) push(&other, c->messages[i].role, c->messages[i].content);
    return take_over(c, &other, err);
}

const char *kg_conversation_system(const struct kg_conversation *c) {
    return has_system(c) ? c->messages[0].content : NULL;
}

void kg_conversation_reset(struct kg_conversation *c) {
    while (c->n_messages > (size_t)has_system(c)) pop(c);
}

enum kg_status kg_conversation_replace(struct kg_conversation *c, const struct kg_chat_message *messages,
                                       size_t n_messages, struct kg_error *err) {
    struct kg_conversation other = { .tokenizer = c->tokenizer, .options = c->options };
    const size_t first = n_messages > 0 && strcmp(messages[0].role, SYSTEM) == 0;
    for (size_t i = 0; i < n_messages; i++) {
        const char *role = i < first ? SYSTEM : (i - first) % 2 == 0 ? USER : ASSISTANT;
        if (strcmp(messages[i].role, role) == 0) {
            push(&other, role, messages[i].content);
            continue;
        }
        free_messages(&other);
        return kg_fail(err, KG_ERR_FORMAT, "message %zu has the role '%s' where '%s' must follow", i, messages[i].role,
                       role);
    }
    if ((n_messages - first) % 2 != 0) {
        free_messages(&other);
        return kg_fail(err, KG_ERR_FORMAT, "message %zu, the last, is a question without its answer", n_messages - 1);
    }
    return take_over(c, &other, err);
}

void kg_conversation_free(struct kg_conversation *c) {
    kg_prompt_cache_free(&c->cache);
    free_messages(c);
}
