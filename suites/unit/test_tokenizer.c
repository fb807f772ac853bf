/* The tokenizer's promises apart from its vectors: bad text, special tokens, streaming, round trips, linear time. */
#include "base/buffer.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/support/vocabulary.h"
#include "tokenizer/char_class.h"
#include "tokenizer/normalize.h"
#include "tokenizer/special.h"
#include "base/utf8.h"
#include <check.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEXT(s) (s), sizeof(s) - 1

struct bad_text {
    const char *name;
    const char *text;
    size_t len, offset;
};

static const struct bad_text BAD_TEXTS[] = {
    { "invalid_utf8_lone_continuation", TEXT("ab\x80"), 2 },
    { "invalid_utf8_overlong_two_bytes", TEXT("\xc0\xaf"), 0 },
    { "invalid_utf8_overlong_three_bytes", TEXT("abcdefghij\xe0\x80\xaf"), 10 },
    { "invalid_utf8_surrogate", TEXT("\xe6\x97\xa5\xed\xa0\x80"), 3 },
    { "invalid_utf8_past_the_last_code_point", TEXT("\xf4\x90\x80\x80"), 0 },
    { "invalid_utf8_cut_at_the_end", TEXT("abcdefg\xf0\x9f\x98"), 7 },
    { "invalid_utf8_cut_inside", TEXT("\xe2\x82 x"), 0 },
    { "invalid_utf8_byte_ff_after_nul", TEXT("\0\xff"), 1 },
};

/* The offset is named, and what was in the list before stays as it was. */
static void bad_text(struct kg_record *rec, const void *arg) {
    const struct bad_text *row = arg;
    const struct kg_tokenizer *t = published_vocabulary("gpt2");
    struct kg_ids ids = { 0 };
    struct kg_error err = { 0 };
    char where[64];
    (void)rec;
    kg_ids_push(&ids, 7);
    ck_assert_int_eq(kg_tokenizer_encode(t, row->text, row->len, false, &ids, &err), KG_ERR_FORMAT);
    snprintf(where, sizeof where, "at byte %zu ", row->offset);
    ck_assert_msg(strstr(err.message, where) != NULL, "'%s' does not say '%s'", err.message, where);
    ck_assert_uint_eq(ids.n, 1);
    ck_assert_int_eq(ids.ids[0], 7);
    kg_ids_free(&ids);
}

/* In a long text pieces are remembered: many of one length and beginning, each with the ids it has alone. */
static void remembered_pieces_are_told_apart(struct kg_record *rec, const void *arg) {
    enum { N_PIECES = 6000, PIECE_BYTES = 17 };
    const struct kg_tokenizer *t = published_vocabulary("gpt2");
    struct kg_rng rng;
    struct kg_buffer text = KG_BUFFER_INIT;
    struct kg_ids together = { 0 }, apart = { 0 };
    struct kg_error err;
    (void)arg;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int i = 0; i < N_PIECES; i++) {
        char piece[PIECE_BYTES + 1] = " abcdefghijkl";
        for (int c = 13; c < PIECE_BYTES; c++) piece[c] = (char)('a' + kg_rng_below(&rng, 26));
        kg_buffer_append(&text, piece, PIECE_BYTES);
        ck_assert_msg(kg_tokenizer_encode(t, piece, PIECE_BYTES, false, &apart, &err) == KG_OK, "%s", err.message);
    }
    ck_assert_msg(kg_tokenizer_encode(t, text.data, text.len, false, &together, &err) == KG_OK, "%s", err.message);
    ck_assert_uint_eq(together.n, apart.n);
    for (size_t i = 0; i < apart.n; i++) ck_assert_int_eq(together.ids[i], apart.ids[i]);
    kg_ids_free(&apart);
    kg_ids_free(&together);
    kg_buffer_free(&text);
}

