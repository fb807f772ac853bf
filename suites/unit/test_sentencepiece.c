/* SentencePiece-style vocabularies: what merges into what, byte fallback, spaces, and what bad files are answered with.
 */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "engine/prompt.h"
#include "format/gguf.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/support/vocabulary.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "\u2581"
enum { MAX_EXTRA = 12, FIRST_BYTE = 3, FIRST_EXTRA = FIRST_BYTE + 256 };
#define BYTE(b) (FIRST_BYTE + (b))

struct extra {
    const char *text;
    float score;
    int32_t type; /* 0: normal */
};

/* Ids 0 to 2 are "<unk>", "<s>", "</s>", then the byte tokens, then the extra ones. */
struct pieces {
    struct extra extra[MAX_EXTRA];
    const char *merges[4];
    const char *flag_key; /* a bool */
    bool flag;
    int32_t rstrip_id;     /* 0: none */
    int32_t normalised[3]; /* the tokens searched in normalised text; 0: no more */
    int missing_byte;      /* 0: none; the token of that byte is spelled otherwise */
    int32_t byte_type;     /* 0: as it should be */
    int n_scores_less;     /* scores cut short */
    bool no_scores, plain_ends;
    const char *name;   /* general.name */
    const char *scheme; /* kigo.tokenizer.prepend_scheme */
    const char *chat_template;
};

static struct kg_gguf_writer *begin(const struct pieces *p) {
    char spelled[256][8];
    struct kg_str texts[FIRST_EXTRA + MAX_EXTRA] = { { "<unk>", 5 }, { "<s>", 3 }, { "</s>", 4 } };
    int32_t types[FIRST_EXTRA + MAX_EXTRA] = { 2, p->plain_ends ? 1 : 3, p->plain_ends ? 1 : 3 };
    float scores[FIRST_EXTRA + MAX_EXTRA] = { 0 };
    for (int b = 0; b < 256; b++) {
        snprintf(spelled[b], sizeof spelled[b], p->missing_byte == b && b ? "<0x%02x>" : "<0x%02X>", (unsigned)b);
        texts[BYTE(b)] = (struct kg_str){ spelled[b], 6 };
        types[BYTE(b)] = p->byte_type ? p->byte_type : 6;
    }
    size_t n = FIRST_EXTRA;
    for (const struct extra *e = p->extra; e < p->extra + MAX_EXTRA && e->text; e++, n++) {
        texts[n] = (struct kg_str){ e->text, strlen(e->text) };
        types[n] = e->type ? e->type : 1;
        scores[n] = e->score;
    }
    struct kg_gguf_writer *w = kg_gguf_writer_new(32);
    kg_gguf_writer_str(w, "general.architecture", "llama", 5);
    if (p->name) kg_gguf_writer_str(w, "general.name", p->name, strlen(p->name));
    kg_gguf_writer_str(w, "tokenizer.ggml.model", "llama", 5);
    kg_gguf_writer_strings(w, "tokenizer.ggml.tokens", texts, n);
    kg_gguf_writer_i32s(w, "tokenizer.ggml.token_type", types, n);
    if (!p->no_scores) kg_gguf_writer_f32s(w, "tokenizer.ggml.scores", scores, n - (size_t)p->n_scores_less);
    if (p->scheme) kg_gguf_writer_str(w, "kigo.tokenizer.prepend_scheme", p->scheme, strlen(p->scheme));
    if (p->flag_key) kg_gguf_writer_bool(w, p->flag_key, p->flag);
    if (p->chat_template) kg_gguf_writer_str(w, "tokenizer.chat_template", p->chat_template, strlen(p->chat_template));
    if (p->rstrip_id) kg_gguf_writer_i32s(w, "kigo.tokenizer.rstrip_token_ids", &p->rstrip_id, 1);
    size_t n_normalised = 0;
    while (n_normalised < KG_COUNT_OF(p->normalised) && p->normalised[n_normalised]) n_normalised++;
    if (n_normalised > 0) kg_gguf_writer_i32s(w, "kigo.tokenizer.normalized_token_ids", p->normalised, n_normalised);
    struct kg_str merges[KG_COUNT_OF(p->merges)];
    size_t n_merges = 0;
    for (; n_merges < KG_COUNT_OF(p->merges) && p->merges[n_merges]; n_merges++)
        merges[n_merges] = (struct kg_str){ p->merges[n_merges], strlen(p->merges[n_merges]) };
    if (n_merges > 0) kg_gguf_writer_strings(w, "tokenizer.ggml.merges", merges, n_merges);
    return w;
}

