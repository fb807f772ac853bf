/* A conversation with a model in its chat format: messages, and the KV cache that is kept between answers
 * (engine/prompt_cache.h). Each answer is what one prompt of all messages would give. */
#ifndef KIGO_ENGINE_CONVERSATION_H
#define KIGO_ENGINE_CONVERSATION_H

#include "engine/prompt_cache.h"
#include <kigo/engine.h>
#include <kigo/tokenizer.h>
#include <stdbool.h>

struct kg_conversation_message {
    const char *role; /* "system", "user" or "assistant" */
    char *content;
};

/* Set session, tokenizer and options; the rest begins as zeros. The first three are borrowed. */
struct kg_conversation {
    struct kg_prompt_cache cache;
    const struct kg_tokenizer *tokenizer;
    struct kg_chat_options options;
    struct kg_conversation_message *messages; /* a system message first, if any; then questions and their answers */
    size_t n_messages;
};

/* How an answer came about. */
struct kg_conversation_answer {
    struct kg_generate_result result;
    const char *text; /* what the conversation holds of it: the last message, "" if that was not kept */
    size_t n_prompt;  /* tokens of all messages before it */
    size_t n_held;    /* of them: in the KV cache already; the rest was evaluated */
    bool is_kept;
};

/* Asks and keeps question and answer. An answer that was cancelled is kept as far as it was written, and neither of
 * the two if nothing was. Text of a channel other than the final one (harmony) is no part of the message kept.
 * KG_ERR_RANGE if the messages do not fit the context; after any failure the conversation is as it was. */
KG_WARN_UNUSED enum kg_status kg_conversation_ask(struct kg_conversation *conversation, const char *question,
                                                  const struct kg_generate_options *options,
                                                  struct kg_conversation_answer *answer, struct kg_error *err);
/* Asks the last question again: the answer stands in the place of the one before. After a failure, or where nothing was
 * written, that one stands. KG_ERR_USAGE if there is no question. */
KG_WARN_UNUSED enum kg_status kg_conversation_ask_again(struct kg_conversation *conversation,
                                                        const struct kg_generate_options *options,
                                                        struct kg_conversation_answer *answer, struct kg_error *err);
void kg_conversation_answer_free(struct kg_conversation_answer *answer);

/* Takes the last question and its answer back; false if there is none. */
bool kg_conversation_take_back(struct kg_conversation *conversation);

/* Sets the system's message, NULL for none; what was said stands. Refused like kg_chat_render_with, and
 * KG_ERR_UNSUPPORTED if the format leaves it out: the conversation is then as it was. */
KG_WARN_UNUSED enum kg_status kg_conversation_set_system(struct kg_conversation *conversation, const char *text,
                                                         struct kg_error *err);
/* NULL if there is none. */
const char *kg_conversation_system(const struct kg_conversation *conversation);

/* Drops questions and answers; the system's message stands. */
void kg_conversation_reset(struct kg_conversation *conversation);

/* Puts messages in the place of all. KG_ERR_FORMAT unless they are a system message or none, then questions each with
 * its answer, as the format can write them: the conversation is then as it was. */
KG_WARN_UNUSED enum kg_status kg_conversation_replace(struct kg_conversation *conversation,
                                                      const struct kg_chat_message *messages, size_t n_messages,
                                                      struct kg_error *err);

void kg_conversation_free(struct kg_conversation *conversation);

#endif
