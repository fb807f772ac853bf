/* Chats rendered as Jinja renders them with the models' own templates. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "engine/prompt.h"
#include "format/gguf.h"
#include "suites/support/vocabulary.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct rendered {
    const char *name, *file, *template_name;
    size_t n_chats;
};
static const struct rendered RENDERED[] = {
    { "qwen2_template", "chatml/chats.json", "qwen2.5", 14 },
    { "plain_chatml_template", "chatml/chats.json", "plain", 14 },
    { "default_in_the_loop_template", "chatml/chats.json", "first", 14 },
    { "phi3_template", "chats/chats.json", "phi3.5", 54 },
    { "phi3_template_of_any_role", "chats/chats.json", "phi3-any-role", 54 },
    { "phi3_template_of_the_first_release", "chats/chats.json", "phi3-first", 54 },
    { "harmony_template", "chats/chats.json", "gpt-oss", 102 },
    { "qwen3_template", "thinking/chats.json", "qwen3", 144 },
    { "qwen3_template_that_opens_thoughts", "thinking/chats.json", "qwen3-thinks", 144 },
    { "gemma3_template", "thinking/chats.json", "gemma3", 136 },
};

static json_t *load_chats(const char *file_name) {
    char *text, *path = kg_xasprintf("tokenizers/%s", file_name);
    size_t len;
    struct kg_error err = { 0 };
    ck_assert_msg(kg_file_read(kg_fixture_path(path), &text, &len, &err) == KG_OK, "%s", err.message);
    json_t *file = json_loadb(text, len, 0, NULL);
    ck_assert_ptr_nonnull(file);
    free(text);
    free(path);
    return file;
}

/* Ids 259 and on. */
enum { BOS = SMALL_FIRST_EXTRA, EOS, START, END, RETURN, CALL };

static struct kg_tokenizer *open_with(struct kg_record *rec, const char *chat_template) {
    const struct small_vocabulary v = {
        .extra_tokens = { "<s>", "<|endoftext|>", "<|start|>", "<|end|>", "<|return|>", "<|call|>" },
        .extra_types = { 3, 3, 3, 3, 3, 3 },
        .id_key = "bos_token_id",
        .id_value = BOS,
        .eos_id = EOS,
        .chat_template = chat_template,
    };
    struct kg_tokenizer *t;
    struct kg_error err = { 0 };
    ck_assert_msg(small_vocabulary_open(rec, &v, &t, &err) == KG_OK, "%s", err.message);
    return t;
}

static void expect_rendered(const struct kg_tokenizer *t, const json_t *chat, const char *date) {
    enum { MAX_MESSAGES = 8 };
    struct kg_chat_message messages[MAX_MESSAGES];
    const json_t *list = json_object_get(chat, "messages");
    const size_t n = json_array_size(list);
    ck_assert_uint_le(n, MAX_MESSAGES);
    for (size_t i = 0; i < n; i++) {
        const json_t *message = json_array_get(list, i);
        messages[i] = (struct kg_chat_message){ json_string_value(json_object_get(message, "role")),
                                                json_string_value(json_object_get(message, "content")) };
    }
    char *text;
    struct kg_error err = { 0 };
    const bool prompt = json_is_true(json_object_get(chat, "add_generation_prompt"));
    const bool dated = strcmp(kg_chat_format_name(t), "harmony") == 0;
    const struct kg_chat_options options = { .date = dated ? date : NULL,
                                             .reasoning =
                                                 json_string_value(json_object_get(chat, "reasoning_effort")) };
    ck_assert_msg(kg_chat_render_with(t, messages, n, prompt, &options, &text, &err) == KG_OK, "%s", err.message);
    ck_assert_msg(strcmp(text, json_string_value(json_object_get(chat, "rendered"))) == 0, "chat %s: '%s'",
                  json_string_value(json_object_get(chat, "name")), text);
    free(text);
}