static enum kg_status open_pieces(struct kg_record *rec, const struct pieces *p, struct kg_tokenizer **t,
                                  struct kg_error *err) {
    struct kg_gguf_writer *w = begin(p);
    char *path = kg_path_join(kg_scratch_dir(rec), "pieces.gguf");
    ck_assert_msg(kg_gguf_writer_finish(w, path, err) == KG_OK, "%s", err->message);
    kg_gguf_writer_free(w);
    const enum kg_status status = kg_tokenizer_open(path, t, err);
    free(path);
    return status;
}

static struct kg_tokenizer *open_good(struct kg_record *rec, const struct pieces *p) {
    struct kg_tokenizer *t;
    struct kg_error err = { 0 };
    ck_assert_msg(open_pieces(rec, p, &t, &err) == KG_OK, "%s", err.message);
    return t;
}

/* 259 is the first extra token. */
#define NO_PREFIX .flag_key = "tokenizer.ggml.add_space_prefix", .flag = false
#define LETTERS                                                                                                        \
    { MARK, -9, 0 }, { "a", -9, 0 }, { "b", -9, 0 }, {                                                                 \
        "c", -9, 0                                                                                                     \
    }
enum { M = FIRST_EXTRA, LA, LB, LC, X0, X1, X2, X3 };

struct encoded {
    const char *name;
    struct pieces p;
    const char *text;
    int32_t ids[12];
    size_t n;
    const char *decoded; /* NULL: the text */
};

