/* ChatML: "<|im_start|>" role "\n" content "<|im_end|>\n" for each message.
 *
 * A template is a Jinja program; kigo does not run it but recognises the formats it knows by the marks they write, and
 * takes the default system message from the literal in the template. */
#include "tokenizer/chat.h"
#include "base/size.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"
#include <stdlib.h>
#include <string.h>

static const char *const CHATML_NEEDS[] = { "<|im_start|>", "<|im_end|>", NULL };
static const char *const CHATML_REFUSES[] = { "<|im_sep|>", "<think>", "| trim", "|trim", ".strip(", NULL };
static const char *const CHATML_ENDS[] = { "<|im_end|>", "<|endoftext|>", NULL };

/* Past a line break in a template's literal, written as an escape or as it is; NULL if none is there. */
static const char *skip_newline(const char *p) {
    if (*p == '\n') return p + 1;
    return p[0] == '\\' && p[1] == 'n' ? p + 2 : NULL;
}

/* Text of a Jinja string literal, with its escapes resolved. */
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

/* A default system message stands as one literal, from the start mark to the end mark; a literal that ends before the
 * end mark does not hold one. */
static char *chatml_default_system(const char *chat_template) {
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

static void chatml_message(const char *role, const char *content, struct kg_buffer *out) {
    const char *const parts[] = { "<|im_start|>", role, "\n", content, "<|im_end|>\n" };
    for (size_t i = 0; i < KG_COUNT_OF(parts); i++) kg_buffer_puts(out, parts[i]);
}

static void chatml_render(const struct kg_chat_message *messages, size_t n_messages, const char *default_system,
                          bool add_generation_prompt, struct kg_buffer *out) {
    if (default_system && strcmp(messages[0].role, "system") != 0) chatml_message("system", default_system, out);
    for (size_t i = 0; i < n_messages; i++) chatml_message(messages[i].role, messages[i].content, out);
    if (add_generation_prompt) kg_buffer_puts(out, "<|im_start|>assistant\n");
}

static const struct kg_chat_format FORMATS[] = {
    {
        .name = "chatml",
        .needs = CHATML_NEEDS,
        .refuses = CHATML_REFUSES,
        .ends = CHATML_ENDS,
        .default_system = chatml_default_system,
        .render = chatml_render,
    },
};

static bool is_format(const struct kg_chat_format *format, const char *chat_template) {
    for (const char *const *mark = format->needs; *mark; mark++)
        if (!strstr(chat_template, *mark)) return false;
    for (const char *const *mark = format->refuses; *mark; mark++)
        if (strstr(chat_template, *mark)) return false;
    return true;
}

void kg_chat_recognise(struct kg_tokenizer *t) {
    for (size_t i = 0; i < KG_COUNT_OF(FORMATS) && !t->chat; i++)
        if (is_format(&FORMATS[i], t->chat_template)) t->chat = &FORMATS[i];
    if (!t->chat) return;
    t->chat_default_system = t->chat->default_system(t->chat_template);
    for (const char *const *end = t->chat->ends; *end; end++) {
        const int32_t id = kg_tokenizer_find(t, *end);
        if (id >= 0 && kg_tokenizer_is_special(t, id)) t->tokens[id].end = true;
    }
}

static bool is_role(const char *role) {
    static const char *const ROLES[] = { "system", "user", "assistant" };
    for (size_t i = 0; i < KG_COUNT_OF(ROLES); i++)
        if (strcmp(role, ROLES[i]) == 0) return true;
    return false;
}

enum kg_status kg_chat_render(const struct kg_tokenizer *t, const struct kg_chat_message *messages, size_t n_messages,
                              bool add_generation_prompt, char **text, struct kg_error *err) {
    if (!t->chat_template) return kg_fail(err, KG_ERR_UNSUPPORTED, "the model's file has no tokenizer.chat_template");
    if (!t->chat)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "tokenizer.chat_template is of no format kigo knows: '%s'",
                       kg_quote(t->chat_template, strlen(t->chat_template)).text);
    if (n_messages == 0) return kg_fail(err, KG_ERR_USAGE, "a chat needs at least one message");
    for (size_t i = 0; i < n_messages; i++)
        if (!is_role(messages[i].role))
            return kg_fail(err, KG_ERR_USAGE, "message %zu has the role '%s'; kigo knows system, user and assistant", i,
                           messages[i].role);
    struct kg_buffer out = KG_BUFFER_INIT;
    t->chat->render(messages, n_messages, t->chat_default_system, add_generation_prompt, &out);
    *text = out.data;
    return KG_OK;
}