static void as_jinja_renders(struct kg_record *rec, const void *arg) {
    const struct rendered *row = arg;
    json_t *file = load_chats(row->file), *chat;
    const char *chat_template =
        json_string_value(json_object_get(json_object_get(file, "templates"), row->template_name));
    const char *date = json_string_value(json_object_get(file, "date"));
    size_t i, n_checked = 0;
    ck_assert_ptr_nonnull(chat_template);
    struct kg_tokenizer *t = open_with(rec, chat_template);
    json_array_foreach(json_object_get(file, "chats"), i, chat) {
        if (strcmp(json_string_value(json_object_get(chat, "template")), row->template_name) != 0) continue;
        expect_rendered(t, chat, date);
        n_checked++;
    }
    ck_assert_uint_eq(n_checked, row->n_chats);
    kg_record_metric(rec, "chats", "count", (double)n_checked);
    kg_tokenizer_free(t);
    json_decref(file);
}

static struct kg_tokenizer *open_template(struct kg_record *rec, const char *name) {
    json_t *file = load_chats("chats/chats.json");
    struct kg_tokenizer *t =
        open_with(rec, json_string_value(json_object_get(json_object_get(file, "templates"), name)));
    json_decref(file);
    return t;
}

static struct kg_tokenizer *open_harmony(struct kg_record *rec) {
    return open_template(rec, "gpt-oss");
}

/* The end of the analysis is not the end of the answer. */
static void harmony_ends(struct kg_record *rec, const void *arg) {
    struct kg_tokenizer *t = open_harmony(rec);
    (void)arg;
    ck_assert(kg_tokenizer_is_end(t, RETURN) && kg_tokenizer_is_end(t, CALL) && kg_tokenizer_is_end(t, EOS));
    ck_assert(!kg_tokenizer_is_end(t, END) && !kg_tokenizer_is_end(t, START));
    kg_tokenizer_free(t);
}

/* A template may leave a message out; a prompt to be answered may not. */
static void prompt_of_a_message_left_out(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *template_name;
        struct kg_chat_message messages[2];
        const char *says;
    } ROWS[] = {
        { "phi3-first", { { "system", "Be brief." }, { "user", "hi" } }, "leaves out message 0, of role 'system'" },
        { "gpt-oss", { { "user", "hi" }, { "developer", "Be brief." } }, "leaves out message 1, of role 'developer'" },
    };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        struct kg_tokenizer *t = open_template(rec, ROWS[i].template_name);
        struct kg_error err = { 0 };
        struct kg_ids ids = { 0 };
        char *rendered = NULL;
        ck_assert_int_eq(kg_prompt_encode_chat(t, ROWS[i].messages, 2, &rendered, &ids, &err), KG_ERR_UNSUPPORTED);
        ck_assert_ptr_null(rendered);
        ck_assert_msg(strstr(err.message, ROWS[i].says) != NULL, "%s", err.message);
        kg_tokenizer_free(t);
    }
}

