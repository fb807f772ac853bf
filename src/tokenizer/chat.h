/* Chat formats: how messages become the text a model was trained on. */
#ifndef KIGO_TOKENIZER_CHAT_H
#define KIGO_TOKENIZER_CHAT_H

#include "base/buffer.h"
#include <kigo/tokenizer.h>

struct kg_chat_format {
    const char *name;
    const char *const *needs;   /* a template of this format holds each of these; NULL-terminated */
    const char *const *refuses; /* and none of these, which mark formats that render differently */
    const char *const *ends;    /* tokens that end a turn; NULL-terminated */
    /* The default system message of the template, malloc'ed, NULL if it adds none. */
    char *(*default_system)(const char *chat_template);
    /* Appends the rendered messages. default_system may be NULL. */
    void (*render)(const struct kg_chat_message *messages, size_t n_messages, const char *default_system,
                   bool add_generation_prompt, struct kg_buffer *out);
};

#endif
