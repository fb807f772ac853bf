/* Vocabularies as files have them: what loads, and what each contradiction in the metadata is answered with. */
#include "base/size.h"
#include "suites/support/vocabulary.h"
#include <check.h>
#include <string.h>

struct bad_vocabulary {
    const char *name;
    struct small_vocabulary v;
    enum kg_status status;
    const char *says;
};

static const struct bad_vocabulary BAD[] = {
    { "model_missing", { .model = "" }, KG_ERR_FORMAT, "tokenizer.ggml.model" },
    { "model_unknown", { .model = "t5" }, KG_ERR_UNSUPPORTED, "'t5'" },
    { "pre_unknown", { .pre = "brand-new" }, KG_ERR_UNSUPPORTED, "'brand-new'" },
    { "tokens_missing", { .no_tokens = true }, KG_ERR_FORMAT, "tokenizer.ggml.tokens" },
    { "tokens_are_numbers", { .tokens_are_numbers = true }, KG_ERR_FORMAT, "tokenizer.ggml.tokens" },
    { "merges_missing", { .no_merges = true }, KG_ERR_FORMAT, "tokenizer.ggml.merges" },
    { "types_cut_short", { .types_cut_short = true }, KG_ERR_FORMAT, "258 elements for 259 tokens" },
    { "type_unknown", { .extra_tokens = { "x1" }, .extra_types = { 7 } }, KG_ERR_FORMAT, "[259] is 7" },
    { "type_negative", { .extra_tokens = { "x1" }, .extra_types = { -1 } }, KG_ERR_FORMAT, "[259] is -1" },
    { "duplicate_token", { .extra_tokens = { "x1", "hell" } }, KG_ERR_FORMAT, "tokens 258 and 260 are both 'hell'" },
    { "token_not_utf8", { .extra_tokens = { "a\xff" } }, KG_ERR_FORMAT, "token 259 is not valid UTF-8" },
    { "merge_of_unknown_left", { .extra_merges = { "zz e" } }, KG_ERR_FORMAT, "'zz' is no token" },
    { "merge_of_unknown_right", { .extra_merges = { "h zz" } }, KG_ERR_FORMAT, "'zz' is no token" },
    { "merge_into_unknown", { .extra_merges = { "e h" } }, KG_ERR_FORMAT, "'eh' is no token" },
    { "merge_without_blank", { .extra_merges = { "he" } }, KG_ERR_FORMAT, "merges[3] is 'he'" },
    { "merge_without_right", { .extra_merges = { "h " } }, KG_ERR_FORMAT, "merges[3]" },
    { "merge_without_left", { .extra_merges = { " h" } }, KG_ERR_FORMAT, "merges[3]" },
    { "merge_empty", { .extra_merges = { "" } }, KG_ERR_FORMAT, "merges[3]" },
    { "bos_out_of_range", { .id_key = "bos_token_id", .id_value = 259 }, KG_ERR_FORMAT, "bos_token_id is 259" },
    { "eos_out_of_range", { .id_key = "eos_token_id", .id_value = UINT32_MAX }, KG_ERR_FORMAT, "is 4294967295" },
    { "padding_out_of_range", { .id_key = "padding_token_id", .id_value = 300 }, KG_ERR_FORMAT, "is 300" },
    { "unknown_out_of_range", { .id_key = "unknown_token_id", .id_value = 300 }, KG_ERR_FORMAT, "is 300" },
    { "eot_out_of_range", { .id_key = "eot_token_id", .id_value = 300 }, KG_ERR_FORMAT, "is 300" },
    { "adds_bos_without_bos", { .adds_bos = true }, KG_ERR_FORMAT, "no tokenizer.ggml.bos_token_id" },
};

static void is_refused(struct kg_record *rec, const void *arg) {
    const struct bad_vocabulary *row = arg;
    struct kg_tokenizer *t = NULL;
    struct kg_error err = { 0 };
    ck_assert_int_eq(small_vocabulary_open(rec, &row->v, &t, &err), row->status);
    ck_assert_ptr_null(t);
    ck_assert_int_eq(err.status, row->status);
    ck_assert_msg(strstr(err.message, row->says) != NULL, "'%s' does not say '%s'", err.message, row->says);
    ck_assert_msg(strstr(err.message, "small.gguf") != NULL, "'%s' does not name the file", err.message);
}