/* A system message alone stands in the place of the template's own. */
static void system_message_alone(struct kg_record *rec, const void *arg) {
    const struct kg_chat_message message = { "system", "Be brief." };
    json_t *file = load_chats("chatml/chats.json");
    struct kg_error err = { 0 };
    char *text;
    (void)arg;
    struct kg_tokenizer *t =
        open_with(rec, json_string_value(json_object_get(json_object_get(file, "templates"), "qwen2.5")));
    ck_assert_msg(kg_chat_render(t, &message, 1, true, &text, &err) == KG_OK, "%s", err.message);
    ck_assert_str_eq(text, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>assistant\n");
    free(text);
    kg_tokenizer_free(t);
    json_decref(file);
}

/* An empty system message that the template drops stays dropped where messages are encoded apart. */
static void prompt_of_an_empty_message(struct kg_record *rec, const void *arg) {
    static const struct kg_chat_message MESSAGES[] = { { "system", "" }, { "user", "<|end|>" } };
    struct kg_tokenizer *t = open_template(rec, "phi3.5");
    struct kg_error err = { 0 };
    struct kg_ids ids = { 0 };
    char *rendered, *text;
    size_t len;
    (void)arg;
    ck_assert_msg(kg_prompt_encode_chat(t, MESSAGES, 2, &rendered, &ids, &err) == KG_OK, "%s", err.message);
    ck_assert_str_eq(rendered, "<|user|>\n<|end|><|end|>\n<|assistant|>\n");
    ck_assert_int_eq(kg_tokenizer_decode(t, ids.ids, ids.n, true, &text, &len, &err), KG_OK);
    ck_assert_str_eq(text, rendered);
    size_t n_ends = 0;
    for (size_t i = 0; i < ids.n; i++) n_ends += ids.ids[i] == END;
    ck_assert_uint_eq(n_ends, 1);
    free(text);
    free(rendered);
    kg_ids_free(&ids);
    kg_tokenizer_free(t);
}

/* Without a date, the day the process lives in: the one before or after a midnight. */
static void harmony_date_is_today(struct kg_record *rec, const void *arg) {
    struct kg_tokenizer *t = open_harmony(rec);
    const struct kg_chat_message message = { "user", "hi" };
    struct kg_error err = { 0 };
    bool found = false;
    char *text;
    const time_t before = time(NULL);
    (void)arg;
    ck_assert_msg(kg_chat_render(t, &message, 1, true, &text, &err) == KG_OK, "%s", err.message);
    const time_t days[] = { before, time(NULL) };
    for (size_t i = 0; i < KG_COUNT_OF(days); i++) {
        char line[64];
        struct tm local;
        strftime(line, sizeof line, "\nCurrent date: %Y-%m-%d\n\nReasoning: medium\n", localtime_r(&days[i], &local));
        found |= strstr(text, line) != NULL;
    }
    ck_assert_msg(found, "'%s' has not today's date", text);
    free(text);
    kg_tokenizer_free(t);
}

/* Revisions of the template that write nothing behind the instructions. */
static void harmony_without_the_empty_line(struct kg_record *rec, const void *arg) {
    static const char BREAKS[] = "{{- developer_message }}\n        {{- \"\\n\\n\" }}";
    json_t *file = load_chats("chats/chats.json");
    char *chat_template = kg_xstrdup(json_string_value(json_object_get(json_object_get(file, "templates"), "gpt-oss")));
    char *at = strstr(chat_template, BREAKS);
    const struct kg_chat_message messages[] = { { "system", "Be brief." }, { "user", "hi" } };
    struct kg_error err = { 0 };
    char *text;
    (void)arg;
    ck_assert_ptr_nonnull(at);
    memset(at + sizeof "{{- developer_message }}", ' ', sizeof BREAKS - 1 - sizeof "{{- developer_message }}");
    struct kg_tokenizer *t = open_with(rec, chat_template);
    ck_assert_msg(kg_chat_render(t, messages, 2, true, &text, &err) == KG_OK, "%s", err.message);
    ck_assert_ptr_nonnull(strstr(text, "# Instructions\n\nBe brief.<|end|><|start|>user<|message|>hi<|end|>"));
    free(text);
    kg_tokenizer_free(t);
    free(chat_template);
    json_decref(file);
}

struct bad_options {
    const char *name;
    bool harmony;
    struct kg_chat_options options;
    struct kg_chat_message message;
    const char *says;
};
static const struct bad_options BAD_OPTIONS[] = {
    { "date_where_there_is_none", false, { .date = "2026-01-31" }, { "user", "hi" }, "chatml has no date" },
    { "effort_where_there_is_none", false, { .reasoning = "low" }, { "user", "hi" }, "chatml has no reasoning effort" },
    { "date_with_text", true, { .date = "2026-01-31\nobey" }, { "user", "hi" }, "YYYY-MM-DD" },
    { "date_without_dashes", true, { .date = "2026/01/31" }, { "user", "hi" }, "'2026/01/31'" },
    { "date_month_13", true, { .date = "2026-13-01" }, { "user", "hi" }, "'2026-13-01'" },
    { "date_no_leap_year_has", true, { .date = "2100-02-29" }, { "user", "hi" }, "'2100-02-29'" },
    { "date_day_0", true, { .date = "2026-12-00" }, { "user", "hi" }, "'2026-12-00'" },
    { "effort_unknown", true, { .reasoning = "extreme" }, { "user", "hi" }, "'extreme'" },
    { "harmony_tool", true, { 0 }, { "tool", "42" }, "role 'tool'" },
    { "harmony_channel_in_answer",
      true,
      { 0 },
      { "assistant", "<|channel|>final<|message|>hi" },
      "final channel's text alone" },
    { "developer_where_there_is_none", false, { 0 }, { "developer", "hi" }, "role 'developer'" },
};

struct bad_chat {
    const char *name, *chat_template, *role;
    enum kg_status status;
    const char *says;
};
#define CHATML "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"

static const struct bad_chat BAD[] = {
    { "no_template", NULL, "user", KG_ERR_UNSUPPORTED, "no tokenizer.chat_template" },
    { "unknown_template", "{{ '[INST]' + m.content }}", "user", KG_ERR_UNSUPPORTED, "[INST]" },
    { "separator_template", CHATML "<|im_sep|>", "user", KG_ERR_UNSUPPORTED, "no format kigo knows" },
    { "thinking_template", CHATML "<think>", "user", KG_ERR_UNSUPPORTED, "no format kigo knows" },
    { "trimming_template", CHATML "{{ m.content | trim }}", "user", KG_ERR_UNSUPPORTED, "no format kigo knows" },
    { "unknown_role", CHATML, "tool", KG_ERR_USAGE, "'tool'" },
    { "no_messages", CHATML, NULL, KG_ERR_USAGE, "at least one message" },
};

static void options_are_refused(struct kg_record *rec, const void *arg) {
    const struct bad_options *row = arg;
    struct kg_tokenizer *t = row->harmony ? open_harmony(rec) : open_with(rec, CHATML);
    struct kg_error err = { 0 };
    char *text = NULL;
    ck_assert_int_eq(kg_chat_render_with(t, &row->message, 1, true, &row->options, &text, &err), KG_ERR_USAGE);
    ck_assert_ptr_null(text);
    ck_assert_msg(strstr(err.message, row->says) != NULL, "'%s' does not say '%s'", err.message, row->says);
    kg_tokenizer_free(t);
}

/* What is between marks in a template is its own system message only as a literal. */
static void marks_that_are_no_literal(struct kg_record *rec, const void *arg) {
    static const char *const TEMPLATES[] = { "{# <|im_start|>system\nA remark.<|im_end|> #}" CHATML,
                                             "{{ '<|im_start|>system' + text + '<|im_end|>' }}" CHATML };
    const struct kg_chat_message message = { "user", "hi" };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(TEMPLATES); i++) {
        struct kg_tokenizer *t = open_with(rec, TEMPLATES[i]);
        struct kg_error err = { 0 };
        char *text = NULL;
        ck_assert_msg(kg_chat_render(t, &message, 1, false, &text, &err) == KG_OK, "%s", err.message);
        ck_assert_str_eq(text, "<|im_start|>user\nhi<|im_end|>\n");
        free(text);
        kg_tokenizer_free(t);
    }
}

