/* kigo convert --vocab-only: what tokenizer.json says in its several forms, and what cannot be said in a GGUF. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "convert/vocab.h"
#include "format/gguf.h"
#include "suites/harness/case.h"
#include "tokenizer/byte_level.h"
#include <kigo/tokenizer.h>
#include "base/utf8.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Texts put into a tokenizer.json whose vocabulary is the 256 bytes, "he", "ll" and "hell". NULL: as a plain file has
 * them; "" leaves the member out. */
struct source {
    const char *type, *vocab_extra, *merges, *model_extra, *normalizer, *pre_tokenizer, *added, *post_processor;
    const char *whole;                             /* instead of all that */
    const char *tokenizer_config, *config, *jinja; /* NULL: no such file */
};

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define QWEN_REGEX                                                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "                                  \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|"                                                                         \
    "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define SPLIT(regex, behavior) SPLIT_OR_NOT(regex, behavior, "false")
#define SPLIT_OR_NOT(regex, behavior, invert)                                                                          \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex                    \
    "\"},\"behavior\":\"" behavior "\",\"invert\":" invert "},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"     \
    "\"use_regex\":false}]}"
#define TEMPLATE(first, last)                                                                                          \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"" first                                  \
    "\"}},{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"" last "\"}}]}"
#define ADDED(id, text, special, more)                                                                                 \
    "{\"id\":" id ",\"content\":\"" text "\",\"special\":" special ",\"lstrip\":false,\"rstrip\":false" more "}"

#define FALLBACK .model_extra = ",\"byte_fallback\":true"
#define SPACES "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}"
/* Of Gemma: behind SPACES it finds nothing. */
#define GEMMA_SPLIT                                                                                                    \
    "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"MergedWithPrevious\",\"invert\":false}"
#define METASPACE(scheme, split)                                                                                       \
    "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"" scheme "\",\"split\":" split "}"

static void member(struct kg_buffer *out, const char *name, const char *value, const char *otherwise) {
    if (!value) value = otherwise;
    if (*value) kg_buffer_printf(out, ",\"%s\":%s", name, value);
}

static void tokenizer_json(const struct source *s, struct kg_buffer *out) {
    kg_buffer_puts(out, "{\"version\":\"1.0\"");
    member(out, "added_tokens", s->added, "[]");
    member(out, "normalizer", s->normalizer, "null");
    member(out, "pre_tokenizer", s->pre_tokenizer, BYTE_LEVEL);
    member(out, "post_processor", s->post_processor, "null");
    kg_buffer_puts(out, ",\"model\":{\"dropout\":null");
    member(out, "type", s->type, "\"BPE\"");
    member(out, "merges", s->merges, "[\"h e\",\"l l\",\"he ll\"]");
    kg_buffer_printf(out, "%s,\"vocab\":{\"he\":256,\"ll\":257,\"hell\":258%s", s->model_extra ? s->model_extra : "",
                     s->vocab_extra ? s->vocab_extra : "");
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[KG_UTF8_MAX_BYTES + 1];
        text[kg_utf8_put(kg_byte_level_code_point((unsigned char)byte), text)] = '\0';
        kg_buffer_printf(out, ",\"%s%s\":%u", byte == '"' || byte == '\\' ? "\\" : "", text, byte);
    }
    kg_buffer_puts(out, "}}}");
}

static void write_file(const char *dir, const char *name, const char *text) {
    if (!text) return;
    char *path = kg_path_join(dir, name);
    struct kg_error err = { 0 };
    ck_assert_msg(kg_file_write(path, text, strlen(text), &err) == KG_OK, "%s", err.message);
    free(path);
}

/* The folder and where the result goes: paths in the case's scratch folder. */
static enum kg_status convert(struct kg_record *rec, const struct source *s, char **out_path,
                              struct kg_vocab_summary *summary, struct kg_error *err) {
    char *dir = kg_path_join(kg_scratch_dir(rec), "hf");
    struct kg_buffer json = KG_BUFFER_INIT;
    ck_assert_int_eq(kg_dir_make(dir, NULL), KG_OK);
    if (s->whole) kg_buffer_puts(&json, s->whole);
    else tokenizer_json(s, &json);
    write_file(dir, "tokenizer.json", json.data);
    write_file(dir, "tokenizer_config.json", s->tokenizer_config);
    write_file(dir, "config.json", s->config);
    write_file(dir, "chat_template.jinja", s->jinja);
    *out_path = kg_path_join(kg_scratch_dir(rec), "out.gguf");
    const enum kg_status status = kg_convert_vocab(dir, *out_path, summary, err);
    kg_buffer_free(&json);
    free(dir);
    return status;
}