static const struct encoded ENCODED[] = {
    { "higher_score_merges_first",
      { .extra = { LETTERS, { "ab", -2, 0 }, { "bc", -1, 0 } }, NO_PREFIX },
      "abc",
      { LA, X1 },
      2,
      NULL },
    { "leftmost_of_one_token", { .extra = { LETTERS, { "aa", -1, 0 } }, NO_PREFIX }, "aaa", { X0, LA }, 2, NULL },
    { "leftmost_of_equal_scores",
      { .extra = { LETTERS, { "bc", -1, 0 }, { "ab", -1, 0 } }, NO_PREFIX },
      "abc",
      { X1, LC },
      2,
      NULL },
    { "two_ways_to_one_token",
      { .extra = { LETTERS, { "aa", -1, 0 }, { "aab", -2, 0 }, { "ab", -3, 0 } }, NO_PREFIX },
      "aabab",
      { X1, X2 },
      2,
      NULL },
    { "no_token_for_a_character",
      { .extra = { LETTERS }, NO_PREFIX },
      "a\u00e9",
      { LA, BYTE(0xc3), BYTE(0xa9) },
      3,
      NULL },
    { "character_that_only_merges",
      { .extra = { LETTERS, { "a\u00e9", -1, 0 } }, NO_PREFIX },
      "a\u00e9\u00e9",
      { X0, BYTE(0xc3), BYTE(0xa9) },
      3,
      NULL },
    { "line_end_is_a_byte", { .extra = { LETTERS } }, "\n", { M, BYTE('\n') }, 2, NULL },
    { "prefix_joins_the_first_word", { .extra = { LETTERS, { MARK "a", -1, 0 } } }, "a a", { X0, X0 }, 2, NULL },
    { "always_but_before_a_space", { .extra = { LETTERS }, .scheme = "always" }, " a", { M, LA }, 2, "a" },
    { "always_behind_a_token",
      { .extra = { LETTERS, { "<u>", 0, 4 } }, .scheme = "always" },
      "a<u>a",
      { M, LA, X0, M, LA },
      5,
      "a<u> a" },
    { "first_text_alone",
      { .extra = { LETTERS, { "<u>", 0, 4 } }, .scheme = "first" },
      "a<u>a",
      { M, LA, X0, LA },
      4,
      NULL },
    { "first_is_a_token", { .extra = { LETTERS, { "<u>", 0, 4 } }, .scheme = "first" }, "<u>a", { X0, LA }, 2, NULL },
    { "one_prefix_before_normalised",
      { .extra = { LETTERS, { "<u>", 0, 4 } }, .normalised = { X0 } },
      "<u>a <u>b",
      { X0, LA, X0, LB },
      4,
      "<u>a<u>b" },
    { "normalised_has_a_prefix_itself",
      { .extra = { LETTERS, { "<u>", 0, 4 }, { "<", -9, 0 }, { "u>", -9, 0 }, { "u", -9, 0 }, { ">", -9, 0 } },
        .normalised = { X0 } },
      "a<u>",
      { M, LA, X1, X2 },
      4,
      NULL },
    { "first_of_two_normalised_alike",
      { .extra = { LETTERS, { MARK "a", 0, 4 }, { " a", 0, 4 } }, .normalised = { X1, X0 }, NO_PREFIX },
      "a a",
      { LA, X1 },
      2,
      NULL },
    { "written_before_normalised",
      { .extra = { LETTERS, { "ab", 0, 4 }, { "bc", 0, 4 } }, .normalised = { X0 }, NO_PREFIX },
      "abcab",
      { LA, X1, X0 },
      3,
      NULL },
    { "normalised_is_not_merged_into",
      { .extra = { LETTERS, { "d", 0, 4 } }, .normalised = { X0 } },
      "ad d",
      { M, LA, BYTE('d'), X0 },
      4,
      "add" },
    { "never_marks_later",
      { .extra = { LETTERS, { " a", 0, 4 } }, .normalised = { X0 }, .scheme = "never", NO_PREFIX },
      " a" MARK "a",
      { X0, M, LA },
      3,
      " a a" },
    { "prefix_before_a_space",
      { .extra = { LETTERS, { MARK MARK, -1, 0 }, { MARK "a", -2, 0 } } },
      " a",
      { X0, LA },
      2,
      NULL },
    { "no_prefix", { .extra = { LETTERS, { MARK "a", -1, 0 } }, NO_PREFIX }, "a a", { LA, X0 }, 2, NULL },
    { "mark_in_text_is_a_space",
      { .extra = { LETTERS, { MARK "a", -1, 0 } }, NO_PREFIX },
      "b" MARK "a",
      { LB, X0 },
      2,
      "b a" },
    { "space_without_a_token",
      { .extra = { { "a", 0, 0 } }, NO_PREFIX },
      "a a",
      { M, BYTE(0xe2), BYTE(0x96), BYTE(0x81), M },
      5,
      "a" MARK "a" },
    { "token_past_the_end_of_a_word",
      { .extra = { LETTERS, { "a" MARK, -1, 0 }, { "a" MARK "b", -2, 0 } }, NO_PREFIX },
      "ca b",
      { LC, X1 },
      2,
      NULL },
    { "spelled_byte_is_text",
      { .extra = { LETTERS }, NO_PREFIX },
      "<0x0A>",
      { BYTE('<'), BYTE('0'), BYTE('x'), BYTE('0'), BYTE('A'), BYTE('>') },
      6,
      NULL },
    { "never_merged_into_special",
      { .extra = { { "<", 0, 0 }, { "s", 0, 0 }, { ">", 0, 0 }, { "<s", -1, 0 } }, NO_PREFIX },
      "<s>",
      { FIRST_EXTRA + 3, FIRST_EXTRA + 2 },
      2,
      NULL },
    { "never_merged_into_unused", { .extra = { LETTERS, { "ab", -1, 5 } }, NO_PREFIX }, "ab", { LA, LB }, 2, NULL },
    { "user_defined_is_found",
      { .extra = { LETTERS, { "ab", -1, 4 }, { MARK "c", -1, 0 } } },
      "abc",
      { X0, X1 },
      2,
      "ab c" },
    { "merges_come_before_scores",
      { .extra = { LETTERS, { "ab", -1, 0 }, { "bc", -2, 0 } }, .merges = { "b c", "a b" }, NO_PREFIX },
      "abc",
      { LA, X1 },
      2,
      NULL },
    { "only_the_merges_there_are",
      { .extra = { LETTERS, { "ab", -1, 0 }, { "bc", -2, 0 }, { "abc", 0, 0 } }, .merges = { "a b" }, NO_PREFIX },
      "abc",
      { X0, LC },
      2,
      NULL },
};