/* What is remembered of a piece has room for few ids: those of more come out as they are alone, each time. */
static void remembered_pieces_of_many_ids(struct kg_record *rec, const void *arg) {
    enum { N_PIECES = 4000, PIECE_BYTES = 20 };
    const struct kg_tokenizer *t = published_vocabulary("gpt2");
    struct kg_rng rng;
    struct kg_buffer text = KG_BUFFER_INIT;
    struct kg_ids together = { 0 }, apart = { 0 };
    struct kg_error err;
    (void)arg;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int i = 0; i < N_PIECES; i++) {
        char piece[PIECE_BYTES] = " ";
        for (int c = 1; c < PIECE_BYTES; c++) piece[c] = "qzxjvkwy"[kg_rng_below(&rng, 8)];
        kg_buffer_append(&text, piece, PIECE_BYTES);
        ck_assert_msg(kg_tokenizer_encode(t, piece, PIECE_BYTES, false, &apart, &err) == KG_OK, "%s", err.message);
    }
    const size_t len = text.len;
    kg_buffer_reserve(&text, len);
    kg_buffer_append(&text, text.data, len);
    ck_assert_msg(kg_tokenizer_encode(t, text.data, text.len, false, &together, &err) == KG_OK, "%s", err.message);
    ck_assert_uint_gt(apart.n, (size_t)N_PIECES * 11);
    ck_assert_uint_eq(together.n, 2 * apart.n);
    for (size_t i = 0; i < together.n; i++) ck_assert_int_eq(together.ids[i], apart.ids[i % apart.n]);
    kg_ids_free(&apart);
    kg_ids_free(&together);
    kg_buffer_free(&text);
}

/* Of all characters: those that Unicode 16 has and 14 has not, each with an older one of its general category. The
 * digest is of Python's unicodedata of both versions: "<code point> <0 Lu, 1 Ll, 2 Lm, 3 Lo, 4 N, 5 M>" a line. */
static void newer_characters_have_their_class(struct kg_record *rec, const void *arg) {
    static const uint32_t OLDER[][2] = { { 0x1e00, 0x10400 }, { 0x1e01, 0x10428 }, { 0x1d2c, 0x16f93 },
                                         { 0x4e00, 0x20000 }, { 0x966, 0x1d7ce },  { 0x900, 0x1d165 } };
    static const char WANT[] = "3b66c991e8c3adc20611a2f371940f265cf8d509d08b19217a7c70f0b4a66046";
    struct kg_buffer lines = KG_BUFFER_INIT, copy = KG_BUFFER_INIT;
    char bytes[KG_UTF8_MAX_BYTES], hex[KG_SHA256_HEX_SIZE];
    (void)rec, (void)arg;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c == 0xd800) c = 0xe000;
        const size_t len = kg_utf8_put(c, bytes);
        if (!kg_char_class_stand_in(bytes, len, &copy)) continue;
        uint32_t other;
        ck_assert_uint_eq(kg_utf8_get(copy.data, &other), len);
        for (size_t i = 0; i < KG_COUNT_OF(OLDER); i++)
            if (other == OLDER[i][len == 4]) kg_buffer_printf(&lines, "%" PRIx32 " %zu\n", c, i);
    }
    kg_sha256_hex(lines.data, lines.len, hex);
    ck_assert_str_eq(hex, WANT);
    kg_buffer_free(&copy);
    kg_buffer_free(&lines);
}

/* Each character between marks that come in the wrong order, "a U+0315 <it> U+0316": it orders them or not, and
 * composes or not, as Hugging Face tokenizers 0.23 normalise it. The digest is of their lines, from U+0300 to U+1FFFF.
 */