struct bad_source {
    const char *name;
    struct source source;
    enum kg_status status;
    const char *says;
};

static const struct bad_source BAD[] = {
    { "not_json", { .whole = "{\"model\":" }, KG_ERR_FORMAT, "line 1" },
    { "not_an_object", { .whole = "[1]" }, KG_ERR_FORMAT, "no JSON object" },
    { "no_model", { .whole = "{}" }, KG_ERR_FORMAT, "no model" },
    { "unigram", { .type = "\"Unigram\"" }, KG_ERR_UNSUPPORTED, "'Unigram'" },
    { "sentencepiece_without_its_spaces", { FALLBACK, .pre_tokenizer = "null" }, KG_ERR_UNSUPPORTED, "it is 'null'" },
    { "sentencepiece_by_bytes", { FALLBACK, .normalizer = SPACES }, KG_ERR_UNSUPPORTED, "the pre_tokenizer must" },
    { "sentencepiece_cuts_at_spaces_that_are_left",
      { FALLBACK, .pre_tokenizer = GEMMA_SPLIT, .normalizer = "null" },
      KG_ERR_UNSUPPORTED,
      "MergedWithPrevious" },
    { "sentencepiece_normalises",
      { FALLBACK, .pre_tokenizer = "null", .normalizer = "{\"type\":\"NFKC\"}" },
      KG_ERR_UNSUPPORTED,
      "NFKC" },
    { "sentencepiece_prefix_by_another_scheme",
      { FALLBACK, .pre_tokenizer = METASPACE("sometimes", "false") },
      KG_ERR_UNSUPPORTED,
      "sometimes" },
    { "sentencepiece_cuts_between_spaces",
      { FALLBACK, .pre_tokenizer = METASPACE("never", "true") },
      KG_ERR_UNSUPPORTED,
      "\"split\":true" },
    { "sentencepiece_without_bytes",
      { FALLBACK, .pre_tokenizer = "null", .normalizer = SPACES },
      KG_ERR_FORMAT,
      "no token '<0x00>'" },
    { "word_suffix", { .model_extra = ",\"end_of_word_suffix\":\"</w>\"" }, KG_ERR_UNSUPPORTED, "end_of_word_suffix" },
    { "sentencepiece_ignores_merges",
      { .model_extra = ",\"byte_fallback\":true,\"ignore_merges\":true" },
      KG_ERR_UNSUPPORTED,
      "ignore_merges" },
    { "no_merges", { .merges = "" }, KG_ERR_FORMAT, "merges" },
    { "merge_of_three", { .merges = "[[\"h\",\"e\",\"l\"]]" }, KG_ERR_FORMAT, "merges[0]" },
    { "merge_of_one", { .merges = "[[\"h\"]]" }, KG_ERR_FORMAT, "merges[0]" },
    { "merge_is_a_number", { .merges = "[7]" }, KG_ERR_FORMAT, "merges[0]" },
    { "merge_of_unknown", { .merges = "[\"h zz\"]" }, KG_ERR_FORMAT, "'zz' is no token" },
    { "id_negative", { .vocab_extra = ",\"x1\":-1" }, KG_ERR_FORMAT, "'x1'" },
    { "id_huge", { .vocab_extra = ",\"x1\":1000000000000" }, KG_ERR_FORMAT, "'x1'" },
    { "id_far_past_the_tokens", { .vocab_extra = ",\"x1\":16777215" }, KG_ERR_FORMAT, "not one of 0 to 65795" },
    { "id_is_text", { .vocab_extra = ",\"x1\":\"5\"" }, KG_ERR_FORMAT, "'x1'" },
    { "two_tokens_one_id", { .vocab_extra = ",\"x1\":258" }, KG_ERR_FORMAT, "id 258" },
    { "one_token_two_ids", { .added = "[" ADDED("300", "hell", "true", "") "]" }, KG_ERR_FORMAT, "'hell'" },
    { "template_of_no_token", { .post_processor = TEMPLATE("zz", "he") }, KG_ERR_FORMAT, "'zz' is no token" },
    { "template_begins_with_another",
      { .post_processor = TEMPLATE("hell", "he"), .config = "{\"bos_token_id\":257}" },
      KG_ERR_UNSUPPORTED,
      "adds token 258, but the bos_token is 257" },
    { "post_processor_unknown",
      { .post_processor = "{\"type\":\"RobertaProcessing\"}" },
      KG_ERR_UNSUPPORTED,
      "'RobertaProcessing'" },
    { "added_no_list", { .added = "{\"id\":259}" }, KG_ERR_FORMAT, "added_tokens is no list" },
    { "added_without_content", { .added = "[{\"id\":259}]" }, KG_ERR_FORMAT, "added_tokens[0]" },
    { "added_strips_blanks",
      { .added = "[{\"id\":259,\"content\":\"<m>\",\"special\":true,\"lstrip\":true}]" },
      KG_ERR_UNSUPPORTED,
      "lstrip" },
    { "normalized_character_of_the_model",
      { FALLBACK, .pre_tokenizer = "null", .normalizer = SPACES,
        .added = "[" ADDED("104", "h", "false", ",\"normalized\":true") "]" },
      KG_ERR_UNSUPPORTED,
      "added token 'h' is normalized" },
    { "pattern_unknown",
      { .pre_tokenizer = SPLIT("\\\\w+|\\\\W", "Isolated") },
      KG_ERR_UNSUPPORTED,
      "pattern '\\w+|\\W'" },
    { "split_merges_with_previous",
      { .pre_tokenizer = SPLIT(QWEN_REGEX, "MergedWithPrevious"), .normalizer = "{\"type\":\"NFC\"}" },
      KG_ERR_UNSUPPORTED,
      "MergedWithPrevious" },
    { "split_removes_its_matches",
      { .pre_tokenizer = SPLIT(QWEN_REGEX, "Removed"), .normalizer = "{\"type\":\"NFC\"}" },
      KG_ERR_UNSUPPORTED,
      "Removed" },
    { "inverted_split_merges_with_previous",
      { .pre_tokenizer = SPLIT_OR_NOT(QWEN_REGEX, "MergedWithPrevious", "true"), .normalizer = "{\"type\":\"NFC\"}" },
      KG_ERR_UNSUPPORTED,
      "MergedWithPrevious" },
    { "pattern_without_its_normalizer", { .pre_tokenizer = SPLIT(QWEN_REGEX, "Isolated") }, KG_ERR_UNSUPPORTED, "NFC" },
    { "normalizer_unknown", { .normalizer = "{\"type\":\"NFKC\"}" }, KG_ERR_UNSUPPORTED, "'NFKC'" },
    { "prefix_space",
      { .pre_tokenizer = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}" },
      KG_ERR_UNSUPPORTED,
      "add_prefix_space" },
    { "no_pre_tokenizer", { .pre_tokenizer = "null" }, KG_ERR_UNSUPPORTED, "without ByteLevel" },
    { "metaspace", { .pre_tokenizer = "{\"type\":\"Metaspace\"}" }, KG_ERR_UNSUPPORTED, "'Metaspace'" },
    { "eos_is_no_token", { .tokenizer_config = "{\"eos_token\":\"<none>\"}" }, KG_ERR_FORMAT, "'<none>'" },
    { "eos_id_out_of_range", { .config = "{\"eos_token_id\":259}" }, KG_ERR_FORMAT, "eos_token_id is 259" },
    { "vocab_size_huge", { .config = "{\"vocab_size\":4000000000}" }, KG_ERR_FORMAT, "vocab_size is 4000000000" },
    { "vocab_size_far_past_the_tokens", { .config = "{\"vocab_size\":16777216}" }, KG_ERR_FORMAT, "is 16777216" },
    { "config_not_json", { .config = "{" }, KG_ERR_FORMAT, "config.json, line 1" },
};

