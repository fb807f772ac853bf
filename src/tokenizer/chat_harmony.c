/* Harmony, GPT-OSS's format: "<|start|>" role "<|message|>" content "<|end|>" for each message.
 *
 * The template first writes a built-in system message with the date and the reasoning effort. The first message, if its
 * role is system or developer, becomes the developer's instructions; later messages of these roles are left out.
 * Earlier assistant messages are rendered in the final channel. Tools are not rendered. Source: the chat_template.jinja
 * of openai/gpt-oss-20b and -120b. */
#include "tokenizer/chat.h"
#include "tokenizer/tokenizer.h"
#include <string.h>

#define IDENTITY "You are ChatGPT, a large language model trained by OpenAI."
#define CUTOFF "Knowledge cutoff: 2024-06\n"
#define CHANNELS "# Valid channels: analysis, commentary, final. Channel must be included for every message."
#define FINAL "<|start|>assistant<|channel|>final<|message|>"

enum {
    BREAKS_AFTER_INSTRUCTIONS = 1, /* an empty line follows the instructions, in some revisions */
    HAS_REASONING = 2,             /* the reasoning effort is an option, not fixed by the template */
};

/* Whether the literal after the instructions starts with an empty line, before any other statement. */
static bool breaks_after_instructions(const char *chat_template) {
    static const char HEAD[] = "# Instructions\n\n";
    const char *at = strstr(chat_template, HEAD);
    if (!at || !*(at += sizeof HEAD - 1)) return false;
    for (at++; *at && *at != '"' && *at != '\''; at++) /* skip the quote that ends the header */
        if (at[0] == '{' && at[1] == '%') return false;
    return *at && strncmp(at + 1, "\n\n", 2) == 0;
}

static uint32_t traits(const char *chat_template) {
    return (breaks_after_instructions(chat_template) ? BREAKS_AFTER_INSTRUCTIONS : 0u) |
           (strstr(chat_template, "reasoning_effort") ? HAS_REASONING : 0u);
}

static bool instructs(const char *role) {
    return strcmp(role, "system") == 0 || strcmp(role, "developer") == 0;
}

/* The template raises an exception for these. */
static enum kg_status check_answer(const struct kg_chat_message *m, size_t i, struct kg_error *err) {
    static const char *const TAGS[] = { "<|channel|>analysis<|message|>", "<|channel|>final<|message|>" };
    for (size_t k = 0; k < sizeof TAGS / sizeof *TAGS; k++)
        if (strstr(m->content, TAGS[k]))
            return kg_fail(err, KG_ERR_USAGE,
                           "message %zu, the assistant's, holds '%s'; give the final channel's text alone", i, TAGS[k]);
    return KG_OK;
}

static enum kg_status render(const struct kg_chat_request *r, struct kg_buffer *out, struct kg_error *err) {
    if (strcmp(r->reasoning, "medium") != 0 && !(r->tokenizer->chat_traits & HAS_REASONING))
        return kg_fail(err, KG_ERR_USAGE, "the model's chat template has a fixed reasoning effort, not '%s'",
                       r->reasoning);
    KG_CHAT_PUTS(out, "<|start|>system<|message|>" IDENTITY "\n" CUTOFF "Current date: ", r->date,
                 "\n\nReasoning: ", r->reasoning, "\n\n" CHANNELS "<|end|>");
    size_t first = 0;
    if (instructs(r->messages[0].role)) {
        const bool breaks = r->tokenizer->chat_traits & BREAKS_AFTER_INSTRUCTIONS;
        if (*r->messages[0].content)
            KG_CHAT_PUTS(out, "<|start|>developer<|message|># Instructions\n\n", r->messages[0].content,
                         breaks ? "\n\n" : "", "<|end|>");
        first = 1;
    }
    for (size_t i = first; i < r->n_messages; i++) {
        const struct kg_chat_message *m = &r->messages[i];
        const bool is_last = i + 1 == r->n_messages && !r->add_generation_prompt;
        if (strcmp(m->role, "user") == 0) KG_CHAT_PUTS(out, "<|start|>user<|message|>", m->content, "<|end|>");
        if (strcmp(m->role, "assistant") != 0) continue;
        const enum kg_status status = check_answer(m, i, err);
        if (status != KG_OK) return status;
        KG_CHAT_PUTS(out, FINAL, m->content, is_last ? "<|return|>" : "<|end|>");
    }
    if (r->add_generation_prompt) kg_buffer_puts(out, "<|start|>assistant");
    return KG_OK;
}

static const struct kg_chat_format HARMONY = {
    .name = "harmony",
    .needs =
        (const char *const[]){ IDENTITY, CUTOFF, "Current date: ", "strftime_now(", "Reasoning: ", CHANNELS,
                               "<|start|>developer<|message|>", "<|start|>user<|message|>", FINAL, "<|return|>", NULL },
    .refuses = (const char *const[]){ "| trim", "|trim", ".strip(", NULL },
    .roles = (const char *const[]){ "system", "developer", "user", "assistant", NULL },
    .ends = (const char *const[]){ "<|return|>", "<|call|>", "<|endoftext|>", NULL },
    .goes_on = "<|end|>", /* ends the analysis message; the answer follows */
    .has_date = true,
    .has_channels = true,
    .traits = traits,
    .render = render,
};

const struct kg_chat_format *const KG_HARMONY_FORMATS[] = { &HARMONY, NULL };
