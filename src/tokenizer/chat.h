/* Chat formats: how messages become the text a model was trained on, one format a file (chat_*.c). */
#ifndef KIGO_TOKENIZER_CHAT_H
#define KIGO_TOKENIZER_CHAT_H

#include "base/buffer.h"
#include <kigo/tokenizer.h>
#include <stdint.h>

/* What is to be rendered. */
struct kg_chat_request {
    const struct kg_tokenizer *tokenizer;
    const struct kg_chat_message *messages;
    size_t n_messages; /* > 0; their roles are the format's */
    bool add_generation_prompt;
    const char *date, *reasoning; /* checked, or the defaults; NULL if the format has none */
};

struct kg_chat_format {
    const char *name;
    const char *const *needs;   /* a template of this format holds each of these; NULL-terminated. "\n" stands for an
                                   escaped line break as well */
    const char *const *refuses; /* and none of these, which mark formats that render differently */
    const char *const *roles;   /* NULL-terminated */
    const char *const *ends;    /* tokens that end a turn; NULL-terminated */
    const char *goes_on;        /* a token that does not, whatever the file says; NULL: none */
    bool has_date;              /* and reasoning effort */
    bool has_channels;          /* answers have headers: see text_stream.c */
    /* What of the template the renderer has to know; may be NULL. Line breaks in the text are not escaped. */
    uint32_t (*traits)(const char *chat_template);
    /* The default system message of the template as it stands in the file, malloc'ed, NULL if it adds none; may be
     * NULL. */
    char *(*default_system)(const char *chat_template);
    /* Appends the rendered messages. */
    enum kg_status (*render)(const struct kg_chat_request *request, struct kg_buffer *out, struct kg_error *err);
};

/* Each file's formats; NULL-terminated lists. */
extern const struct kg_chat_format *const KG_CHATML_FORMATS[];
extern const struct kg_chat_format *const KG_PHI3_FORMATS[];
extern const struct kg_chat_format *const KG_HARMONY_FORMATS[];

/* Appends texts up to a NULL one. */
void kg_chat_puts(struct kg_buffer *out, const char *const texts[]);
#define KG_CHAT_PUTS(out, ...) kg_chat_puts(out, (const char *const[]){ __VA_ARGS__, NULL })

#endif