/* A clear error, and neither a result nor a draft is left. */
static void is_refused(struct kg_record *rec, const void *arg) {
    const struct bad_source *row = arg;
    struct kg_vocab_summary summary;
    struct kg_error err = { 0 };
    struct kg_dir_list left;
    char *out;
    ck_assert_int_eq(convert(rec, &row->source, &out, &summary, &err), row->status);
    ck_assert_msg(strstr(err.message, row->says) != NULL, "'%s' does not say '%s'", err.message, row->says);
    ck_assert_int_eq(kg_dir_list(kg_scratch_dir(rec), &left, NULL), KG_OK);
    ck_assert_uint_eq(left.n_names, 1); /* the folder hf */
    kg_dir_list_free(&left);
    free(out);
}

static struct kg_gguf *convert_good(struct kg_record *rec, const struct source *s, struct kg_vocab_summary *summary) {
    struct kg_gguf *g;
    struct kg_error err = { 0 };
    char *out;
    ck_assert_msg(convert(rec, s, &out, summary, &err) == KG_OK, "%s", err.message);
    ck_assert_msg(kg_gguf_open(out, &g, &err) == KG_OK, "%s", err.message);
    free(out);
    return g;
}

static void expect_str(const struct kg_gguf *g, const char *key, const char *want) {
    struct kg_str s;
    struct kg_error err = { 0 };
    ck_assert_msg(kg_gguf_get_str(g, key, &s, &err) == KG_OK, "%s", err.message);
    ck_assert_msg(kg_str_eq(s, want), "%s is '%.*s', not '%s'", key, (int)s.len, s.data, want);
}