static void all_characters_among_marks(struct kg_record *rec, const void *arg) {
    static const char WANT[] = "1694f1a6d32a8de21ff11954bc03c9767c793eda5fc0d977d3a44a12a18bcce2";
    struct kg_buffer lines = KG_BUFFER_INIT;
    char text[] = "a\xcc\x95....\xcc\x96", hex[KG_SHA256_HEX_SIZE];
    struct kg_error err;
    (void)rec, (void)arg;
    for (uint32_t c = 0x300; c < 0x20000; c++) {
        if (c == 0xd800) c = 0xe000;
        const size_t len = 3 + kg_utf8_put(c, text + 3);
        text[len] = '\xcc';
        text[len + 1] = '\x96';
        ck_assert_msg(kg_nfc_append(text, len + 2, &lines, &err) == KG_OK, "U+%04" PRIX32 ": %s", c, err.message);
        kg_buffer_puts(&lines, "\n");
    }
    kg_sha256_hex(lines.data, lines.len, hex);
    ck_assert_str_eq(hex, WANT);
    kg_buffer_free(&lines);
}

/* Unicode's property White_Space, of all characters: 25 of them. */
static void white_space_is_unicodes(struct kg_record *rec, const void *arg) {
    static const uint32_t WHITE[] = { 0x9,    0xa,    0xb,    0xc,    0xd,    0x20,   0x85,   0xa0,   0x1680,
                                      0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                      0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000 };
    size_t n = 0;
    (void)rec, (void)arg;
    for (uint32_t c = 0; c < 0x110000; c++) {
        char bytes[KG_UTF8_MAX_BYTES];
        if (c == 0xd800) c = 0xe000;
        const size_t len = kg_utf8_put(c, bytes);
        const bool want = n < KG_COUNT_OF(WHITE) && c == WHITE[n];
        ck_assert_msg(kg_white_space_span(bytes, len) == (want ? len : 0), "U+%04" PRIX32, c);
        n += want;
    }
    ck_assert_uint_eq(n, KG_COUNT_OF(WHITE));
}

/* A list that was freed is an empty one. */
static void freed_ids_are_none(struct kg_record *rec, const void *arg) {
    struct kg_ids ids = { 0 };
    (void)rec, (void)arg;
    for (int32_t i = 0; i < 2; i++) {
        kg_ids_push(&ids, i);
        ck_assert_uint_eq(ids.n, 1);
        ck_assert_int_eq(ids.ids[0], i);
        kg_ids_free(&ids);
    }
    ck_assert_ptr_null(ids.ids);
}

static void appends_to_the_list(struct kg_record *rec, const void *arg) {
    const struct kg_tokenizer *t = published_vocabulary("gpt2");
    struct kg_ids ids = { 0 };
    (void)rec, (void)arg;
    for (int i = 0; i < 2; i++) ck_assert_int_eq(kg_tokenizer_encode(t, TEXT("Hello"), false, &ids, NULL), KG_OK);
    ck_assert_uint_eq(ids.n, 2);
    ck_assert_int_eq(ids.ids[0], 15496);
    ck_assert_int_eq(ids.ids[1], 15496);
    ck_assert_int_eq(kg_tokenizer_encode(t, NULL, 0, false, &ids, NULL), KG_OK);
    ck_assert_uint_eq(ids.n, 2);
    kg_ids_free(&ids);
}

static void nul_inside(struct kg_record *rec, const void *arg) {
    static const int32_t IDS[] = { 'a', 0, 'b' };
    struct kg_tokenizer *t;
    struct kg_error err = { 0 };
    char *text;
    size_t len;
    (void)arg;
    ck_assert_msg(small_vocabulary_open(rec, &(struct small_vocabulary){ 0 }, &t, &err) == KG_OK, "%s", err.message);
    expect_ids(t, TEXT("a\0b"), false, IDS, 3);
    ck_assert_int_eq(kg_tokenizer_decode(t, IDS, 3, false, &text, &len, NULL), KG_OK);
    ck_assert_uint_eq(len, 3);
    ck_assert_mem_eq(text, "a\0b", 4); /* the one behind the end, too */
    free(text);
    kg_tokenizer_free(t);
}

