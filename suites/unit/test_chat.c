/* Chats rendered as Jinja renders them with the models' own templates. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/unit/vocabulary.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { CHATS_PER_TEMPLATE = 14 };

static json_t *load_chats(void) {
    char *text;
    size_t len;
    struct kg_error err = { 0 };
    ck_assert_msg(kg_file_read(kg_fixture_path("tokenizers/chatml/chats.json"), &text, &len, &err) == KG_OK, "%s",
                  err.message);
    json_t *file = json_loadb(text, len, 0, NULL);
    ck_assert_ptr_nonnull(file);
    free(text);
    return file;
}

static void expect_rendered(const struct kg_tokenizer *t, const json_t *chat) {
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
    ck_assert_msg(kg_chat_render(t, messages, n, prompt, &text, &err) == KG_OK, "%s", err.message);
    ck_assert_str_eq(text, json_string_value(json_object_get(chat, "rendered")));
    free(text);
}

static void as_jinja_renders(struct kg_record *rec, const void *arg) {
    const char *name = arg;
    json_t *file = load_chats(), *chat;
    const struct small_vocabulary v = { .chat_template = json_string_value(
                                            json_object_get(json_object_get(file, "templates"), name)) };
    struct kg_tokenizer *t;
    struct kg_error err = { 0 };
    size_t i, n_checked = 0;
    ck_assert_ptr_nonnull(v.chat_template);
    ck_assert_msg(small_vocabulary_open(rec, &v, &t, &err) == KG_OK, "%s", err.message);
    json_array_foreach(json_object_get(file, "chats"), i, chat) {
        if (strcmp(json_string_value(json_object_get(chat, "template")), name) != 0) continue;
        expect_rendered(t, chat);
        n_checked++;
    }
    ck_assert_uint_eq(n_checked, CHATS_PER_TEMPLATE);
    kg_record_metric(rec, "chats", "count", (double)n_checked);
    kg_tokenizer_free(t);
    json_decref(file);
}

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

static void build(struct kg_case_list *list) {
    static const char *const TEMPLATES[] = { "qwen2.5", "plain", "first" };
    static const char *const NAMES[] = { "qwen2_template", "plain_chatml_template", "default_in_the_loop_template" };
    for (size_t i = 0; i < KG_COUNT_OF(TEMPLATES); i++)
        kg_case_list_add(
            list, &(struct kg_case){
                      .layer = "unit", .op = "chat", .name = NAMES[i], .run = as_jinja_renders, .arg = TEMPLATES[i] });
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