static void expect_u32(const struct kg_gguf *g, const char *key, uint32_t want) {
    uint32_t value;
    struct kg_error err = { 0 };
    ck_assert_msg(kg_gguf_get_u32(g, key, &value, &err) == KG_OK, "%s", err.message);
    ck_assert_uint_eq(value, want);
}

/* Every key, from all four files. */
static void all_files(struct kg_record *rec, const void *arg) {
    static const struct source S = {
        .added = "[" ADDED("259", "<end>", "true", "") "," ADDED("261", "<tool>", "false", "") "]",
        .tokenizer_config = "{\"bos_token\":null,\"eos_token\":{\"content\":\"<end>\"},\"pad_token\":\"hell\","
                            "\"add_bos_token\":false,\"model_max_length\":1000000000000000019884624838656,"
                            "\"chat_template\":\"not this one\"}",
        .config = "{\"model_type\":\"gpt_oss\",\"vocab_size\":264,\"bos_token_id\":5}",
        .jinja = "{{ 'this one' }}",
    };
    static const int32_t TYPES[] = { 1, 3, 5, 4, 5, 5 }; /* ids 258 to 263 */
    static const char *const TEXTS[] = { "hell", "<end>", "[PAD260]", "<tool>", "[PAD262]", "[PAD263]" };
    struct kg_vocab_summary summary;
    struct kg_gguf *g = convert_good(rec, &S, &summary);
    const struct kg_gguf_key *tokens, *types;
    bool add_bos = true;
    (void)arg;
    expect_str(g, "general.architecture", "gpt-oss");
    expect_str(g, "tokenizer.ggml.model", "gpt2");
    expect_str(g, "tokenizer.ggml.pre", "gpt-2");
    expect_str(g, "tokenizer.chat_template", "{{ 'this one' }}");
    expect_u32(g, "gpt-oss.vocab_size", 264);
    expect_u32(g, "tokenizer.ggml.eos_token_id", 259);
    expect_u32(g, "tokenizer.ggml.padding_token_id", 258);
    ck_assert_ptr_null(kg_gguf_find_key(g, "tokenizer.ggml.bos_token_id")); /* null outweighs config.json */
    ck_assert_int_eq(kg_gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &add_bos, NULL), KG_OK);
    ck_assert(!add_bos);
    ck_assert_int_eq(kg_gguf_get_array(g, "tokenizer.ggml.tokens", KG_GGUF_STRING, &tokens, NULL), KG_OK);
    ck_assert_int_eq(kg_gguf_get_array(g, "tokenizer.ggml.token_type", KG_GGUF_I32, &types, NULL), KG_OK);
    ck_assert_uint_eq(tokens->value.array.n, 264);
    for (size_t i = 0; i < KG_COUNT_OF(TYPES); i++) {
        ck_assert_int_eq(kg_gguf_array_int(types, 258 + i), TYPES[i]);
        ck_assert(kg_str_eq(tokens->value.array.strings[258 + i], TEXTS[i]));
    }
    ck_assert_uint_eq(summary.n_tokens, 264);
    ck_assert_uint_eq(summary.n_merges, 3);
    ck_assert_uint_eq(summary.n_special, 1);
    ck_assert_uint_eq(summary.n_padding, 3);
    kg_gguf_close(g);
}