static void is_refused(struct kg_record *rec, const void *arg) {
    const struct bad_chat *row = arg;
    const struct small_vocabulary v = { .chat_template = row->chat_template };
    const struct kg_chat_message message = { row->role, "hi" };
    struct kg_tokenizer *t;
    struct kg_error err = { 0 };
    char *text = NULL;
    ck_assert_msg(small_vocabulary_open(rec, &v, &t, &err) == KG_OK, "%s", err.message);
    ck_assert_int_eq(kg_chat_render(t, &message, row->role != NULL, true, &text, &err), row->status);
    ck_assert_ptr_null(text);
    ck_assert_msg(strstr(err.message, row->says) != NULL, "'%s' does not say '%s'", err.message, row->says);
    kg_tokenizer_free(t);
}

/* The converted vocabulary carries its template: one prompt, token for token, marks as special tokens. */
static void qwen2_prompt_as_ids(struct kg_record *rec, const void *arg) {
    static const int32_t IDS[] = { 151644, 8948,   198, 2610, 525,  1207,   16948, 11,     3465,  553,
                                   54364,  14817,  13,  1446, 525,  264,    10950, 17847,  13,    151645,
                                   198,    151644, 872, 198,  6023, 151645, 198,   151644, 77091, 198 };
    const struct kg_tokenizer *t = published_vocabulary("qwen2.5");
    const struct kg_chat_message message = { "user", "hi" };
    char *text;
    struct kg_error err = { 0 };
    (void)rec, (void)arg;
    ck_assert_msg(kg_chat_render(t, &message, 1, true, &text, &err) == KG_OK, "%s", err.message);
    expect_ids(t, text, strlen(text), true, IDS, KG_COUNT_OF(IDS));
    ck_assert(kg_tokenizer_is_end(t, 151645) && kg_tokenizer_is_end(t, 151643) && !kg_tokenizer_is_end(t, 151644));
    free(text);
}

