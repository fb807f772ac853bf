/* Added tokens of a tokenizer.json, found in text as written or as normalised: what is converted, and the ids of
 * Hugging Face tokenizers. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "convert/vocab.h"
#include "format/gguf.h"
#include "suites/support/vocabulary.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define NORMALIZED_KEY "kigo.tokenizer.normalized_token_ids"
#define SCHEME_KEY "kigo.tokenizer.prepend_scheme"

/* As fixtures/tokenizers/make_added.py names them; each has this many lines. */
static const char *const TOKENIZERS[] = { "prepend", "prepend_all", "replace", "always", "first",
                                          "never",   "nfc",         "plain",   "blanks", "plain_blanks" };
enum { LINES = 24 };

static json_t *load_json(const char *relative) {
    json_error_t why;
    json_t *file = json_load_file(kg_fixture_path(relative), JSON_ALLOW_NUL, &why);
    ck_assert_msg(file != NULL, "%s, line %d: %s", relative, why.line, why.text);
    return file;
}

/* The tokenizer.json the row speaks of: its base, changed. */
static json_t *changed_base(const json_t *row) {
    const char *base = json_string_value(json_object_get(row, "base"));
    const bool small = base && strcmp(base, "small") == 0;
    json_t *file = load_json(small ? "tokenizers/small/tokenizer.json" : "haiku-qwen2/tokenizer.json");
    ck_assert_int_eq(json_object_update(file, json_object_get(row, "changes")), 0);
    return file;
}

static struct kg_gguf *convert(struct kg_record *rec, const json_t *file) {
    char *dir = kg_path_join(kg_scratch_dir(rec), "hf"), *json = kg_path_join(dir, "tokenizer.json");
    char *out = kg_path_join(kg_scratch_dir(rec), "vocab.gguf");
    struct kg_vocab_summary summary;
    struct kg_error err = { 0 };
    struct kg_gguf *g;
    ck_assert_int_eq(kg_dir_make(dir, NULL), KG_OK);
    ck_assert_int_eq(json_dump_file(file, json, JSON_COMPACT), 0);
    ck_assert_msg(kg_convert_vocab(dir, out, &summary, &err) == KG_OK, "%s", err.message);
    ck_assert_msg(kg_gguf_open(out, &g, &err) == KG_OK, "%s", err.message);
    free(out);
    free(json);
    free(dir);
    return g;
}

static void check_line(const struct kg_tokenizer *t, const json_t *line) {
    const json_t *text = json_object_get(line, "text"), *list = json_object_get(line, "ids");
    int32_t ids[256];
    const size_t n = json_array_size(list);
    ck_assert(json_is_string(text) && n > 0 && n <= KG_COUNT_OF(ids));
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    expect_ids(t, json_string_value(text), json_string_length(text), json_is_true(json_object_get(line, "special")),
               ids, n);
}

static void every_line(struct kg_record *rec, const void *arg) {
    const char *name = arg;
    json_t *all = load_json("tokenizers/added/vectors.json"), *row, *line;
    size_t i, k, n_checked = 0;
    json_array_foreach(json_object_get(all, "tokenizers"), i, row) {
        if (strcmp(json_string_value(json_object_get(row, "name")), name) != 0) continue;
        json_t *file = changed_base(row);
        struct kg_gguf *g = convert(rec, file);
        struct kg_tokenizer *t;
        struct kg_error err = { 0 };
        ck_assert_msg(kg_tokenizer_create(g, &t, &err) == KG_OK, "%s", err.message);
        json_array_foreach(json_object_get(row, "lines"), k, line) {
            check_line(t, line);
            n_checked++;
        }
        kg_tokenizer_free(t);
        kg_gguf_close(g);
        json_decref(file);
    }
    ck_assert_uint_eq(n_checked, LINES);
    kg_record_metric(rec, "lines", "count", (double)n_checked);
    json_decref(all);
}

/* Files without such tokens, or where one search finds the same, are as other converters write them. */
static void key_only_where_it_matters(struct kg_record *rec, const void *arg) {
#define TOKEN(id, text, normalized)                                                                                    \
    "{\"id\":" id ",\"content\":\"" text "\",\"special\":false,\"normalized\":" normalized "}"
#define PREPEND "{\"type\":\"Prepend\",\"prepend\":\"\u2581\"}"
#define MARKS "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}"
#define NEVER "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"never\",\"split\":false}"
    static const struct {
        const char *changes; /* of small's tokenizer.json */
        size_t n;            /* ids in the key; 0: no key */
        const char *scheme;
    } ROWS[] = {
        { "{}", 0, NULL },
        { "{\"added_tokens\":[" TOKEN("900", "<a>", "false") "]}", 0, NULL },
        { "{\"added_tokens\":[" TOKEN("900", "<a>", "true") "," TOKEN("901", "<b>", "false") "]}", 1, NULL },
        { "{\"added_tokens\":[" TOKEN("900", "<a>", "true") "],\"normalizer\":" MARKS "}", 1, NULL },
        { "{\"added_tokens\":[" TOKEN("900", "<a>", "true") "],\"normalizer\":null,\"pre_tokenizer\":" NEVER "}", 0,
          NULL },
        { "{\"added_tokens\":[" TOKEN("900", "<a>", "true") "," TOKEN(
              "901", "<b>", "false") "],\"normalizer\":null,\"pre_tokenizer\":" NEVER "}",
          1, "never" },
    };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        json_t *file = load_json("tokenizers/small/tokenizer.json"), *changes = json_loads(ROWS[i].changes, 0, NULL);
        ck_assert_int_eq(json_object_update(file, changes), 0);
        struct kg_gguf *g = convert(rec, file);
        const struct kg_gguf_key *ids;
        struct kg_str scheme;
        ck_assert_int_eq(kg_gguf_find_key(g, NORMALIZED_KEY) != NULL, ROWS[i].n > 0);
        ck_assert_int_eq(kg_gguf_find_key(g, SCHEME_KEY) != NULL, ROWS[i].scheme != NULL);
        if (ROWS[i].n > 0) {
            ck_assert_int_eq(kg_gguf_get_array(g, NORMALIZED_KEY, KG_GGUF_I32, &ids, NULL), KG_OK);
            ck_assert_uint_eq(ids->value.array.n, ROWS[i].n);
            ck_assert_int_eq(kg_gguf_array_int(ids, 0), 900);
        }
        if (ROWS[i].scheme) {
            ck_assert_int_eq(kg_gguf_get_str(g, SCHEME_KEY, &scheme, NULL), KG_OK);
            ck_assert(kg_str_eq(scheme, ROWS[i].scheme));
        }
        kg_gguf_close(g);
        json_decref(changes);
        json_decref(file);
    }
}

static void build(struct kg_case_list *list) {
    kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                              .op = "added_tokens",
                                              .name = "key_only_where_it_matters",
                                              .run = key_only_where_it_matters });
    for (size_t i = 0; i < KG_COUNT_OF(TOKENIZERS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "added_tokens",
                                                  .name = TOKENIZERS[i],
                                                  .run = every_line,
                                                  .arg = TOKENIZERS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
