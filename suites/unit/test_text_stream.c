/* What a reader is shown of an answer: channels separated, headers hidden, whole characters. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/support/vocabulary.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* What chat_harmony.c knows the format by. */
#define HARMONY                                                                                                        \
    "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: "            \
    "strftime_now( Reasoning: # Valid channels: analysis, commentary, final. Channel must be included for every "      \
    "message. <|start|>developer<|message|> <|start|>user<|message|> <|start|>assistant<|channel|>final<|message|> "   \
    "<|return|>"

static struct kg_tokenizer *open_harmony(struct kg_record *rec, bool marks_are_special) {
    const struct small_vocabulary v = {
        .extra_tokens = { "<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|constrain|>" },
        .extra_types = { 3, 3, marks_are_special ? 3 : 4, 3, 3, 3 },
        .eos_id = SMALL_FIRST_EXTRA + 4,
        .chat_template = HARMONY,
    };
    struct kg_tokenizer *t;
    struct kg_error err = { 0 };
    ck_assert_msg(small_vocabulary_open(rec, &v, &t, &err) == KG_OK, "%s", err.message);
    ck_assert_str_eq(kg_chat_format_name(t), "harmony");
    ck_assert(kg_chat_has_channels(t) == marks_are_special);
    return t;
}

static struct kg_ids encode(const struct kg_tokenizer *t, const char *text) {
    struct kg_ids ids = { 0 };
    ck_assert_int_eq(kg_tokenizer_encode(t, text, strlen(text), true, &ids, NULL), KG_OK);
    return ids;
}

#define ANALYSIS "<|channel|>analysis<|message|>hmm<|end|>"
#define TO_ANSWER "<|start|>assistant"
#define FINAL "<|channel|>final<|message|>"

struct shown {
    const char *name, *prompt, *answer, *shown, *final;
};
static const struct shown SHOWN[] = {
    { "final_alone_is_plain", TO_ANSWER, FINAL "hello", "hello", "hello" },
    { "analysis_then_final", TO_ANSWER, ANALYSIS TO_ANSWER FINAL "hello", "[analysis]\nhmm\n\n[final]\nhello",
      "hello" },
    { "analysis_alone", TO_ANSWER, ANALYSIS, "[analysis]\nhmm", "" },
    { "empty_analysis", TO_ANSWER, "<|channel|>analysis<|message|><|end|>" TO_ANSWER FINAL "x",
      "[analysis]\n\n\n[final]\nx", "x" },
    { "channel_is_the_first_word", TO_ANSWER,
      "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|end|>", "[commentary]\n{}", "" },
    { "two_of_one_channel", TO_ANSWER, ANALYSIS TO_ANSWER ANALYSIS TO_ANSWER FINAL "x",
      "[analysis]\nhmm\n\n[analysis]\nhmm\n\n[final]\nx", "x" },
    { "message_without_a_channel", TO_ANSWER, "<|message|>hello", "hello", "hello" },
    { "header_cut_short", TO_ANSWER, "<|channel|>fin", "", "" },
    { "final_opened_by_the_prompt", TO_ANSWER FINAL, "hello", "hello", "hello" },
    { "channel_opened_by_the_prompt", TO_ANSWER "<|channel|>", "analysis<|message|>hmm", "[analysis]\nhmm", "" },
    { "prompt_of_plain_text", "he", "ll", "ll", "ll" },
    { "past_the_end", TO_ANSWER, FINAL "a<|return|>b", "a", "a" },
    { "message_mark_in_a_body", TO_ANSWER, FINAL "a<|message|>b", "ab", "ab" },
    { "name_too_long", TO_ANSWER, "<|channel|>abcdefghijklmnopqrstuvwxyz<|message|>x", "[abcdefghijklmnopqrstuvw]\nx",
      "" },
    { "name_of_control_characters", TO_ANSWER, "<|channel|>\x1b[31mred\n<|message|>x", "[[31mred]\nx", "" },
};

