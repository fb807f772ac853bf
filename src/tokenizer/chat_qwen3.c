/* Qwen3: ChatML whose assistant thinks between "<think>" and "</think>" before it answers.
 *
 * Messages before the user's last question keep their answers only. An answer behind that question is written with its
 * thoughts; the last message has the two marks even if it has none. What a tool returned is no question. */
#include "tokenizer/chat.h"
#include "tokenizer/tokenizer.h"
#include <string.h>

#define OPEN "<think>"
#define CLOSE "</think>"
enum { OPENS_THOUGHTS = 1 }; /* the prompt for an answer ends with "<think>\n" */

static uint32_t traits(const char *chat_template) {
    return strstr(chat_template, "<|im_start|>assistant\n" OPEN "\n'") ? OPENS_THOUGHTS : 0;
}

/* A stretch of a message. */
struct part {
    const char *text;
    size_t len;
};

static struct part trim_newlines(struct part p) {
    while (p.len > 0 && p.text[0] == '\n') p.text++, p.len--;
    while (p.len > 0 && p.text[p.len - 1] == '\n') p.len--;
    return p;
}

/* The last place where mark stands in text[0..len); NULL if nowhere. */
static const char *last_of(struct part p, const char *mark) {
    const size_t n = strlen(mark);
    for (size_t at = p.len < n ? 0 : p.len - n + 1; at-- > 0;)
        if (memcmp(p.text + at, mark, n) == 0) return p.text + at;
    return NULL;
}

/* Thoughts are what stands before the first CLOSE, behind the last OPEN there; the answer is behind the last CLOSE. */
static void take_apart(const char *content, struct part *thoughts, struct part *answer) {
    const char *close = strstr(content, CLOSE);
    *thoughts = (struct part){ content, 0 };
    *answer = (struct part){ content, strlen(content) };
    if (!close) return;
    thoughts->len = (size_t)(close - content);
    const char *open = last_of(*thoughts, OPEN);
    if (open) *thoughts = (struct part){ open + strlen(OPEN), (size_t)(close - open) - strlen(OPEN) };
    *thoughts = trim_newlines(*thoughts);
    answer->text = last_of(*answer, CLOSE) + strlen(CLOSE);
    while (*answer->text == '\n') answer->text++;
    answer->len = strlen(answer->text);
}

static bool is_question(const struct kg_chat_message *m) {
    static const char BEGIN[] = "<tool_response>", END[] = "</tool_response>";
    const size_t len = strlen(m->content), n = sizeof END - 1;
    if (strcmp(m->role, "user") != 0) return false;
    return strncmp(m->content, BEGIN, sizeof BEGIN - 1) != 0 || len < n || strcmp(m->content + len - n, END) != 0;
}

static void put_answer(const struct kg_chat_message *m, bool behind_question, bool last, struct kg_buffer *out) {
    struct part thoughts, answer;
    take_apart(m->content, &thoughts, &answer);
    if (behind_question && (last || thoughts.len > 0)) {
        kg_buffer_puts(out, OPEN "\n");
        kg_buffer_append(out, thoughts.text, thoughts.len);
        kg_buffer_puts(out, "\n" CLOSE "\n\n");
        while (answer.len > 0 && *answer.text == '\n') answer.text++, answer.len--;
    }
    kg_buffer_append(out, answer.text, answer.len);
}

static enum kg_status render(const struct kg_chat_request *r, struct kg_buffer *out, struct kg_error *err) {
    size_t question = r->n_messages - 1;
    (void)err;
    for (size_t i = r->n_messages; i-- > 0;)
        if (is_question(&r->messages[i])) {
            question = i;
            break;
        }
    for (size_t i = 0; i < r->n_messages; i++) {
        const struct kg_chat_message *m = &r->messages[i];
        KG_CHAT_PUTS(out, "<|im_start|>", m->role, "\n");
        if (strcmp(m->role, "assistant") == 0) put_answer(m, i > question, i == r->n_messages - 1, out);
        else kg_buffer_puts(out, m->content);
        kg_buffer_puts(out, "<|im_end|>\n");
    }
    if (!r->add_generation_prompt) return KG_OK;
    kg_buffer_puts(out, "<|im_start|>assistant\n");
    if (r->tokenizer->chat_traits & OPENS_THOUGHTS) kg_buffer_puts(out, OPEN "\n");
    return KG_OK;
}

static const struct kg_chat_format QWEN3 = {
    .name = "qwen3",
    .needs = (const char *const[]){ "<|im_start|>", "<|im_end|>", OPEN, CLOSE, "last_query_index", NULL },
    .refuses = (const char *const[]){ "<|im_sep|>", NULL },
    .roles = (const char *const[]){ "system", "user", "assistant", NULL },
    .ends = (const char *const[]){ "<|im_end|>", "<|endoftext|>", NULL },
    .traits = traits,
    .render = render,
};

const struct kg_chat_format *const KG_QWEN3_FORMATS[] = { &QWEN3, NULL };