static void encodes(struct kg_record *rec, const void *arg) {
    const struct encoded *row = arg;
    struct kg_tokenizer *t = open_good(rec, &row->p);
    char *text;
    size_t len;
    expect_ids(t, row->text, strlen(row->text), false, row->ids, row->n);
    ck_assert_int_eq(kg_tokenizer_decode(t, row->ids, row->n, true, &text, &len, NULL), KG_OK);
    ck_assert_str_eq(text, row->decoded ? row->decoded : row->text);
    free(text);
    kg_tokenizer_free(t);
}

struct refused {
    const char *name;
    struct pieces p;
    enum kg_status status;
    const char *says;
};

static const struct refused REFUSED[] = {
    { "scores_missing", { .no_scores = true }, KG_ERR_FORMAT, "no key tokenizer.ggml.scores" },
    { "scores_cut_short", { .n_scores_less = 1 }, KG_ERR_FORMAT, "258 elements for 259 tokens" },
    { "score_not_a_number", { .extra = { { "a", NAN, 0 } } }, KG_ERR_FORMAT, "scores[259] is" },
    { "score_infinite", { .extra = { { "a", INFINITY, 0 } } }, KG_ERR_FORMAT, "scores[259] is inf" },
    { "byte_token_missing", { .missing_byte = 0xab }, KG_ERR_FORMAT, "no token '<0xAB>'" },
    { "byte_token_of_another_type", { .byte_type = 1 }, KG_ERR_FORMAT, "is '<0x00>', but its type is 1" },
    { "duplicate_piece", { .extra = { { "a", 0, 0 }, { "a", 0, 0 } } }, KG_ERR_FORMAT, "are both 'a'" },
    { "unknown_scheme", { .scheme = "middle" }, KG_ERR_FORMAT, "'middle'" },
    { "prefix_is_wanted_collapsing_too",
      { .flag_key = "tokenizer.ggml.remove_extra_whitespaces", .flag = true },
      KG_ERR_UNSUPPORTED,
      "remove_extra_whitespaces" },
    { "rstrip_out_of_range", { .rstrip_id = 259 }, KG_ERR_FORMAT, "rstrip_token_ids[0] is 259" },
    { "rstrip_negative", { .rstrip_id = -1 }, KG_ERR_FORMAT, "rstrip_token_ids[0] is -1" },
    { "normalised_out_of_range", { .normalised = { 1, 259 } }, KG_ERR_FORMAT, "normalized_token_ids[1] is 259 of 259" },
    { "normalised_negative", { .normalised = { -1 } }, KG_ERR_FORMAT, "normalized_token_ids[0] is -1" },
    { "normalised_of_the_model",
      { .extra = { LETTERS }, .normalised = { LA } },
      KG_ERR_FORMAT,
      "normalized_token_ids[0] is 260, no token that is found in text" },
    { "normalised_byte", { .normalised = { BYTE(7) } }, KG_ERR_FORMAT, "is 10, no token that is found in text" },
    { "normalised_twice", { .normalised = { 1, 2, 1 } }, KG_ERR_FORMAT, "[2] is 1, which is listed twice" },
    { "normalised_no_list",
      { .flag_key = "kigo.tokenizer.normalized_token_ids", .flag = true },
      KG_ERR_FORMAT,
      "kigo.tokenizer.normalized_token_ids" },
    { "never_with_a_prefix", { .scheme = "never" }, KG_ERR_FORMAT, "'never' without a prefix" },
    { "adds_eos_without_eos",
      { .plain_ends = true, .flag_key = "tokenizer.ggml.add_eos_token", .flag = true },
      KG_ERR_FORMAT,
      "no tokenizer.ggml.eos_token_id" },
    { "merge_of_no_token", { .extra = { LETTERS }, .merges = { "a zz" } }, KG_ERR_FORMAT, "'zz' is no token" },
};