static void shows(struct kg_record *rec, const void *arg) {
    const struct shown *row = arg;
    struct kg_tokenizer *t = open_harmony(rec, true);
    struct kg_ids prompt = encode(t, row->prompt), ids = encode(t, row->answer);
    for (int final_only = 0; final_only < 2; final_only++) {
        char *text;
        size_t len;
        struct kg_error err = { 0 };
        ck_assert_msg(kg_tokenizer_show(t, prompt.ids, prompt.n, ids.ids, ids.n, final_only, &text, &len, &err) ==
                          KG_OK,
                      "%s", err.message);
        ck_assert_str_eq(text, final_only ? row->final : row->shown);
        ck_assert_uint_eq(len, strlen(text));
        free(text);
    }
    kg_ids_free(&ids);
    kg_ids_free(&prompt);
    kg_tokenizer_free(t);
}

/* A character cut by the end of its message does not join the next one's bytes. */
static void character_cut_by_a_mark(struct kg_record *rec, const void *arg) {
    struct kg_tokenizer *t = open_harmony(rec, true);
    struct kg_ids prompt = encode(t, TO_ANSWER), ids = encode(t, "<|channel|>analysis<|message|>"), rest;
    char *text;
    size_t len;
    (void)arg;
    kg_ids_push(&ids, 0xc3);
    rest = encode(t, "<|end|>" TO_ANSWER FINAL);
    for (size_t i = 0; i < rest.n; i++) kg_ids_push(&ids, rest.ids[i]);
    kg_ids_push(&ids, 0xa9);
    ck_assert_int_eq(kg_tokenizer_show(t, prompt.ids, prompt.n, ids.ids, ids.n, false, &text, &len, NULL), KG_OK);
    ck_assert_str_eq(text, "[analysis]\n\ufffd\n\n[final]\n\ufffd");
    free(text);
    kg_ids_free(&rest);
    kg_ids_free(&ids);
    kg_ids_free(&prompt);
    kg_tokenizer_free(t);
}

/* Without the marks as special tokens, and in other formats, it is what decoding gives. */
static void elsewhere_as_decoded(struct kg_record *rec, const void *arg) {
    static const char TEXT[] = " <|channel|>analysis<|message|>h\u00e9ll<|end|>";
    struct kg_tokenizer *bytes = open_harmony(rec, false);
    const struct kg_tokenizer *tokenizers[] = { bytes, published_vocabulary("phi3"), published_vocabulary("qwen2.5") };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(tokenizers); i++) {
        struct kg_ids ids = encode(tokenizers[i], TEXT);
        char *shown, *decoded;
        size_t n_shown, n_decoded;
        ck_assert(!kg_chat_has_channels(tokenizers[i]));
        ck_assert_int_eq(kg_tokenizer_show(tokenizers[i], ids.ids, 2, ids.ids, ids.n, true, &shown, &n_shown, NULL),
                         KG_OK);
        ck_assert_int_eq(kg_tokenizer_decode(tokenizers[i], ids.ids, ids.n, false, &decoded, &n_decoded, NULL), KG_OK);
        ck_assert_str_eq(shown, decoded);
        ck_assert_uint_eq(n_shown, n_decoded);
        free(decoded);
        free(shown);
        kg_ids_free(&ids);
    }
    kg_tokenizer_free(bytes);
}

static void bad_id_is_named(struct kg_record *rec, const void *arg) {
    const struct kg_tokenizer *t = published_vocabulary("phi3");
    const int32_t bad = 32064;
    struct kg_error err = { 0 };
    char *text = NULL;
    size_t len;
    (void)rec, (void)arg;
    ck_assert_int_eq(kg_tokenizer_show(t, NULL, 0, &bad, 1, false, &text, &len, &err), KG_ERR_RANGE);
    ck_assert_ptr_null(text);
    ck_assert_msg(strstr(err.message, "32064") != NULL, "%s", err.message);
}

static void build(struct kg_case_list *list) {
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } OTHERS[] = { { "character_cut_by_a_mark", character_cut_by_a_mark },
                   { "elsewhere_as_decoded", elsewhere_as_decoded },
                   { "bad_id_is_named", bad_id_is_named } };
    for (size_t i = 0; i < KG_COUNT_OF(SHOWN); i++)
        kg_case_list_add(
            list, &(struct kg_case){
                      .layer = "unit", .op = "text_stream", .name = SHOWN[i].name, .run = shows, .arg = &SHOWN[i] });
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++)
        kg_case_list_add(
            list,
            &(struct kg_case){ .layer = "unit", .op = "text_stream", .name = OTHERS[i].name, .run = OTHERS[i].run });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