/* GPT-OSS's vocabulary is o200k's with special tokens from 199998 on. */
static const struct {
    int32_t id;
    const char *text;
} HARMONY_TOKENS[] = { { 199998, "<|startoftext|>" }, { 200002, "<|return|>" }, { 200003, "<|constrain|>" },
                       { 200005, "<|channel|>" },     { 200006, "<|start|>" },  { 200007, "<|end|>" },
                       { 200008, "<|message|>" },     { 200012, "<|call|>" } };

static struct kg_tokenizer *open_gpt_oss(struct kg_record *rec) {
    struct kg_gguf *g;
    struct kg_tokenizer *t;
    struct kg_error err = { 0 };
    const struct kg_gguf_key *tokens, *types;
    struct kg_gguf_writer *w = kg_gguf_writer_new(32);
    json_t *file = load_chats("chats/chats.json");
    const json_t *chat_template = json_object_get(json_object_get(file, "templates"), "gpt-oss");
    ck_assert_int_eq(kg_gguf_open(kg_built_fixture_path("tokenizers/o200k/vocab.gguf"), &g, &err), KG_OK);
    ck_assert_int_eq(kg_gguf_get_array(g, "tokenizer.ggml.tokens", KG_GGUF_STRING, &tokens, &err), KG_OK);
    ck_assert_int_eq(kg_gguf_get_array(g, "tokenizer.ggml.token_type", KG_GGUF_I32, &types, &err), KG_OK);
    const size_t n = (size_t)tokens->value.array.n;
    struct kg_str *texts = kg_xcalloc(n, sizeof *texts);
    int32_t *kinds = kg_xcalloc(n, sizeof *kinds);
    for (size_t i = 0; i < n; i++) {
        texts[i] = tokens->value.array.strings[i];
        kinds[i] = (int32_t)kg_gguf_array_int(types, i);
    }
    for (size_t i = 0; i < KG_COUNT_OF(HARMONY_TOKENS); i++) {
        texts[HARMONY_TOKENS[i].id] = (struct kg_str){ HARMONY_TOKENS[i].text, strlen(HARMONY_TOKENS[i].text) };
        kinds[HARMONY_TOKENS[i].id] = 3;
    }
    kg_gguf_writer_str(w, "tokenizer.ggml.model", "gpt2", 4);
    kg_gguf_writer_str(w, "tokenizer.ggml.pre", "gpt-4o", 6); /* as llama.cpp writes GPT-OSS's */
    kg_gguf_writer_strings(w, "tokenizer.ggml.tokens", texts, n);
    kg_gguf_writer_i32s(w, "tokenizer.ggml.token_type", kinds, n);
    kg_gguf_writer_copy_key(w, kg_gguf_find_key(g, "tokenizer.ggml.merges"));
    kg_gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 200002);
    kg_gguf_writer_str(w, "tokenizer.chat_template", json_string_value(chat_template),
                       json_string_length(chat_template));
    char *path = kg_path_join(kg_scratch_dir(rec), "gpt-oss.gguf");
    ck_assert_int_eq(kg_gguf_writer_finish(w, path, &err), KG_OK);
    ck_assert_msg(kg_tokenizer_open(path, &t, &err) == KG_OK, "%s", err.message);
    free(path);
    kg_gguf_writer_free(w);
    free(kinds);
    free(texts);
    kg_gguf_close(g);
    json_decref(file);
    return t;
}

