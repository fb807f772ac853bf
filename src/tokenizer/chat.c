/* A chat template is a Jinja program. kigo does not run it: it recognises known formats by the marks that they
 * write. */
#include "tokenizer/chat.h"
#include "base/size.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct kg_chat_format *const *const FORMATS[] = { KG_CHATML_FORMATS, KG_PHI3_FORMATS, KG_HARMONY_FORMATS,
                                                               KG_QWEN3_FORMATS, KG_GEMMA_FORMATS };

void kg_chat_puts(struct kg_buffer *out, const char *const texts[]) {
    for (; *texts; texts++) kg_buffer_puts(out, *texts);
}

static bool is_listed(const char *const *list, const char *word) {
    while (*list && strcmp(*list, word) != 0) list++;
    return *list != NULL;
}

static bool is_format(const struct kg_chat_format *format, const char *chat_template) {
    for (const char *const *mark = format->needs; *mark; mark++)
        if (!strstr(chat_template, *mark)) return false;
    for (const char *const *mark = format->refuses; *mark; mark++)
        if (strstr(chat_template, *mark)) return false;
    return true;
}

/* The template with escaped line breaks unescaped, so that both ways of writing a literal match. */
static char *with_line_breaks(const char *chat_template) {
    char *text = kg_xstrdup(chat_template), *to = text;
    for (const char *from = chat_template; *from; to++) {
        const bool escaped = from[0] == '\\' && from[1] == 'n';
        *to = escaped ? '\n' : *from;
        from += escaped ? 2 : 1;
    }
    *to = '\0';
    return text;
}

static void set_end(struct kg_tokenizer *t, const char *text, bool end) {
    const int32_t id = kg_tokenizer_find(t, text);
    if (id >= 0 && kg_tokenizer_is_special(t, id)) t->tokens[id].end = end;
}

/* If any of the four is missing, generated text is shown unfiltered. */
static void find_channel_marks(struct kg_tokenizer *t) {
    static const char *const TEXTS[] = { "<|start|>", "<|channel|>", "<|message|>", "<|end|>" };
    int32_t ids[KG_COUNT_OF(TEXTS)];
    for (size_t i = 0; i < KG_COUNT_OF(TEXTS); i++) {
        ids[i] = kg_tokenizer_find(t, TEXTS[i]);
        if (ids[i] < 0 || !kg_tokenizer_is_special(t, ids[i])) return;
    }
    t->channel_marks = (struct kg_channel_marks){ ids[0], ids[1], ids[2], ids[3] };
}

void kg_chat_recognise(struct kg_tokenizer *t) {
    char *text = with_line_breaks(t->chat_template);
    for (size_t i = 0; i < KG_COUNT_OF(FORMATS); i++)
        for (const struct kg_chat_format *const *format = FORMATS[i]; *format && !t->chat; format++)
            if (is_format(*format, text)) t->chat = *format;
    if (t->chat) {
        if (t->chat->traits) t->chat_traits = t->chat->traits(text);
        if (t->chat->default_system) t->chat_default_system = t->chat->default_system(t->chat_template);
        for (const char *const *end = t->chat->ends; *end; end++) set_end(t, *end, true);
        if (t->chat->has_channels) find_channel_marks(t);
        if (t->chat->goes_on) set_end(t, t->chat->goes_on, false);
    }
    free(text);
}

static enum kg_status check_roles(const struct kg_chat_format *format, const struct kg_chat_message *messages, size_t n,
                                  struct kg_error *err) {
    for (size_t i = 0; i < n; i++) {
        if (is_listed(format->roles, messages[i].role)) continue;
        struct kg_buffer known = KG_BUFFER_INIT;
        for (const char *const *role = format->roles; *role; role++)
            kg_buffer_printf(&known, "%s%s", role == format->roles ? "" : ", ", *role);
        kg_fail(err, KG_ERR_USAGE, "message %zu has the role '%s'; of the format %s kigo knows %s", i,
                kg_quote(messages[i].role, strlen(messages[i].role)).text, format->name, kg_buffer_text(&known));
        kg_buffer_free(&known);
        return KG_ERR_USAGE;
    }
    return KG_OK;
}