static const struct small_vocabulary SPECIALS = {
    .extra_tokens = { "<a>", "<a>b", "<a><", "<u>", "[PAD263]" },
    .extra_types = { 3, 3, 3, 4, 5 },
};
enum { A = SMALL_FIRST_EXTRA, AB, A_LT, U, PAD };

struct special_text {
    const char *name, *text;
    bool parse_special;
    int32_t ids[12];
    size_t n;
};

static const struct special_text SPECIAL_TEXTS[] = {
    { "special_longest_match", "<a>b<a>", true, { AB, A }, 2 },
    { "special_leftmost_match", "<a><a>", true, { A_LT, 'a', '>' }, 3 },
    { "special_is_plain_text_unless_asked", "<a>", false, { '<', 'a', '>' }, 3 },
    { "special_user_defined_is_always_found", "x<u>y", false, { 'x', U, 'y' }, 3 },
    { "special_cut_short_is_plain_text", "<u<a", true, { '<', 'u', '<', 'a' }, 4 },
    { "special_unused_is_plain_text", "[PAD", true, { '[', 'P', 'A', 'D' }, 4 },
    { "special_splits_a_word", "he<u>ll", false, { 256, U, 257 }, 3 },
    { "special_unused_whole_is_plain_text", "[PAD263]", true, { '[', 'P', 'A', 'D', '2', '6', '3', ']' }, 8 },
};

static void special_text(struct kg_record *rec, const void *arg) {
    const struct special_text *row = arg;
    struct kg_tokenizer *t;
    struct kg_error err = { 0 };
    ck_assert_msg(small_vocabulary_open(rec, &SPECIALS, &t, &err) == KG_OK, "%s", err.message);
    expect_ids(t, row->text, strlen(row->text), row->parse_special, row->ids, row->n);
    kg_tokenizer_free(t);
}

/* Special and unused tokens are kept or left out; user-defined ones are text. */
static void decoding_leaves_special_out(struct kg_record *rec, const void *arg) {
    static const int32_t IDS[] = { 'x', A, U, PAD, 'y' };
    static const char *const WANT[] = { "x<u>y", "x<a><u>[PAD263]y" };
    struct kg_tokenizer *t;
    struct kg_error err = { 0 };
    (void)arg;
    ck_assert_msg(small_vocabulary_open(rec, &SPECIALS, &t, &err) == KG_OK, "%s", err.message);
    for (int keep = 0; keep < 2; keep++) {
        char *text;
        size_t len;
        ck_assert_int_eq(kg_tokenizer_decode(t, IDS, KG_COUNT_OF(IDS), keep, &text, &len, NULL), KG_OK);
        ck_assert_str_eq(text, WANT[keep]);
        free(text);
    }
    ck_assert_int_eq(kg_tokenizer_find(t, "<a>"), A);
    ck_assert_int_eq(kg_tokenizer_find(t, "hell"), 258);
    ck_assert_int_eq(kg_tokenizer_find(t, " "), ' ');
    ck_assert_int_eq(kg_tokenizer_find(t, "[PAD263]"), PAD);
    ck_assert_int_eq(kg_tokenizer_find(t, "<a"), -1);
    ck_assert_int_eq(kg_tokenizer_find(t, ""), -1);
    ck_assert(kg_tokenizer_is_special(t, A) && !kg_tokenizer_is_special(t, U) && !kg_tokenizer_is_special(t, 'x'));
    kg_tokenizer_free(t);
}