/* By Hugging Face tokenizers, with those tokens added to o200k's tokenizer.json. */
static void harmony_prompt_as_ids(struct kg_record *rec, const void *arg) {
    static const int32_t IDS[] = { 200006, 17360,  200008, 3575,   553,   17554,  162016, 11,    261,    4410,
                                   6439,   2359,   22203,  656,    7788,  17527,  558,    87447, 100594, 25,
                                   220,    1323,   19,     12,     3218,  198,    6576,   3521,  25,     220,
                                   1323,   20,     12,     3218,   12,    2029,   279,    30377, 289,    25,
                                   14093,  279,    2,      13888,  18403, 25,     8450,   11,    49159,  11,
                                   1721,   13,     21030,  2804,   413,   7360,   395,    1753,  3176,   13,
                                   200007, 200006, 1428,   200008, 3686,  200007, 200006, 173781 };
    const struct kg_chat_message message = { "user", "hi" };
    struct kg_tokenizer *t = open_gpt_oss(rec);
    struct kg_error err = { 0 };
    char *text;
    (void)arg;
    ck_assert_msg(kg_chat_render_with(t, &message, 1, true, &(struct kg_chat_options){ .date = "2025-06-28" }, &text,
                                      &err) == KG_OK,
                  "%s", err.message);
    expect_ids(t, text, strlen(text), true, IDS, KG_COUNT_OF(IDS));
    ck_assert(kg_tokenizer_is_end(t, 200002) && kg_tokenizer_is_end(t, 200012) && kg_tokenizer_is_end(t, 199999));
    ck_assert(!kg_tokenizer_is_end(t, 200007) && kg_chat_has_channels(t));
    free(text);
    kg_tokenizer_free(t);
}

/* Of common years and leap years: the last day of each month is a day, the next is none. */
static void days_of_months(struct kg_record *rec, const void *arg) {
    static const int LAST[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    static const struct { int year, leap; } YEARS[] = { { 2026, 0 }, { 2024, 1 }, { 2000, 1 }, { 1900, 0 } };
    const struct kg_chat_message message = { "user", "hi" };
    struct kg_tokenizer *t = open_harmony(rec);
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(YEARS); i++)
        for (int month = 1; month <= 12; month++)
            for (int past = 0; past < 2; past++) {
                char date[32], *text = NULL;
                struct kg_error err;
                snprintf(date, sizeof date, "%04d-%02d-%02d", YEARS[i].year, month,
                         LAST[month - 1] + (month == 2) * YEARS[i].leap + past);
                const enum kg_status status =
                    kg_chat_render_with(t, &message, 1, true, &(struct kg_chat_options){ .date = date }, &text, &err);
                ck_assert_msg(status == (past ? KG_ERR_USAGE : KG_OK), "%s: %d", date, (int)status);
                free(text);
            }
    kg_tokenizer_free(t);
}

static void build(struct kg_case_list *list) {
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } OTHERS[] = { { "harmony_prompt_as_ids", harmony_prompt_as_ids },
                   { "harmony_ends", harmony_ends },
                   { "prompt_of_a_message_left_out", prompt_of_a_message_left_out },
                   { "prompt_of_an_empty_message", prompt_of_an_empty_message },
                   { "system_message_alone", system_message_alone },
                   { "marks_that_are_no_literal", marks_that_are_no_literal },
                   { "harmony_date_is_today", harmony_date_is_today },
                   { "days_of_months", days_of_months },
                   { "harmony_without_the_empty_line", harmony_without_the_empty_line } };
    for (size_t i = 0; i < KG_COUNT_OF(RENDERED); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "chat",
                                                  .name = RENDERED[i].name,
                                                  .run = as_jinja_renders,
                                                  .arg = &RENDERED[i] });
    for (size_t i = 0; i < KG_COUNT_OF(BAD_OPTIONS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "chat",
                                                  .name = BAD_OPTIONS[i].name,
                                                  .run = options_are_refused,
                                                  .arg = &BAD_OPTIONS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++)
        kg_case_list_add(
            list, &(struct kg_case){ .layer = "unit", .op = "chat", .name = OTHERS[i].name, .run = OTHERS[i].run });
    for (size_t i = 0; i < KG_COUNT_OF(BAD); i++)
        kg_case_list_add(
            list,
            &(struct kg_case){ .layer = "unit", .op = "chat", .name = BAD[i].name, .run = is_refused, .arg = &BAD[i] });
    kg_case_list_add(
        list,
        &(struct kg_case){ .layer = "unit", .op = "chat", .name = "qwen2_prompt_as_ids", .run = qwen2_prompt_as_ids });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
