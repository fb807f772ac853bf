/* The tokenizer against the reference: ids and decoded text of Hugging Face tokenizers, sentencepiece and llama.cpp,
 * line by line. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/support/vocabulary.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *const VOCABULARIES[] = { "qwen2.5", "o200k", "gpt2", "phi3", "small" };

/* As fixtures/tokenizers/make_vectors.py names them; each has this many lines. */
static const char *const CATEGORIES[] = {
    "code",    "contractions",       "white_space", "digits",    "marks",          "unordered_marks", "new_characters",
    "scripts", "control_characters", "emoji",       "long_runs", "special_tokens", "mixtures"
};
enum { LINES_PER_CATEGORY = 25, SMALL_LINES_PER_CATEGORY = 6, PUBLISHED_LINES = 55, STRINGS = 46 };

struct vectors {
    const char *vocabulary;
    const char *file;
    const char *category; /* NULL: every line */
    size_t n_lines;
};

static int32_t *json_ids(const json_t *list, size_t *n) {
    *n = json_array_size(list);
    int32_t *ids = kg_xcalloc(*n + 1, sizeof *ids);
    for (size_t i = 0; i < *n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

/* Published lines found special tokens in their texts. */
static void check_line(const struct kg_tokenizer *t, const json_t *line) {
    const json_t *text = json_object_get(line, "text"), *decoded = json_object_get(line, "decoded");
    const json_t *special = json_object_get(line, "special");
    ck_assert(json_is_string(text) && json_is_string(decoded) && json_is_array(json_object_get(line, "ids")));
    size_t n, len;
    int32_t *ids = json_ids(json_object_get(line, "ids"), &n);
    expect_ids(t, json_string_value(text), json_string_length(text), !special || json_is_true(special), ids, n);
    char *got;
    struct kg_error err = { 0 };
    ck_assert_msg(kg_tokenizer_decode(t, ids, n, true, &got, &len, &err) == KG_OK, "%s", err.message);
    ck_assert_msg(len == json_string_length(decoded) && memcmp(got, json_string_value(decoded), len) == 0,
                  "the ids of '%s' decode to '%s'", json_string_value(text), got);
    free(got);
    free(ids);
}

static void every_line(struct kg_record *rec, const void *arg) {
    const struct vectors *v = arg;
    char *relative = kg_xasprintf("tokenizers/%s/%s", v->vocabulary, v->file);
    json_t *lines = fixture_lines(relative), *line;
    const struct kg_tokenizer *t = published_vocabulary(v->vocabulary);
    size_t i, n_checked = 0;
    json_array_foreach(lines, i, line) {
        const char *category = json_string_value(json_object_get(line, "category"));
        if (v->category && (!category || strcmp(category, v->category) != 0)) continue;
        check_line(t, line);
        n_checked++;
    }
    ck_assert_uint_eq(n_checked, v->n_lines);
    kg_record_metric(rec, "lines", "count", (double)n_checked);
    json_decref(lines);
    free(relative);
}

static void read_fixture(const char *vocabulary, const char *file, char **text, size_t *len) {
    char *relative = kg_xasprintf("tokenizers/%s/%s", vocabulary, file);
    struct kg_error err = { 0 };
    ck_assert_msg(kg_file_read(kg_fixture_path(relative), text, len, &err) == KG_OK, "%s", err.message);
    free(relative);
}

static size_t parse_ids(const char *line, int32_t *ids, size_t n_max) {
    size_t n = 0;
    char *end;
    for (long id = strtol(line, &end, 10); end != line; id = strtol(line, &end, 10)) {
        ck_assert_uint_lt(n, n_max);
        ids[n++] = (int32_t)id;
        line = end;
    }
    return n;
}

/* Strings stand between marks, their ids one line each. */
static void every_string(struct kg_record *rec, const void *arg) {
    static const char MARK[] = "\n__ggml_vocab_test__\n";
    const struct vectors *v = arg;
    const struct kg_tokenizer *t = published_vocabulary(v->vocabulary);
    char *strings, *lines;
    size_t n_strings, n_lines, n_checked = 0;
    read_fixture(v->vocabulary, "strings.inp", &strings, &n_strings);
    read_fixture(v->vocabulary, "strings.out", &lines, &n_lines);
    const char *at = strings;
    for (char *line = lines, *end; *line; line = end + 1, n_checked++) {
        end = strchr(line, '\n');
        ck_assert_ptr_nonnull(end);
        *end = '\0';
        const char *next = strstr(at, MARK);
        const size_t len = next ? (size_t)(next - at) : strlen(at);
        int32_t ids[512];
        expect_ids(t, at, len, false, ids, parse_ids(line, ids, KG_COUNT_OF(ids)));
        if (next) at = next + sizeof MARK - 1;
    }
    ck_assert_str_eq(at, ""); /* nothing stands behind the last mark */
    ck_assert_uint_eq(n_checked, v->n_lines);
    kg_record_metric(rec, "lines", "count", (double)n_checked);
    free(lines);
    free(strings);
}

static void add(struct kg_case_list *list, const char *name_of, const struct vectors *v,
                void (*run)(struct kg_record *, const void *)) {
    const char *short_name = strcmp(v->vocabulary, "qwen2.5") == 0 ? "qwen2" : v->vocabulary;
    char *name = kg_xasprintf("%s_%s", short_name, name_of);
    kg_case_list_add(list, &(struct kg_case){ .layer = "unit", .op = "tokenizer", .name = name, .run = run, .arg = v });
    free(name);
}

static void build(struct kg_case_list *list) {
    static struct vectors hard[KG_COUNT_OF(VOCABULARIES)][KG_COUNT_OF(CATEGORIES)];
    static const struct vectors PUBLISHED[] = { { "qwen2.5", "published.jsonl", NULL, PUBLISHED_LINES },
                                                { "o200k", "published.jsonl", NULL, PUBLISHED_LINES } };
    static const struct vectors STRING_FILES[] = { { "qwen2.5", "strings.inp", NULL, STRINGS },
                                                   { "gpt2", "strings.inp", NULL, STRINGS },
                                                   { "phi3", "strings.inp", NULL, STRINGS } };
    for (size_t i = 0; i < KG_COUNT_OF(PUBLISHED); i++) add(list, "published_vectors", &PUBLISHED[i], every_line);
    for (size_t i = 0; i < KG_COUNT_OF(STRING_FILES); i++)
        add(list, "llama_cpp_strings", &STRING_FILES[i], every_string);
    for (size_t v = 0; v < KG_COUNT_OF(VOCABULARIES); v++)
        for (size_t c = 0; c < KG_COUNT_OF(CATEGORIES); c++) {
            const size_t n = strcmp(VOCABULARIES[v], "small") == 0 ? SMALL_LINES_PER_CATEGORY : LINES_PER_CATEGORY;
            hard[v][c] = (struct vectors){ VOCABULARIES[v], "hard.jsonl", CATEGORIES[c], n };
            add(list, CATEGORIES[c], &hard[v][c], every_line);
        }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