static void is_refused(struct kg_record *rec, const void *arg) {
    const struct refused *row = arg;
    struct kg_tokenizer *t = NULL;
    struct kg_error err = { 0 };
    ck_assert_int_eq(open_pieces(rec, &row->p, &t, &err), row->status);
    ck_assert_ptr_null(t);
    ck_assert_msg(strstr(err.message, row->says) != NULL, "'%s' does not say '%s'", err.message, row->says);
    ck_assert_msg(strstr(err.message, "pieces.gguf") != NULL, "'%s' does not name the file", err.message);
}

/* A long token is taken apart at every character: the length is bounded, so that loading cannot be made to take hours.
 */
static void token_too_long(struct kg_record *rec, const void *arg) {
    enum { LIMIT = 1024 };
    char text[LIMIT + 2];
    struct pieces p = { .extra = { LETTERS, { text, -1, 0 } } };
    struct kg_tokenizer *t = NULL;
    struct kg_error err = { 0 };
    (void)arg;
    memset(text, 'a', sizeof text);
    text[LIMIT] = '\0';
    kg_tokenizer_free(open_good(rec, &p));
    text[LIMIT] = 'a';
    text[LIMIT + 1] = '\0';
    ck_assert_int_eq(open_pieces(rec, &p, &t, &err), KG_ERR_FORMAT);
    ck_assert_msg(strstr(err.message, "has 1025 bytes") != NULL, "%s", err.message);
}

/* Sentences begin with bos unless the file says otherwise; its ids are the trainer's usual ones. */
static void usual_ids(struct kg_record *rec, const void *arg) {
    static const struct pieces USUAL = { .extra = { LETTERS } };
    static const struct pieces SAYS_NO = { .flag_key = "tokenizer.ggml.add_bos_token", .flag = false };
    static const struct pieces NO_ENDS = { .plain_ends = true };
    struct kg_tokenizer *t = open_good(rec, &USUAL);
    (void)arg;
    ck_assert(kg_tokenizer_bos(t) == 1 && kg_tokenizer_eos(t) == 2);
    ck_assert(kg_tokenizer_adds_bos(t) && !kg_tokenizer_adds_eos(t) && kg_tokenizer_is_end(t, 2));
    ck_assert_int_eq(kg_tokenizer_find(t, "a"), LA);
    ck_assert_int_eq(kg_tokenizer_find(t, " "), M);
    ck_assert_int_eq(kg_tokenizer_find(t, "<s>"), 1);
    kg_tokenizer_free(t);
    t = open_good(rec, &SAYS_NO);
    ck_assert(!kg_tokenizer_adds_bos(t));
    kg_tokenizer_free(t);
    t = open_good(rec, &NO_ENDS);
    ck_assert(kg_tokenizer_bos(t) == -1 && kg_tokenizer_eos(t) == -1 && !kg_tokenizer_adds_bos(t));
    kg_tokenizer_free(t);
}

