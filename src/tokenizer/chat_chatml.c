/* ChatML: "<|im_start|>" role "\n" content "<|im_end|>\n" for each message. The default system message is the literal
 * in the template. */
#include "tokenizer/chat.h"
#include "tokenizer/tokenizer.h"
#include <string.h>

/* Skips a line break in a template's literal, escaped or plain; NULL if there is none. */
static const char *skip_newline(const char *p) {
    if (*p == '\n') return p + 1;
    return p[0] == '\\' && p[1] == 'n' ? p + 2 : NULL;
}

/* The text of a Jinja string literal, unescaped. */
static char *unescape(const char *text, size_t len) {
    static const char FROM[] = "nrt", TO[] = "\n\r\t";
    struct kg_buffer out = KG_BUFFER_INIT;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '\\' && i + 1 < len) {
            c = text[++i];
            const char *escape = strchr(FROM, c);
            if (escape) c = TO[escape - FROM];
        }
        kg_buffer_append(&out, &c, 1);
    }
    kg_buffer_append(&out, "", 0);
    return out.data;
}

/* A default system message is a single literal from the start mark to the end mark; a literal without the end mark is
 * none. */
static char *default_system(const char *chat_template) {
    static const char HEAD[] = "<|im_start|>system", TAIL[] = "<|im_end|>";
    for (const char *at = chat_template; (at = strstr(at, HEAD)); at += sizeof HEAD - 1) {
        const char quote = at > chat_template ? at[-1] : '\0';
        const char *text = skip_newline(at + sizeof HEAD - 1);
        if (!text || (quote != '\'' && quote != '"')) continue;
        const char *p = text;
        while (*p && *p != quote && strncmp(p, TAIL, sizeof TAIL - 1) != 0) p += *p == '\\' && p[1] ? 2 : 1;
        if (strncmp(p, TAIL, sizeof TAIL - 1) == 0) return unescape(text, (size_t)(p - text));
    }
    return NULL;
}

static void put_message(const char *role, const char *content, struct kg_buffer *out) {
    KG_CHAT_PUTS(out, "<|im_start|>", role, "\n", content, "<|im_end|>\n");
}

static enum kg_status render(const struct kg_chat_request *r, struct kg_buffer *out, struct kg_error *err) {
    const char *system = r->tokenizer->chat_default_system;
    (void)err;
    if (system && strcmp(r->messages[0].role, "system") != 0) put_message("system", system, out);
    for (size_t i = 0; i < r->n_messages; i++) put_message(r->messages[i].role, r->messages[i].content, out);
    if (r->add_generation_prompt) kg_buffer_puts(out, "<|im_start|>assistant\n");
    return KG_OK;
}

static const struct kg_chat_format CHATML = {
    .name = "chatml",
    .needs = (const char *const[]){ "<|im_start|>", "<|im_end|>", NULL },
    .refuses = (const char *const[]){ "<|im_sep|>", "<think>", "| trim", "|trim", ".strip(", NULL },
    .roles = (const char *const[]){ "system", "user", "assistant", NULL },
    .ends = (const char *const[]){ "<|im_end|>", "<|endoftext|>", NULL },
    .default_system = default_system,
    .render = render,
};

const struct kg_chat_format *const KG_CHATML_FORMATS[] = { &CHATML, NULL };