static void id_out_of_range(struct kg_record *rec, const void *arg) {
    static const int32_t BAD[] = { -1, 50257, INT32_MAX, INT32_MIN };
    const struct kg_tokenizer *t = published_vocabulary("gpt2");
    (void)rec, (void)arg;
    ck_assert_uint_eq(kg_tokenizer_n_tokens(t), 50257);
    for (size_t i = 0; i < KG_COUNT_OF(BAD); i++) {
        struct kg_error err = { 0 };
        char *text = NULL, number[16];
        const char *bytes;
        size_t len;
        ck_assert_int_eq(kg_tokenizer_decode(t, &BAD[i], 1, false, &text, &len, &err), KG_ERR_RANGE);
        snprintf(number, sizeof number, "%d", (int)BAD[i]);
        ck_assert_msg(strstr(err.message, number) != NULL, "%s", err.message);
        ck_assert_int_eq(kg_tokenizer_token_bytes(t, BAD[i], true, &bytes, &len, &err), KG_ERR_RANGE);
        ck_assert(!kg_tokenizer_is_special(t, BAD[i]) && !kg_tokenizer_is_end(t, BAD[i]));
    }
}

/* A merge is taken by rank, then leftmost; "llll" has two places for it. */
static void merges_by_rank_then_leftmost(struct kg_record *rec, const void *arg) {
    static const struct small_vocabulary V = { .extra_tokens = { "lh", "lll" }, .extra_merges = { "l h", "ll l" } };
    /* A merge named twice has the later rank, as in the reference: "el" comes before "he" then. */
    static const struct small_vocabulary TWICE = { .extra_tokens = { "el" }, .extra_merges = { "e l", "h e" } };
    static const int32_t H_EL[] = { 'h', 259 };
    static const int32_t HELL[] = { 258, 258 }, LLH[] = { 257, 256, 'l' }, LLL[] = { 260 };
    struct kg_tokenizer *t;
    struct kg_error err = { 0 };
    (void)arg;
    ck_assert_msg(small_vocabulary_open(rec, &V, &t, &err) == KG_OK, "%s", err.message);
    expect_ids(t, TEXT("hellhell"), false, HELL, 2);
    expect_ids(t, TEXT("llhel"), false, LLH, 3); /* "he" before "lh" */
    expect_ids(t, TEXT("lll"), false, LLL, 1);
    kg_tokenizer_free(t);
    ck_assert_msg(small_vocabulary_open(rec, &TWICE, &t, &err) == KG_OK, "%s", err.message);
    expect_ids(t, TEXT("hel"), false, H_EL, 2);
    kg_tokenizer_free(t);
}

/* Pieces longer than the short way takes are merged by another: both must agree at every length around the limit. */
static void long_piece_as_short_pieces(struct kg_record *rec, const void *arg) {
    static const int32_t HELL = 258;
    struct kg_tokenizer *t;
    struct kg_error err = { 0 };
    (void)arg;
    ck_assert_msg(small_vocabulary_open(rec, &(struct small_vocabulary){ 0 }, &t, &err) == KG_OK, "%s", err.message);
    for (size_t n = 1; n <= 40; n++) {
        struct kg_buffer text = KG_BUFFER_INIT;
        int32_t ids[40];
        for (size_t i = 0; i < n; i++) {
            kg_buffer_puts(&text, "hell");
            ids[i] = HELL;
        }
        expect_ids(t, text.data, text.len, false, ids, n);
        kg_buffer_free(&text);
    }
    kg_tokenizer_free(t);
}

/* Rows of Unicode 15's table 3-8 and its neighbours, as bytes and as decoded text. */
static const struct {
    const char *bytes;
    size_t len;
    const char *text;
} BROKEN[] = {
    { TEXT("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"), "a\ufffd\ufffd\ufffdb\ufffdc\ufffd\ufffdd" },
    { TEXT("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"), "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"
                                                    "A" },
    { TEXT("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"), "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"
                                                    "A" },
    { TEXT("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"), "\ufffd\ufffd\ufffd\ufffd\ufffd"
                                                    "A\ufffd\ufffd"
                                                    "B" },
    { TEXT("\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa9"), "\u20ac\U0001f600\u00e9" },
    { TEXT("x\xf0\x9f\x98"), "x\ufffd" },
    { TEXT("\xe2\x82\xe2\x82\xac"), "\ufffd\u20ac" },
};