/* White space behind a token that takes it is gone; what follows begins anew. Files of Phi-3 say so by their name. */
static void white_space_behind(struct kg_record *rec, const void *arg) {
    static const struct pieces OWN_KEY = { .extra = { LETTERS, { "<e>", 0, 3 }, { "<f>", 0, 3 } }, .rstrip_id = X0 };
    static const struct pieces PHI3 = { .extra = { LETTERS, { "<e>", 0, 3 } }, .name = "Haiku-PHI-3" };
    static const struct pieces OTHER = { .extra = { LETTERS, { "<e>", 0, 3 } }, .name = "Haiku" };
    static const struct pieces BLANK = { .extra = { LETTERS, { "<e>", 0, 3 }, { "\n\n", 0, 4 } }, .rstrip_id = X0 };
    static const int32_t BLANKS[] = { X0, X1, M, BYTE('\n'), LA }, NO_BLANKS[] = { X0, M, LA };
    static const int32_t WITHOUT[] = { X0, M, LA, X1, M, BYTE('\n'), LB }, ALONE[] = { X0 };
    static const int32_t BY_NAME[] = { 1, M, M, X0, M, LA }, KEPT[] = { X0, M, BYTE('\n'), LA };
    struct kg_tokenizer *t = open_good(rec, &OWN_KEY);
    (void)arg;
    expect_ids(t, "<e> \n\u3000a<f>\nb", 14, true, WITHOUT, KG_COUNT_OF(WITHOUT));
    expect_ids(t, "<e>\n\n", 5, true, ALONE, 1);
    kg_tokenizer_free(t);
    t = open_good(rec, &BLANK); /* a token of white space there is found all the same, and is where the rest begins */
    expect_ids(t, "<e>\n\n\na", 7, true, BLANKS, KG_COUNT_OF(BLANKS));
    expect_ids(t, "<e>\na", 5, true, NO_BLANKS, KG_COUNT_OF(NO_BLANKS));
    kg_tokenizer_free(t);
    t = open_good(rec, &PHI3);
    expect_ids(t, "<s> <e>\na", 9, true, BY_NAME, KG_COUNT_OF(BY_NAME));
    kg_tokenizer_free(t);
    t = open_good(rec, &OTHER);
    expect_ids(t, "<e>\na", 5, true, KEPT, KG_COUNT_OF(KEPT));
    kg_tokenizer_free(t);
}

/* One space is taken from the beginning, whatever token has it; hidden tokens do not count, shown ones do. */
static void decoding_takes_one_space(struct kg_record *rec, const void *arg) {
    static const struct pieces P = { .extra = { LETTERS, { MARK MARK, -1, 0 } } };
    static const int32_t IDS[] = { 1, X0, LA, M, LB };
    static const int32_t BYTE_FIRST[] = { BYTE(' '), LA };
    static const struct {
        const int32_t *ids;
        size_t n;
        bool keep;
        const char *text;
    } ROWS[] = {
        { IDS, 5, false, " a b" }, { IDS, 5, true, "<s>  a b" }, { BYTE_FIRST, 2, false, "a" }, { IDS, 0, false, "" }
    };
    struct kg_tokenizer *t = open_good(rec, &P);
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char *text;
        size_t len;
        ck_assert_int_eq(kg_tokenizer_decode(t, ROWS[i].ids, ROWS[i].n, ROWS[i].keep, &text, &len, NULL), KG_OK);
        ck_assert_str_eq(text, ROWS[i].text);
        free(text);
    }
    kg_tokenizer_free(t);
}

/* Text that goes on has no space before it; behind a special token it begins all the same. */
static void inside_a_text(struct kg_record *rec, const void *arg) {
    static const struct pieces P = { .extra = { LETTERS } };
    static const int32_t WANT[] = { LA, 1, M, LB };
    struct kg_tokenizer *t = open_good(rec, &P);
    struct kg_ids ids = { 0 };
    (void)arg;
    ck_assert_int_eq(kg_tokenizer_encode_inside(t, "a<s>b", 5, true, &ids, NULL), KG_OK);
    ck_assert_uint_eq(ids.n, KG_COUNT_OF(WANT));
    ck_assert_mem_eq(ids.ids, WANT, sizeof WANT);
    kg_ids_free(&ids);
    kg_tokenizer_free(t);
}

