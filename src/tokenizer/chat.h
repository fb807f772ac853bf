/* Chat formats: rendering messages as the text that a model was trained on. One file per format (chat_*.c). */
#ifndef KIGO_TOKENIZER_CHAT_H
#define KIGO_TOKENIZER_CHAT_H

#include "base/buffer.h"
#include <kigo/tokenizer.h>
#include <stdint.h>

/* The input of a renderer. */
struct kg_chat_request {
    const struct kg_tokenizer *tokenizer;
    const struct kg_chat_message *messages;
    size_t n_messages; /* > 0; all roles are valid in the format */
    bool add_generation_prompt;
    const char *date, *reasoning; /* validated, or the defaults; NULL if the format has no such options */
};

struct kg_chat_format {
    const char *name;
    const char *const *needs; /* strings that every template of the format contains; NULL-terminated. "\n" also matches
                                 an escaped line break */
    const char *const *refuses; /* strings that no template of the format contains: they mark similar formats */
    const char *const *roles;   /* NULL-terminated */
    const char *const *ends;    /* tokens that end a chat turn; NULL-terminated */
    const char *goes_on;        /* a token that does not end the turn, even if the file says so; NULL: none */
    bool has_date;              /* and reasoning effort */
    bool has_channels;          /* answers consist of messages with headers: text_stream.c */
    /* Extracts the template's variant for the renderer (request->tokenizer->chat_traits); may be NULL. Line breaks in
     * the text are unescaped. */
    uint32_t (*traits)(const char *chat_template);
    /* The default system message in the file's template, malloc'ed; NULL if it adds none. The function may be NULL. */
    char *(*default_system)(const char *chat_template);
    /* Appends the rendered messages. */
    enum kg_status (*render)(const struct kg_chat_request *request, struct kg_buffer *out, struct kg_error *err);
};

/* Each file's formats; NULL-terminated lists. */
extern const struct kg_chat_format *const KG_CHATML_FORMATS[];
extern const struct kg_chat_format *const KG_PHI3_FORMATS[];
extern const struct kg_chat_format *const KG_HARMONY_FORMATS[];
extern const struct kg_chat_format *const KG_QWEN3_FORMATS[];
extern const struct kg_chat_format *const KG_GEMMA_FORMATS[];

/* Appends all texts of a NULL-terminated list. */
void kg_chat_puts(struct kg_buffer *out, const char *const texts[]);
#define KG_CHAT_PUTS(out, ...) kg_chat_puts(out, (const char *const[]){ __VA_ARGS__, NULL })

#endif