/* Cut at every two places, streaming gives the text that decoding at once gives, and only whole characters. */
static void stream_split_at_every_byte(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    for (size_t row = 0; row < KG_COUNT_OF(BROKEN); row++)
        for (size_t i = 0; i <= BROKEN[row].len; i++)
            for (size_t j = i; j <= BROKEN[row].len; j++) {
                struct kg_utf8_stream stream = { .n_pending = 0 };
                struct kg_buffer out = KG_BUFFER_INIT;
                const size_t cuts[] = { 0, i, j, BROKEN[row].len };
                for (size_t c = 0; c < 3; c++) {
                    kg_utf8_stream_push(&stream, BROKEN[row].bytes + cuts[c], cuts[c + 1] - cuts[c], &out);
                    ck_assert_uint_eq(kg_utf8_first_error(kg_buffer_text(&out), out.len), out.len);
                }
                kg_utf8_stream_finish(&stream, &out);
                ck_assert_str_eq(kg_buffer_text(&out), BROKEN[row].text);
                kg_buffer_free(&out);
            }
}

static size_t random_text(struct kg_rng *rng, char *text, size_t n_max) {
    static const uint32_t LIMITS[] = { 0x80, 0x300, 0x800, 0x3000, 0x10000, 0x110000 };
    const size_t n_chars = kg_rng_below(rng, n_max / KG_UTF8_MAX_BYTES) + 1;
    const uint32_t limit = LIMITS[kg_rng_below(rng, KG_COUNT_OF(LIMITS))];
    size_t len = 0;
    for (size_t i = 0; i < n_chars; i++) {
        uint32_t c;
        do c = (uint32_t)kg_rng_below(rng, limit);
        while (c >= 0xd800 && c < 0xe000);
        len += kg_utf8_put(c, text + len);
    }
    return len;
}

/* A mark that stands for a space in the vocabulary comes back as a space. */
static void append_spaces(const char *text, size_t len, struct kg_buffer *out) {
    for (size_t at = 0; at < len; at += kg_utf8_length(text[at]))
        if (kg_utf8_length(text[at]) == 3 && memcmp(text + at, "\u2581", 3) == 0) kg_buffer_puts(out, " ");
        else kg_buffer_append(out, text + at, kg_utf8_length(text[at]));
}

/* decode(encode(x)) is x, brought to form C where the vocabulary asks for it; and form C is stable. */
static void round_trip(struct kg_record *rec, const void *arg) {
    enum { N_TEXTS = 2000, MAX_BYTES = 400 };
    const char *name = arg;
    const struct kg_tokenizer *t = published_vocabulary(name);
    const bool nfc = strcmp(name, "qwen2.5") == 0, sentencepiece = strcmp(name, "phi3") == 0;
    struct kg_rng rng;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int i = 0; i < N_TEXTS; i++) {
        char text[MAX_BYTES], *back;
        const size_t len = random_text(&rng, text, sizeof text);
        size_t n_back;
        struct kg_buffer want = KG_BUFFER_INIT;
        struct kg_ids ids = { 0 };
        if (nfc) ck_assert_int_eq(kg_nfc_append(text, len, &want, NULL), KG_OK);
        else if (sentencepiece) append_spaces(text, len, &want);
        else kg_buffer_append(&want, text, len);
        ck_assert_int_eq(kg_tokenizer_encode(t, text, len, false, &ids, NULL), KG_OK);
        ck_assert_int_eq(kg_tokenizer_decode(t, ids.ids, ids.n, true, &back, &n_back, NULL), KG_OK);
        ck_assert_uint_eq(n_back, want.len);
        ck_assert_mem_eq(back, want.data, n_back);
        free(back);
        kg_ids_free(&ids);
        kg_buffer_free(&want);
    }
    kg_record_metric(rec, "texts", "count", N_TEXTS);
}