/* A character's byte tokens come one by one: nothing is shown until it is whole. */
static void bytes_stream_as_characters(struct kg_record *rec, const void *arg) {
    static const struct pieces P = { .extra = { LETTERS } };
    static const char TEXT[] = "a\U0001f600b\u00e9";
    static const size_t N_SHOWN[] = { 1, 2, 2, 2, 2, 6, 7, 7, 9 }; /* bytes after each token; the first is the prefix */
    struct kg_tokenizer *t = open_good(rec, &P);
    struct kg_utf8_stream stream = { .n_pending = 0 };
    struct kg_buffer out = KG_BUFFER_INIT;
    struct kg_ids ids = { 0 };
    (void)arg;
    ck_assert_int_eq(kg_tokenizer_encode(t, TEXT, sizeof TEXT - 1, false, &ids, NULL), KG_OK);
    ck_assert_uint_eq(ids.n, KG_COUNT_OF(N_SHOWN));
    for (size_t i = 0; i < ids.n; i++) {
        const char *bytes;
        size_t len;
        ck_assert_int_eq(kg_tokenizer_token_bytes(t, ids.ids[i], false, &bytes, &len, NULL), KG_OK);
        kg_utf8_stream_push(&stream, bytes, len, &out);
        ck_assert_uint_eq(out.len, N_SHOWN[i]);
    }
    ck_assert_str_eq(kg_buffer_text(&out) + 1, TEXT);
    kg_ids_free(&ids);
    kg_buffer_free(&out);
    kg_tokenizer_free(t);
}

/* A chat whose message spells a special token is encoded piece by piece: the message's text begins anew, with a space
 * before it, at the very start and behind a special token, and continues whatever other id is there. */
static void message_begins_behind_special_tokens(struct kg_record *rec, const void *arg) {
#define PHI3_FIRST                                                                                                     \
    "{{'<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>' + '\n'}}"                           \
    "{{message['content'] + '<|end|>' + '\n'}}"
    static const struct {
        const char *chat_template;
        size_t n_before; /* ids of text before the chat */
        int32_t ids[4];
    } ROWS[] = {
        { PHI3_FIRST, 0, { 1, M, LA } },
        { PHI3_FIRST, 1, { LB, 1, LA } },
        { PHI3_FIRST "{{ bos_token }}", 1, { LB, 1, M, LA } },
    };
    static const struct kg_chat_message MESSAGE = { "assistant", "a<|end|>" };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        const struct pieces p = { .extra = { LETTERS, { "<|end|>", 0, 3 } }, .chat_template = ROWS[i].chat_template };
        struct kg_tokenizer *t = open_good(rec, &p);
        struct kg_ids ids = { 0 };
        struct kg_error err;
        char *rendered;
        if (ROWS[i].n_before > 0) kg_ids_push(&ids, LB);
        kg_must(kg_prompt_encode_chat(t, &MESSAGE, 1, &rendered, &ids, &err), &err);
        for (size_t k = 0; k < KG_COUNT_OF(ROWS[i].ids) && ROWS[i].ids[k]; k++)
            ck_assert_msg(ids.ids[k] == ROWS[i].ids[k], "row %zu: ids[%zu] is %d", i, k, ids.ids[k]);
        free(rendered);
        kg_ids_free(&ids);
        kg_tokenizer_free(t);
    }
}

static void build(struct kg_case_list *list) {
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } OTHERS[] = {
        { "token_too_long", token_too_long },
        { "usual_ids", usual_ids },
        { "white_space_behind", white_space_behind },
        { "decoding_takes_one_space", decoding_takes_one_space },
        { "inside_a_text", inside_a_text },
        { "bytes_stream_as_characters", bytes_stream_as_characters },
        { "message_begins_behind_special_tokens", message_begins_behind_special_tokens },
    };
    for (size_t i = 0; i < KG_COUNT_OF(ENCODED); i++)
        kg_case_list_add(
            list,
            &(struct kg_case){
                .layer = "unit", .op = "sentencepiece", .name = ENCODED[i].name, .run = encodes, .arg = &ENCODED[i] });
    for (size_t i = 0; i < KG_COUNT_OF(REFUSED); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "sentencepiece",
                                                  .name = REFUSED[i].name,
                                                  .run = is_refused,
                                                  .arg = &REFUSED[i] });
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++)
        kg_case_list_add(
            list,
            &(struct kg_case){ .layer = "unit", .op = "sentencepiece", .name = OTHERS[i].name, .run = OTHERS[i].run });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