/* What a SentencePiece-style file has besides: the fixture make converts. */
static void sentencepiece_keys(struct kg_record *rec, const void *arg) {
    struct kg_gguf *g;
    struct kg_error err = { 0 };
    const struct kg_gguf_key *tokens, *scores, *types, *rstrip;
    bool prefix = false;
    (void)rec, (void)arg;
    ck_assert_msg(kg_gguf_open(kg_built_fixture_path("tokenizers/small/vocab.gguf"), &g, &err) == KG_OK, "%s",
                  err.message);
    expect_str(g, "general.architecture", "llama");
    expect_str(g, "tokenizer.ggml.model", "llama");
    expect_str(g, "tokenizer.ggml.pre", "default");
    expect_u32(g, "tokenizer.ggml.bos_token_id", 1);
    ck_assert_int_eq(kg_gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &prefix, NULL), KG_OK);
    ck_assert(prefix);
    ck_assert_int_eq(kg_gguf_get_array(g, "tokenizer.ggml.tokens", KG_GGUF_STRING, &tokens, NULL), KG_OK);
    ck_assert_int_eq(kg_gguf_get_array(g, "tokenizer.ggml.scores", KG_GGUF_F32, &scores, NULL), KG_OK);
    ck_assert_int_eq(kg_gguf_get_array(g, "tokenizer.ggml.token_type", KG_GGUF_I32, &types, NULL), KG_OK);
    ck_assert_int_eq(kg_gguf_get_array(g, "kigo.tokenizer.rstrip_token_ids", KG_GGUF_I32, &rstrip, NULL), KG_OK);
    const uint64_t n = tokens->value.array.n;
    ck_assert_uint_eq(scores->value.array.n, n);
    ck_assert_uint_eq(rstrip->value.array.n, 1);
    ck_assert_int_eq(kg_gguf_array_int(rstrip, 0), (int64_t)n - 2);
    /* The last two were added, one of them special; the first learned token scores 0, the next -1. */
    ck_assert_int_eq(kg_gguf_array_int(types, n - 2), 3);
    ck_assert_int_eq(kg_gguf_array_int(types, n - 1), 4);
    ck_assert_int_eq(kg_gguf_array_int(types, 3), 6);
    for (uint64_t i = 3 + 256; i < n - 2; i++) {
        const struct kg_str text = tokens->value.array.strings[i];
        const double score = kg_gguf_array_float(scores, i);
        ck_assert_int_eq(kg_gguf_array_int(types, i), 1);
        if (kg_utf8_length(text.data[0]) == text.len) ck_assert(score == -1e9); /* not made by a merge */
        else if (kg_str_eq(text, "//")) ck_assert(score == 0);
        else if (kg_str_eq(text, "\u2581\u2581")) ck_assert(score == -1);
        else ck_assert(score < -1 && score > -1000);
    }
    kg_gguf_close(g);
}

/* The same byte tokens and letters, with the spaces marked in several ways. */
static void sentencepiece_spaces(struct kg_record *rec, const void *arg) {
    static const char *const PRE[] = { "null", GEMMA_SPLIT, METASPACE("never", "false"), METASPACE("always", "false"),
                                       METASPACE("first", "false") };
    static const char SEQUENCE[] = "{\"type\":\"Sequence\",\"normalizers\":[" SPACES "]}";
    static const char *const NORMALIZER[] = { SEQUENCE, SPACES, "null", "null", "null" };
    static const char *const SCHEME[] = { NULL, NULL, NULL, "always", "first" };
    struct kg_buffer bytes = KG_BUFFER_INIT;
    (void)arg;
    for (unsigned b = 0; b < 256; b++) kg_buffer_printf(&bytes, ",\"<0x%02X>\":%u", b, 300 + b);
    for (size_t i = 0; i < KG_COUNT_OF(PRE); i++) {
        const struct source s = {
            .normalizer = NORMALIZER[i], .pre_tokenizer = PRE[i], .vocab_extra = kg_buffer_text(&bytes), FALLBACK
        };
        struct kg_vocab_summary summary;
        struct kg_gguf *g = convert_good(rec, &s, &summary);
        bool prefix = true;
        ck_assert_int_eq(kg_gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &prefix, NULL), KG_OK);
        ck_assert_int_eq(prefix, SCHEME[i] != NULL);
        ck_assert_int_eq(kg_gguf_find_key(g, "kigo.tokenizer.prepend_scheme") != NULL, SCHEME[i] != NULL);
        if (SCHEME[i]) expect_str(g, "kigo.tokenizer.prepend_scheme", SCHEME[i]);
        ck_assert_str_eq(summary.kind, "sentencepiece");
        kg_gguf_close(g);
    }
    kg_buffer_free(&bytes);
}

/* Whatever the order of their ids, the first merge that makes a token scores 0, the next -1; a second way to the same
 * token takes no score. */