/* The processor time of this thread alone: a busy machine must not look like quadratic time. */
static uint64_t thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t encode_ns(const struct kg_tokenizer *t, const char *text, size_t len, int n_tries) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < n_tries; i++) {
        struct kg_ids ids = { 0 };
        const uint64_t start = thread_ns();
        ck_assert_int_eq(kg_tokenizer_encode(t, text, len, false, &ids, NULL), KG_OK);
        const uint64_t ns = thread_ns() - start;
        ck_assert_uint_gt(ids.n, 0);
        if (ns < best) best = ns;
        kg_ids_free(&ids);
    }
    return best;
}

/* A long text remembers the pieces it has met: it must give what its lines, too short to remember, give one by one. */
static void long_text_as_its_lines(struct kg_record *rec, const void *arg) {
    enum { N_LINES = 20000, MAX_WORD = 24 };
    const struct kg_tokenizer *t = published_vocabulary("qwen2.5");
    struct kg_buffer text = KG_BUFFER_INIT;
    struct kg_ids whole = { 0 }, lines = { 0 };
    struct kg_rng rng;
    (void)arg;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int i = 0; i < N_LINES; i++) {
        char line[MAX_WORD + 1];
        const size_t n = kg_rng_below(&rng, kg_rng_below(&rng, MAX_WORD) + 1) + 1;
        for (size_t k = 0; k < n; k++) line[k] = "etaoinsh"[kg_rng_below(&rng, 8)];
        line[n] = '\n';
        kg_buffer_append(&text, line, n + 1);
        ck_assert_int_eq(kg_tokenizer_encode(t, line, n + 1, false, &lines, NULL), KG_OK);
    }
    ck_assert_int_eq(kg_tokenizer_encode(t, text.data, text.len, false, &whole, NULL), KG_OK);
    ck_assert_uint_eq(whole.n, lines.n);
    ck_assert_mem_eq(whole.ids, lines.ids, whole.n * sizeof *whole.ids);
    kg_ids_free(&whole);
    kg_ids_free(&lines);
    kg_buffer_free(&text);
}

struct long_text {
    const char *name, *unit; /* NULL: random letters */
};
static const struct long_text LONG_TEXTS[] = {
    { "linear_time_letters", NULL },         { "linear_time_one_letter", "a" },
    { "linear_time_capitals", "A" },         { "linear_time_blanks", " " },
    { "linear_time_line_ends", "\n" },       { "linear_time_blanks_and_line_ends", "         \n" },
    { "linear_time_digits", "1234567890" },  { "linear_time_emoji", "\U0001f600" },
    { "linear_time_marks", "\u0301\u0327" }, { "linear_time_punctuation", "-=" },
};

/* Ten times the text may take at most forty times as long; quadratic time would take a hundred times. */
static void linear_time(struct kg_record *rec, const void *arg) {
    enum { SHORT_BYTES = 50000, LONG_BYTES = 500000, MOST_TIMES = 40 };
    /* The one that normalises; the pattern that backtracks; the one that takes words, however long, whole. */
    static const char *const NAMES[] = { "qwen2.5", "o200k", "phi3" };
    const struct long_text *row = arg;
    const size_t n_unit = row->unit ? strlen(row->unit) : 1;
    char *text = kg_xmalloc(LONG_BYTES + 8);
    struct kg_rng rng;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (size_t at = 0; at < LONG_BYTES; at += n_unit)
        if (row->unit) memcpy(text + at, row->unit, n_unit);
        else text[at] = (char)('a' + kg_rng_below(&rng, 26));
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++) {
        const struct kg_tokenizer *t = published_vocabulary(NAMES[i]);
        const uint64_t short_ns = encode_ns(t, text, SHORT_BYTES / n_unit * n_unit, 3);
        const uint64_t long_ns = encode_ns(t, text, LONG_BYTES / n_unit * n_unit, 1);
        kg_record_metric(rec, NAMES[i], "ns", (double)long_ns);
        ck_assert_msg(long_ns < MOST_TIMES * (short_ns + 1000000), "%s: %llu ns for %d bytes, %llu ns for %d", NAMES[i],
                      (unsigned long long)short_ns, SHORT_BYTES, (unsigned long long)long_ns, LONG_BYTES);
    }
    free(text);
}

