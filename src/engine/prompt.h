/* Prompts: from text or chat messages to the ids a model is fed.
 *
 * The beginning-of-sequence id comes first if the model's file asks for it and the text does not already begin with it.
 * The end-of-sequence id is not added, asked for or not: a prompt is there to be continued. */
#ifndef KIGO_ENGINE_PROMPT_H
#define KIGO_ENGINE_PROMPT_H

#include <kigo/status.h>
#include <kigo/tokenizer.h>
#include <stddef.h>

/* Appends the ids of a text as it stands; special tokens written in it become their ids. KG_ERR_FORMAT naming the byte
 * offset of invalid UTF-8. */
KG_WARN_UNUSED enum kg_status kg_prompt_encode_text(const struct kg_tokenizer *tokenizer, const char *text, size_t len,
                                                    struct kg_ids *ids, struct kg_error *err);

/* Renders messages in the model's chat format, up to where the assistant speaks, and appends the ids. Special tokens of
 * the format become their ids; those written inside a message stay plain text, so that no message can end its chat turn
 * or begin another. A message the format leaves out is KG_ERR_UNSUPPORTED, naming it. *rendered is malloc'ed. */
KG_WARN_UNUSED enum kg_status kg_prompt_encode_chat_with(const struct kg_tokenizer *tokenizer,
                                                         const struct kg_chat_message *messages, size_t n_messages,
                                                         const struct kg_chat_options *options, char **rendered,
                                                         struct kg_ids *ids, struct kg_error *err);
/* With the options' defaults. */
KG_WARN_UNUSED enum kg_status kg_prompt_encode_chat(const struct kg_tokenizer *tokenizer,
                                                    const struct kg_chat_message *messages, size_t n_messages,
                                                    char **rendered, struct kg_ids *ids, struct kg_error *err);

#endif