static void sentencepiece_scores(struct kg_record *rec, const void *arg) {
    struct kg_buffer extra = KG_BUFFER_INIT;
    (void)arg;
    for (unsigned b = 0; b < 256; b++) kg_buffer_printf(&extra, ",\"<0x%02X>\":%u", b, 300 + b);
    kg_buffer_puts(&extra, ",\"hel\":259,\"el\":260");
    const struct source s = { .pre_tokenizer = METASPACE("never", "false"),
                              .merges = "[\"l l\",\"h e\",\"e l\",\"he l\",\"h el\",\"he ll\"]",
                              .vocab_extra = kg_buffer_text(&extra),
                              FALLBACK };
    static const double HE_LL_HELL_HEL_EL[] = { -1, 0, -4, -3, -2 };
    struct kg_vocab_summary summary;
    struct kg_gguf *g = convert_good(rec, &s, &summary);
    const struct kg_gguf_key *scores;
    ck_assert_int_eq(kg_gguf_get_array(g, "tokenizer.ggml.scores", KG_GGUF_F32, &scores, NULL), KG_OK);
    for (size_t i = 0; i < KG_COUNT_OF(HE_LL_HELL_HEL_EL); i++)
        ck_assert_double_eq(kg_gguf_array_float(scores, 256 + i), HE_LL_HELL_HEL_EL[i]);
    ck_assert_double_eq(kg_gguf_array_float(scores, 'h'), -1e9); /* no merge makes a letter */
    kg_gguf_close(g);
    kg_buffer_free(&extra);
}

/* Only Gemma 3's: of another model such a token is one too many, which convert_hostile has. */
static void image_token_without_a_row(struct kg_record *rec, const void *arg) {
    static const struct source S = { .added = "[" ADDED("258", "hell", "true", "") "," ADDED("259", "<image>", "true",
                                                                                             "") "]",
                                     .config = "{\"model_type\":\"gemma3_text\",\"vocab_size\":259}" };
    struct kg_vocab_summary summary;
    struct kg_gguf *g = convert_good(rec, &S, &summary);
    (void)arg;
    expect_str(g, "general.architecture", "gemma3");
    ck_assert_uint_eq(summary.n_tokens, 259);
    ck_assert_uint_eq(summary.n_special, 1);
    kg_gguf_close(g);
}

static void tokenizer_json_alone(struct kg_record *rec, const void *arg) {
    struct kg_vocab_summary summary;
    struct kg_gguf *g = convert_good(rec, &(struct source){ .type = "" }, &summary);
    (void)arg;
    expect_str(g, "general.architecture", "gpt2");
    ck_assert_ptr_null(kg_gguf_find_key(g, "tokenizer.ggml.eos_token_id"));
    ck_assert_ptr_null(kg_gguf_find_key(g, "tokenizer.chat_template"));
    kg_gguf_close(g);
}

static void ids_from_config(struct kg_record *rec, const void *arg) {
    static const struct source S = { .config = "{\"eos_token_id\":[258,257],\"bos_token_id\":256}" };
    struct kg_vocab_summary summary;
    struct kg_gguf *g = convert_good(rec, &S, &summary);
    (void)arg;
    expect_u32(g, "tokenizer.ggml.eos_token_id", 258);
    expect_u32(g, "tokenizer.ggml.bos_token_id", 256);
    kg_gguf_close(g);
}

static void merges_as_pairs(struct kg_record *rec, const void *arg) {
    static const struct source PAIRS = { .merges = "[[\"h\",\"e\"],[\"l\",\"l\"],[\"he\",\"ll\"]]" };
    static const char *const WANT[] = { "h e", "l l", "he ll" };
    struct kg_vocab_summary summary;
    struct kg_gguf *g = convert_good(rec, &PAIRS, &summary);
    const struct kg_gguf_key *merges;
    (void)arg;
    ck_assert_int_eq(kg_gguf_get_array(g, "tokenizer.ggml.merges", KG_GGUF_STRING, &merges, NULL), KG_OK);
    ck_assert_uint_eq(merges->value.array.n, KG_COUNT_OF(WANT));
    for (size_t i = 0; i < KG_COUNT_OF(WANT); i++) ck_assert(kg_str_eq(merges->value.array.strings[i], WANT[i]));
    kg_gguf_close(g);
}

/* What is between the matches is removed, as "Removed" and "invert" say, or stays by itself: the pattern leaves nothing
 * between. */