static int digits(const char *text, int n) {
    int value = 0;
    for (int i = 0; i < n; i++) value = 10 * value + text[i] - '0';
    return value;
}

static bool is_date(const char *text) {
    static const char SHAPE[] = "dddd-dd-dd";
    if (strlen(text) != sizeof SHAPE - 1) return false;
    for (size_t i = 0; i < sizeof SHAPE - 1; i++)
        if (SHAPE[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != SHAPE[i]) return false;
    static const int DAYS[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    const int year = digits(text, 4), month = digits(text + 5, 2), day = digits(text + 8, 2);
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month >= 1 && month <= 12 && day >= 1 && day <= DAYS[month - 1] + (leap && month == 2);
}

static enum kg_status check_options(const struct kg_chat_format *format, const struct kg_chat_options *o,
                                    struct kg_error *err) {
    static const char *const EFFORTS[] = { "low", "medium", "high", NULL };
    if ((o->date || o->reasoning) && !format->has_date)
        return kg_fail(err, KG_ERR_USAGE, "the chat format %s has no %s", format->name,
                       o->date ? "date" : "reasoning effort");
    if (o->date && !is_date(o->date))
        return kg_fail(err, KG_ERR_USAGE, "the date '%s' is no day of the form YYYY-MM-DD",
                       kg_quote(o->date, strlen(o->date)).text);
    if (o->reasoning && !is_listed(EFFORTS, o->reasoning))
        return kg_fail(err, KG_ERR_USAGE, "the reasoning effort '%s' is none of low, medium and high",
                       kg_quote(o->reasoning, strlen(o->reasoning)).text);
    return KG_OK;
}

static enum kg_status check_format(const struct kg_tokenizer *t, struct kg_error *err) {
    if (!t->chat_template) return kg_fail(err, KG_ERR_UNSUPPORTED, "the model's file has no tokenizer.chat_template");
    if (t->chat) return KG_OK;
    return kg_fail(err, KG_ERR_UNSUPPORTED, "tokenizer.chat_template is of no format kigo knows: '%s'",
                   kg_quote(t->chat_template, strlen(t->chat_template)).text);
}

enum kg_status kg_chat_render_with(const struct kg_tokenizer *t, const struct kg_chat_message *messages,
                                   size_t n_messages, bool add_generation_prompt, const struct kg_chat_options *options,
                                   char **text, struct kg_error *err) {
    enum kg_status status = check_format(t, err);
    if (status == KG_OK && n_messages == 0) status = kg_fail(err, KG_ERR_USAGE, "a chat needs at least one message");
    if (status == KG_OK) status = check_roles(t->chat, messages, n_messages, err);
    if (status == KG_OK) status = check_options(t->chat, options, err);
    if (status != KG_OK) return status;
    char today[sizeof "2026-01-31"];
    const time_t now = time(NULL);
    struct tm local;
    strftime(today, sizeof today, "%Y-%m-%d", localtime_r(&now, &local));
    const struct kg_chat_request request = { .tokenizer = t,
                                             .messages = messages,
                                             .n_messages = n_messages,
                                             .add_generation_prompt = add_generation_prompt,
                                             .date = options->date ? options->date : today,
                                             .reasoning = options->reasoning ? options->reasoning : "medium" };
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_buffer_append(&out, "", 0); /* so that an empty text is allocated, too */
    status = t->chat->render(&request, &out, err);
    if (status == KG_OK) *text = out.data;
    else kg_buffer_free(&out);
    return status;
}

enum kg_status kg_chat_render(const struct kg_tokenizer *t, const struct kg_chat_message *messages, size_t n_messages,
                              bool add_generation_prompt, char **text, struct kg_error *err) {
    return kg_chat_render_with(t, messages, n_messages, add_generation_prompt, &(struct kg_chat_options){ 0 }, text,
                               err);
}

const char *kg_chat_format_name(const struct kg_tokenizer *t) {
    return t->chat ? t->chat->name : NULL;
}
