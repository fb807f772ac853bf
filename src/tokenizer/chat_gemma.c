/* Gemma 3: bos, then "<start_of_turn>" role "\n" content "<end_of_turn>\n" for each message, where the assistant
 * is called "model" and content is trimmed. The format has no system role: a first system message stands, with an
 * empty line behind it, before the content of the message that follows. Every other message must be the user's. */
#include "base/utf8.h"
#include "tokenizer/chat.h"
#include "tokenizer/tokenizer.h"
#include <string.h>

/* What Jinja's trim takes off: str.isspace() of Python. */
static bool is_space(uint32_t c) {
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static void put_trimmed(const char *text, struct kg_buffer *out) {
    size_t begin = 0, end = 0;
    bool started = false;
    const size_t len = strlen(text);
    for (size_t at = 0, n; at < len; at += n) {
        uint32_t c = 0;
        n = kg_utf8_sequence(text + at, len - at, &c);
        if (is_space(c)) continue;
        if (n == 0) n = 1; /* not UTF-8, which encoding refuses: kept, as c is 0 */
        if (!started) begin = at;
        started = true;
        end = at + n;
    }
    kg_buffer_append(out, text + begin, end - begin);
}

static enum kg_status render(const struct kg_chat_request *r, struct kg_buffer *out, struct kg_error *err) {
    const struct kg_tokenizer *t = r->tokenizer;
    const bool has_system = strcmp(r->messages[0].role, "system") == 0;
    const struct kg_chat_message *messages = r->messages + has_system;
    const size_t n = r->n_messages - has_system;
    if (t->bos >= 0) kg_buffer_append(out, t->tokens[t->bos].text.data, t->tokens[t->bos].text.len);
    for (size_t i = 0; i < n; i++) {
        const bool from_user = strcmp(messages[i].role, "user") == 0;
        if (from_user != (i % 2 == 0))
            return kg_fail(err, KG_ERR_USAGE,
                           "message %zu has the role '%s'; in the format gemma the user and the assistant alternate, "
                           "beginning with the user",
                           i + has_system, messages[i].role);
        const bool from_model = strcmp(messages[i].role, "assistant") == 0;
        KG_CHAT_PUTS(out, "<start_of_turn>", from_model ? "model" : messages[i].role, "\n");
        if (i == 0 && has_system) KG_CHAT_PUTS(out, r->messages[0].content, "\n\n");
        put_trimmed(messages[i].content, out);
        kg_buffer_puts(out, "<end_of_turn>\n");
    }
    if (r->add_generation_prompt) kg_buffer_puts(out, "<start_of_turn>model\n");
    return KG_OK;
}

static const struct kg_chat_format GEMMA = {
    .name = "gemma",
    .needs = (const char *const[]){ "<start_of_turn>", "<end_of_turn>", "model", "trim", "first_user_prefix", NULL },
    .refuses = (const char *const[]){ "<|im_start|>", NULL },
    .roles = (const char *const[]){ "system", "user", "assistant", NULL },
    .ends = (const char *const[]){ "<end_of_turn>", NULL },
    .render = render,
};

const struct kg_chat_format *const KG_GEMMA_FORMATS[] = { &GEMMA, NULL };