static void *encode_often(void *arg) {
    enum { N_TIMES = 200 };
    static const char SAMPLE[] = "threads share one tokenizer, \u00e9\u0301 and \U0001f600, and none waits\n";
    const struct kg_tokenizer *t = arg;
    for (int i = 0; i < N_TIMES; i++) {
        struct kg_ids ids = { 0 };
        char *text = NULL;
        size_t len = 0;
        const bool good = kg_tokenizer_encode(t, TEXT(SAMPLE), true, &ids, NULL) == KG_OK &&
                          kg_tokenizer_decode(t, ids.ids, ids.n, true, &text, &len, NULL) == KG_OK &&
                          strcmp(text, SAMPLE) == 0;
        free(text);
        kg_ids_free(&ids);
        if (!good) return (void *)1;
    }
    return NULL;
}

static void threads_share_one_tokenizer(struct kg_record *rec, const void *arg) {
    pthread_t threads[4];
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(threads); i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, encode_often, published_vocabulary("o200k")), 0);
    for (size_t i = 0; i < KG_COUNT_OF(threads); i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
}

static void add(struct kg_case_list *list, const char *name, void (*run)(struct kg_record *, const void *),
                const void *arg) {
    kg_case_list_add(list,
                     &(struct kg_case){ .layer = "unit", .op = "tokenizer", .name = name, .run = run, .arg = arg });
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(BAD_TEXTS); i++) add(list, BAD_TEXTS[i].name, bad_text, &BAD_TEXTS[i]);
    for (size_t i = 0; i < KG_COUNT_OF(SPECIAL_TEXTS); i++)
        add(list, SPECIAL_TEXTS[i].name, special_text, &SPECIAL_TEXTS[i]);
    for (size_t i = 0; i < KG_COUNT_OF(LONG_TEXTS); i++) add(list, LONG_TEXTS[i].name, linear_time, &LONG_TEXTS[i]);
    add(list, "appends_to_the_list", appends_to_the_list, NULL);
    add(list, "remembered_pieces_are_told_apart", remembered_pieces_are_told_apart, NULL);
    add(list, "remembered_pieces_of_many_ids", remembered_pieces_of_many_ids, NULL);
    add(list, "newer_characters_have_their_class", newer_characters_have_their_class, NULL);
    add(list, "all_characters_among_marks", all_characters_among_marks, NULL);
    add(list, "white_space_is_unicodes", white_space_is_unicodes, NULL);
    add(list, "freed_ids_are_none", freed_ids_are_none, NULL);
    add(list, "nul_inside", nul_inside, NULL);
    add(list, "decoding_leaves_special_out", decoding_leaves_special_out, NULL);
    add(list, "id_out_of_range", id_out_of_range, NULL);
    add(list, "merges_by_rank_then_leftmost", merges_by_rank_then_leftmost, NULL);
    add(list, "long_piece_as_short_pieces", long_piece_as_short_pieces, NULL);
    add(list, "long_text_as_its_lines", long_text_as_its_lines, NULL);
    add(list, "stream_split_at_every_byte", stream_split_at_every_byte, NULL);
    add(list, "round_trip_qwen2", round_trip, "qwen2.5");
    add(list, "round_trip_o200k", round_trip, "o200k");
    add(list, "round_trip_gpt2", round_trip, "gpt2");
    add(list, "round_trip_phi3", round_trip, "phi3");
    add(list, "threads_share_one_tokenizer", threads_share_one_tokenizer, NULL);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