static void kind_by_pattern_and_normalizer(struct kg_record *rec, const void *arg) {
    static const char *const PRE[] = { SPLIT(QWEN_REGEX, "Isolated"), SPLIT_OR_NOT(QWEN_REGEX, "Removed", "true") };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(PRE); i++) {
        const struct source s = { .pre_tokenizer = PRE[i],
                                  .normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}]}" };
        struct kg_vocab_summary summary;
        struct kg_gguf *g = convert_good(rec, &s, &summary);
        ck_assert_str_eq(summary.kind, "qwen2");
        expect_str(g, "tokenizer.ggml.pre", "qwen2");
        kg_gguf_close(g);
    }
}

static void default_template_of_a_list(struct kg_record *rec, const void *arg) {
    static const struct source S = { .tokenizer_config = "{\"chat_template\":[{\"name\":\"rag\",\"template\":\"R\"},"
                                                         "{\"name\":\"default\",\"template\":\"D\"}]}" };
    struct kg_vocab_summary summary;
    struct kg_gguf *g = convert_good(rec, &S, &summary);
    (void)arg;
    expect_str(g, "tokenizer.chat_template", "D");
    kg_gguf_close(g);
}

/* Phi-4-mini's byte-level vocabulary has such tokens, as Phi-3's has. */
static void token_takes_blanks_behind(struct kg_record *rec, const void *arg) {
    static const struct source S = { .added = "[{\"id\":259,\"content\":\"<m>\",\"special\":true,\"rstrip\":true}]" };
    static const char TEXT[] = "ll <m> \n\tll";
    static const int32_t WANT[] = { 257, ' ', 259, 257 };
    struct kg_vocab_summary summary;
    struct kg_error err = { 0 };
    struct kg_gguf *g = convert_good(rec, &S, &summary);
    struct kg_tokenizer *t;
    struct kg_ids ids = { 0 };
    (void)arg;
    ck_assert_msg(kg_tokenizer_create(g, &t, &err) == KG_OK, "%s", err.message);
    ck_assert_int_eq(kg_tokenizer_encode(t, TEXT, sizeof TEXT - 1, true, &ids, &err), KG_OK);
    ck_assert_uint_eq(ids.n, KG_COUNT_OF(WANT));
    ck_assert_mem_eq(ids.ids, WANT, sizeof WANT);
    kg_ids_free(&ids);
    kg_tokenizer_free(t);
    kg_gguf_close(g);
}

/* "hello" is a token that no merge makes: taken whole where merges are ignored, though the kind of file does not. */
static void tokens_before_merges(struct kg_record *rec, const void *arg) {
    static const char *const IGNORE[] = { ",\"ignore_merges\":true", ",\"ignore_merges\":false" };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(IGNORE); i++) {
        const struct source s = { .model_extra = IGNORE[i], .vocab_extra = ",\"hello\":259" };
        struct kg_vocab_summary summary;
        struct kg_error err = { 0 };
        struct kg_gguf *g = convert_good(rec, &s, &summary);
        struct kg_tokenizer *t;
        struct kg_ids ids = { 0 };
        ck_assert_msg(kg_tokenizer_create(g, &t, &err) == KG_OK, "%s", err.message);
        ck_assert_int_eq(kg_tokenizer_encode(t, "hello", 5, false, &ids, &err), KG_OK);
        ck_assert_uint_eq(ids.n, i == 0 ? 1 : 2);
        ck_assert_int_eq(ids.ids[0], i == 0 ? 259 : 258);
        kg_ids_free(&ids);
        kg_tokenizer_free(t);
        kg_gguf_close(g);
    }
}

/* What stands before a text by tokenizer.json, else by tokenizer_config.json. */
static void first_and_last_by_template(struct kg_record *rec, const void *arg) {
    /* In one folder: files stay for the rows below. */
    static const struct {
        struct source source;
        int bos, eos; /* whether they are added; -1: no key */
        uint32_t bos_id;
    } ROWS[] = {
        { { .post_processor = TEMPLATE("hell", "he") }, 1, 1, 258 },
        { { .post_processor = "{\"type\":\"Sequence\",\"processors\":[" BYTE_LEVEL "," TEMPLATE("hell", "he") "]}" },
          1,
          1,
          258 },
        { { .post_processor = BYTE_LEVEL, .config = "{\"bos_token_id\":257}" }, 0, 0, 257 },
        { { .config = "{\"bos_token_id\":257}" }, -1, -1, 257 },
        { { .post_processor = TEMPLATE("hell", "he"),
            .tokenizer_config = "{\"add_bos_token\":false,\"bos_token\":\"hell\"}" },
          1,
          1,
          258 },
        { { .post_processor = BYTE_LEVEL, .tokenizer_config = "{\"add_bos_token\":true,\"bos_token\":\"hell\"}" },
          0,
          0,
          258 },
        { { .tokenizer_config = "{\"add_bos_token\":true,\"bos_token\":\"hell\"}" }, 1, -1, 258 },
    };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        struct kg_vocab_summary summary;
        struct kg_gguf *g = convert_good(rec, &ROWS[i].source, &summary);
        static const char *const KEYS[] = { "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token" };
        const int want[] = { ROWS[i].bos, ROWS[i].eos };
        for (size_t k = 0; k < KG_COUNT_OF(KEYS); k++) {
            bool added = false;
            ck_assert_int_eq(kg_gguf_find_key(g, KEYS[k]) != NULL, want[k] >= 0);
            if (want[k] < 0) continue;
            ck_assert_int_eq(kg_gguf_get_bool(g, KEYS[k], &added, NULL), KG_OK);
            ck_assert_int_eq(added, want[k]);
        }
        expect_u32(g, "tokenizer.ggml.bos_token_id", ROWS[i].bos_id);
        kg_gguf_close(g);
    }
}