static struct kg_tokenizer *open_good(struct kg_record *rec, const struct small_vocabulary *v) {
    struct kg_tokenizer *t;
    struct kg_error err = { 0 };
    ck_assert_msg(small_vocabulary_open(rec, v, &t, &err) == KG_OK, "%s", err.message);
    return t;
}

/* Files of the time before tokenizer.ggml.pre and without types: GPT-2's pattern; what ends a text is special. */
static void old_file_without_pre_and_types(struct kg_record *rec, const void *arg) {
    static const struct small_vocabulary V = {
        .pre = "", .no_types = true, .extra_tokens = { "<end>" }, .id_key = "eos_token_id", .id_value = 259
    };
    static const int32_t IDS[] = { 258, 259 };
    struct kg_tokenizer *t = open_good(rec, &V);
    (void)arg;
    expect_ids(t, "hell<end>", 9, true, IDS, 2);
    ck_assert(kg_tokenizer_is_special(t, 259) && kg_tokenizer_is_end(t, 259));
    ck_assert_int_eq(kg_tokenizer_eos(t), 259);
    ck_assert_int_eq(kg_tokenizer_bos(t), -1);
    kg_tokenizer_free(t);
}

static void byte_without_token_fails_only_where_it_stands(struct kg_record *rec, const void *arg) {
    static const struct small_vocabulary V = { .lacks_byte_h = true };
    static const int32_t IDS[] = { 'e', 'l' };
    struct kg_tokenizer *t = open_good(rec, &V);
    struct kg_ids ids = { 0 };
    struct kg_error err = { 0 };
    (void)arg;
    expect_ids(t, "el", 2, false, IDS, 2);
    ck_assert_int_eq(kg_tokenizer_encode(t, "e he", 4, false, &ids, &err), KG_ERR_FORMAT);
    ck_assert_msg(strstr(err.message, "0x68") != NULL, "%s", err.message);
    ck_assert_uint_eq(ids.n, 0);
    kg_ids_free(&ids);
    kg_tokenizer_free(t);
}

static void eot_ends_a_turn(struct kg_record *rec, const void *arg) {
    static const struct small_vocabulary V = {
        .extra_tokens = { "<eot>" }, .extra_types = { 3 }, .id_key = "eot_token_id", .id_value = 259
    };
    struct kg_tokenizer *t = open_good(rec, &V);
    (void)arg;
    ck_assert(kg_tokenizer_is_end(t, 259) && !kg_tokenizer_is_end(t, 258));
    kg_tokenizer_free(t);
}

/* "llh" is a token no merge gives: only kinds that ignore merges take it whole. */
static void whole_piece_where_merges_are_ignored(struct kg_record *rec, const void *arg) {
    static const struct small_vocabulary LLAMA = { .pre = "llama-bpe", .extra_tokens = { "llh" } };
    static const struct small_vocabulary QWEN = { .pre = "qwen2", .extra_tokens = { "llh" } };
    static const int32_t WHOLE[] = { 259 }, MERGED[] = { 257, 'h' }, SPLIT[] = { 257, 'h', 'l' };
    struct kg_tokenizer *t = open_good(rec, &LLAMA);
    (void)arg;
    expect_ids(t, "llh", 3, false, WHOLE, 1);
    expect_ids(t, "llhl", 4, false, SPLIT, 3);
    kg_tokenizer_free(t);
    t = open_good(rec, &QWEN);
    expect_ids(t, "llh", 3, false, MERGED, 2);
    kg_tokenizer_free(t);
}

static void build(struct kg_case_list *list) {
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } GOOD[] = {
        { "old_file_without_pre_and_types", old_file_without_pre_and_types },
        { "byte_without_token_fails_only_where_it_stands", byte_without_token_fails_only_where_it_stands },
        { "eot_ends_a_turn", eot_ends_a_turn },
        { "whole_piece_where_merges_are_ignored", whole_piece_where_merges_are_ignored },
    };
    for (size_t i = 0; i < KG_COUNT_OF(BAD); i++)
        kg_case_list_add(
            list, &(struct kg_case){
                      .layer = "unit", .op = "vocabulary", .name = BAD[i].name, .run = is_refused, .arg = &BAD[i] });
    for (size_t i = 0; i < KG_COUNT_OF(GOOD); i++)
        kg_case_list_add(
            list, &(struct kg_case){ .layer = "unit", .op = "vocabulary", .name = GOOD[i].name, .run = GOOD[i].run });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
