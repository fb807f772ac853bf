/* Phi-3: "<|user|>\n" content "<|end|>\n" for each message, by the templates of Microsoft's releases. */
#include "tokenizer/chat.h"
#include "tokenizer/tokenizer.h"
#include <string.h>

enum {
    BEGINS_WITH_BOS = 1,
    ENDS_WITH_EOS = 2, /* if no generation prompt is requested */
    DROPS_EMPTY_SYSTEM = 4,
};

static uint32_t traits(const char *chat_template) {
    return (strstr(chat_template, "bos_token") ? BEGINS_WITH_BOS : 0u) |
           (strstr(chat_template, "eos_token") ? ENDS_WITH_EOS : 0u) |
           (strstr(chat_template, "== 'system' and message['content']") ? DROPS_EMPTY_SYSTEM : 0u);
}

static void put_token(const struct kg_tokenizer *t, int32_t id, struct kg_buffer *out) {
    if (id >= 0) kg_buffer_append(out, t->tokens[id].text.data, t->tokens[id].text.len);
}

static enum kg_status render(const struct kg_chat_request *r, struct kg_buffer *out, struct kg_error *err) {
    const struct kg_tokenizer *t = r->tokenizer;
    (void)err;
    if (t->chat_traits & BEGINS_WITH_BOS) put_token(t, t->bos, out);
    for (size_t i = 0; i < r->n_messages; i++) {
        const struct kg_chat_message *m = &r->messages[i];
        if (t->chat_traits & DROPS_EMPTY_SYSTEM && strcmp(m->role, "system") == 0 && !*m->content) continue;
        KG_CHAT_PUTS(out, "<|", m->role, "|>\n", m->content, "<|end|>\n");
    }
    if (r->add_generation_prompt) kg_buffer_puts(out, "<|assistant|>\n");
    else if (t->chat_traits & ENDS_WITH_EOS) put_token(t, t->eos, out);
    return KG_OK;
}

/* The first release: every user message is followed by the header of its answer, even without a generation prompt, and
 * there is no system role. */
static enum kg_status render_first(const struct kg_chat_request *r, struct kg_buffer *out, struct kg_error *err) {
    (void)err;
    if (r->tokenizer->chat_traits & BEGINS_WITH_BOS) put_token(r->tokenizer, r->tokenizer->bos, out);
    for (size_t i = 0; i < r->n_messages; i++) {
        const struct kg_chat_message *m = &r->messages[i];
        if (strcmp(m->role, "user") == 0) KG_CHAT_PUTS(out, "<|user|>\n", m->content, "<|end|>\n<|assistant|>\n");
        else if (strcmp(m->role, "assistant") == 0) KG_CHAT_PUTS(out, m->content, "<|end|>\n");
    }
    return KG_OK;
}

static const char *const ROLES[] = { "system", "user", "assistant", NULL };
static const char *const ENDS[] = { "<|end|>", "<|endoftext|>", NULL };
static const char *const REFUSES[] = { "<|im_start|>", "messages[-1]", "| trim", "|trim", ".strip(", "tool", NULL };

static const struct kg_chat_format ROLE_BY_ROLE = {
    .name = "phi3",
    .needs = (const char *const[]){ "'<|system|>\n' + message['content'] + '<|end|>\n'",
                                    "'<|user|>\n' + message['content'] + '<|end|>\n'",
                                    "'<|assistant|>\n' + message['content'] + '<|end|>\n'",
                                    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}", NULL },
    .refuses = REFUSES,
    .roles = ROLES,
    .ends = ENDS,
    .traits = traits,
    .render = render,
};
static const struct kg_chat_format ANY_ROLE = {
    .name = "phi3",
    .needs = (const char *const[]){ "{{'<|' + message['role'] + '|>' + '\n' + message['content'] + '<|end|>\n' }}",
                                    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}", NULL },
    .refuses = REFUSES,
    .roles = ROLES,
    .ends = ENDS,
    .traits = traits,
    .render = render,
};
static const struct kg_chat_format FIRST = {
    .name = "phi3 (first release)",
    .needs =
        (const char *const[]){ "{{'<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>' + '\n'}}",
                               "{{message['content'] + '<|end|>' + '\n'}}", NULL },
    .refuses = REFUSES,
    .roles = ROLES,
    .ends = ENDS,
    .traits = traits,
    .render = render_first,
};

const struct kg_chat_format *const KG_PHI3_FORMATS[] = { &ROLE_BY_ROLE, &ANY_ROLE, &FIRST, NULL };