/* A conversion that fails leaves the file of an earlier one as it was. */
static void failure_keeps_the_old_file(struct kg_record *rec, const void *arg) {
    struct kg_vocab_summary summary;
    struct kg_error err = { 0 };
    char *out;
    (void)arg;
    kg_gguf_close(convert_good(rec, &(struct source){ 0 }, &summary));
    ck_assert_int_eq(convert(rec, &(struct source){ .merges = "[\"h zz\"]" }, &out, &summary, &err), KG_ERR_FORMAT);
    struct kg_gguf *g;
    ck_assert_msg(kg_gguf_open(out, &g, &err) == KG_OK, "%s", err.message);
    kg_gguf_close(g);
    free(out);
}

/* A link of the folder to what never ends is no file of a model. */
static void endless_tokenizer(struct kg_record *rec, const void *arg) {
    struct kg_vocab_summary summary;
    struct kg_error err = { 0 };
    (void)arg;
    char *path = kg_path_join(kg_scratch_dir(rec), "tokenizer.json");
    ck_assert_int_eq(symlink("/dev/zero", path), 0);
    ck_assert_int_eq(kg_convert_vocab(kg_scratch_dir(rec), "/nowhere/out.gguf", &summary, &err), KG_ERR_USAGE);
    ck_assert_msg(strstr(err.message, path) != NULL, "%s", err.message);
    free(path);
}

static void folder_without_tokenizer(struct kg_record *rec, const void *arg) {
    struct kg_vocab_summary summary;
    struct kg_error err = { 0 };
    (void)arg;
    ck_assert_int_eq(kg_convert_vocab(kg_scratch_dir(rec), "/nowhere/out.gguf", &summary, &err), KG_ERR_NOT_FOUND);
    ck_assert_msg(strstr(err.message, "tokenizer.json") != NULL, "%s", err.message);
}

static void build(struct kg_case_list *list) {
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } GOOD[] = {
        { "all_files", all_files },
        { "sentencepiece_keys", sentencepiece_keys },
        { "sentencepiece_spaces", sentencepiece_spaces },
        { "sentencepiece_scores", sentencepiece_scores },
        { "image_token_without_a_row", image_token_without_a_row },
        { "tokenizer_json_alone", tokenizer_json_alone },
        { "ids_from_config", ids_from_config },
        { "merges_as_pairs", merges_as_pairs },
        { "first_and_last_by_template", first_and_last_by_template },
        { "tokens_before_merges", tokens_before_merges },
        { "token_takes_blanks_behind", token_takes_blanks_behind },
        { "kind_by_pattern_and_normalizer", kind_by_pattern_and_normalizer },
        { "default_template_of_a_list", default_template_of_a_list },
        { "failure_keeps_the_old_file", failure_keeps_the_old_file },
        { "folder_without_tokenizer", folder_without_tokenizer },
        { "endless_tokenizer", endless_tokenizer },
    };
    for (size_t i = 0; i < KG_COUNT_OF(BAD); i++)
        kg_case_list_add(
            list, &(struct kg_case){
                      .layer = "unit", .op = "convert", .name = BAD[i].name, .run = is_refused, .arg = &BAD[i] });
    for (size_t i = 0; i < KG_COUNT_OF(GOOD); i++)
        kg_case_list_add(
            list, &(struct kg_case){ .layer = "unit", .op = "convert", .name = GOOD[i].name, .run = GOOD[i].run });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
