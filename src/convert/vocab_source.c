#include "convert/vocab_source.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/utf8.h"
#include "convert/hf_folder.h"
#include "tokenizer/tokenizer.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Ids without a token are padded, and a file must not make kigo allocate by a number it made up. Published vocabularies
 * leave out about 1,000 (gpt-oss: 1,070 of 201,088). */
enum { MAX_UNNAMED = 1 << 16 };

#define QUOTE(string) kg_quote(string, strlen(string)).text

static enum kg_status load_files(struct kg_vocab_source *s, struct kg_error *err) {
    enum kg_status status = kg_hf_json_load(s->dir, "tokenizer.json", 0, &s->tokenizer, err);
    if (status == KG_OK && !s->tokenizer) status = kg_fail(err, KG_ERR_NOT_FOUND, "no tokenizer.json in '%s'", s->dir);
    /* Integers past 64 bits stand in tokenizer_config.json (model_max_length); none of it is needed as an integer. */
    if (status == KG_OK)
        status = kg_hf_json_load(s->dir, "tokenizer_config.json", JSON_DECODE_INT_AS_REAL, &s->tokenizer_config, err);
    if (status == KG_OK) status = kg_hf_json_load(s->dir, "config.json", 0, &s->config, err);
    if (status != KG_OK) return status;
    char *path = kg_path_join(s->dir, "chat_template.jinja");
    if (kg_path_exists(path)) status = kg_file_read_regular(path, &s->chat_template_file, &s->chat_template_len, err);
    free(path);
    return status;
}

/* Gemma 3's tokenizer.json has a token for places of an image behind those that its text models have rows for. */
static void drop_image_tokens(struct kg_vocab_source *s) {
    const char *type = json_string_value(json_object_get(s->config, "model_type"));
    const json_t *vocab_size = json_object_get(s->config, "vocab_size");
    json_t *added = json_object_get(s->tokenizer, "added_tokens");
    if (!type || strcmp(type, "gemma3_text") != 0 || !json_is_integer(vocab_size)) return;
    for (size_t i = json_array_size(added); i-- > 0;) {
        const json_t *id = json_object_get(json_array_get(added, i), "id");
        if (json_is_integer(id) && json_integer_value(id) >= json_integer_value(vocab_size))
            json_array_remove(added, i);
    }
}

static bool is_empty(const json_t *value) {
    return !value || json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_number(value) && json_number_value(value) == 0);
}

/* SentencePiece-style files are BPE too, with byte_fallback. */
static enum kg_status check_model(struct kg_vocab_source *s, struct kg_error *err) {
    static const char *const MUST_BE_EMPTY[] = { "dropout", "continuing_subword_prefix", "end_of_word_suffix", NULL };
    const json_t *model = json_object_get(s->tokenizer, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!json_is_object(model)) return kg_fail(err, KG_ERR_FORMAT, "%s/tokenizer.json has no model", s->dir);
    if (type && strcmp(type, "BPE") != 0)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "%s/tokenizer.json: the model is '%s'; kigo converts BPE", s->dir,
                       type);
    for (const char *const *name = MUST_BE_EMPTY; *name; name++)
        if (!is_empty(json_object_get(model, *name)))
            return kg_fail(err, KG_ERR_UNSUPPORTED, "%s/tokenizer.json: the model's %s is not empty", s->dir, *name);
    if (!json_is_object(json_object_get(model, "vocab")) || !json_is_array(json_object_get(model, "merges")))
        return kg_fail(err, KG_ERR_FORMAT, "%s/tokenizer.json: the model lacks its vocab or merges", s->dir);
    s->sentencepiece = json_is_true(json_object_get(model, "byte_fallback"));
    s->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    if (s->sentencepiece && s->ignore_merges)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "%s/tokenizer.json: the model has ignore_merges beside byte_fallback",
                       s->dir);
    return KG_OK;
}

/* Ids a vocabulary of so many tokens may have. */
static size_t most_ids(const struct kg_vocab_source *s) {
    return json_object_size(json_object_get(json_object_get(s->tokenizer, "model"), "vocab")) +
           json_array_size(json_object_get(s->tokenizer, "added_tokens")) + MAX_UNNAMED;
}

static enum kg_status id_of(const struct kg_vocab_source *s, const json_t *value, const char *text, size_t *id,
                            struct kg_error *err) {
    const json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;
    const size_t most = most_ids(s);
    if (n < 0 || (uint64_t)n >= most)
        return kg_fail(err, KG_ERR_FORMAT,
                       "%s/tokenizer.json: the id of '%s' is not one of 0 to %zu (the file's tokens and %d ids without "
                       "one)",
                       s->dir, QUOTE(text), most - 1, MAX_UNNAMED);
    *id = (size_t)n;
    return KG_OK;
}

static struct kg_str json_text(const json_t *string) {
    return (struct kg_str){ json_string_value(string), json_string_length(string) };
}

/* n_tokens: one past the largest id, or config.json's vocab_size if that is more. */
static enum kg_status count_tokens(struct kg_vocab_source *s, struct kg_error *err) {
    json_t *vocab = json_object_get(json_object_get(s->tokenizer, "model"), "vocab"), *value;
    const char *key;
    size_t id, i;
    json_object_foreach(vocab, key, value) {
        const enum kg_status status = id_of(s, value, key, &id, err);
        if (status != KG_OK) return status;
        if (id >= s->n_tokens) s->n_tokens = id + 1;
    }
    const json_t *added = json_object_get(s->tokenizer, "added_tokens");
    if (added && !json_is_null(added) && !json_is_array(added))
        return kg_fail(err, KG_ERR_FORMAT, "%s/tokenizer.json: added_tokens is no list", s->dir);
    json_array_foreach(added, i, value) {
        const char *content = json_string_value(json_object_get(value, "content"));
        if (!content)
            return kg_fail(err, KG_ERR_FORMAT, "%s/tokenizer.json: added_tokens[%zu] has no content", s->dir, i);
        const enum kg_status status = id_of(s, json_object_get(value, "id"), content, &id, err);
        if (status != KG_OK) return status;
        if (id >= s->n_tokens) s->n_tokens = id + 1;
    }
    const json_t *vocab_size = json_object_get(s->config, "vocab_size");
    if (json_is_integer(vocab_size)) {
        const json_int_t n = json_integer_value(vocab_size);
        if (n > (json_int_t)most_ids(s))
            return kg_fail(err, KG_ERR_FORMAT,
                           "%s/config.json: vocab_size is %" JSON_INTEGER_FORMAT
                           ", more than tokenizer.json's tokens and %d ids without one",
                           s->dir, n, MAX_UNNAMED);
        if (n > 0 && (size_t)n > s->n_tokens) s->n_tokens = (size_t)n;
    }
    if (s->n_tokens > 0) return KG_OK;
    return kg_fail(err, KG_ERR_FORMAT, "%s/tokenizer.json has no tokens", s->dir);
}

static enum kg_status set_token(struct kg_vocab_source *s, size_t id, struct kg_str text, int32_t type,
                                struct kg_error *err) {
    const struct kg_str old = s->texts[id];
    if (old.data && (old.len != text.len || memcmp(old.data, text.data, text.len) != 0))
        return kg_fail(err, KG_ERR_FORMAT, "%s/tokenizer.json: id %zu is both '%s' and '%s'", s->dir, id,
                       QUOTE(old.data), QUOTE(text.data));
    s->texts[id] = text;
    s->types[id] = type;
    return KG_OK;
}

/* Flags that GGUF cannot express. rstrip, which Phi-3's tokens have, and normalized have kigo keys. */
static enum kg_status check_added(const struct kg_vocab_source *s, const json_t *added, struct kg_error *err) {
    static const char *const MUST_BE_FALSE[] = { "lstrip", "single_word", NULL };
    for (const char *const *name = MUST_BE_FALSE; *name; name++)
        if (json_is_true(json_object_get(added, *name)))
            return kg_fail(err, KG_ERR_UNSUPPORTED, "%s/tokenizer.json: added token '%s' has %s, which GGUF cannot say",
                           s->dir, QUOTE(json_string_value(json_object_get(added, "content"))), *name);
    return KG_OK;
}

static enum kg_status gather_tokens(struct kg_vocab_source *s, struct kg_error *err) {
    s->texts = kg_xcalloc(s->n_tokens, sizeof *s->texts);
    s->types = kg_xcalloc(s->n_tokens, sizeof *s->types);
    json_t *vocab = json_object_get(json_object_get(s->tokenizer, "model"), "vocab"), *value;
    const char *key;
    size_t i;
    enum kg_status status = KG_OK;
    json_object_foreach(vocab, key, value) {
        const struct kg_str text = { key, strlen(key) };
        status = set_token(s, (size_t)json_integer_value(value), text, KG_TOKEN_NORMAL, err);
        if (status != KG_OK) return status;
    }
    json_array_foreach(json_object_get(s->tokenizer, "added_tokens"), i, value) {
        const bool special = json_is_true(json_object_get(value, "special"));
        status = check_added(s, value, err);
        if (status == KG_OK)
            status = set_token(s, (size_t)json_integer_value(json_object_get(value, "id")),
                               json_text(json_object_get(value, "content")),
                               special ? KG_TOKEN_CONTROL : KG_TOKEN_USER_DEFINED, err);
        if (status != KG_OK) return status;
    }
    return KG_OK;
}

static void pad_tokens(struct kg_vocab_source *s) {
    enum { PADDING_BYTES = 24 };
    for (size_t id = 0; id < s->n_tokens; id++) {
        s->n_special += s->types[id] == KG_TOKEN_CONTROL;
        s->n_padding += !s->texts[id].data;
    }
    s->padding = kg_xmalloc(s->n_padding * PADDING_BYTES + 1);
    char *text = s->padding;
    for (size_t id = 0; id < s->n_tokens; id++) {
        if (s->texts[id].data) continue;
        const int n = snprintf(text, PADDING_BYTES, "[PAD%zu]", id);
        s->texts[id] = (struct kg_str){ text, (size_t)n };
        s->types[id] = KG_TOKEN_UNUSED;
        text += PADDING_BYTES;
    }
}

static enum kg_status index_tokens(struct kg_vocab_source *s, struct kg_error *err) {
    kg_text_map_init(&s->by_text, s->n_tokens, s->texts, sizeof *s->texts);
    for (size_t id = 0; id < s->n_tokens; id++) {
        const int32_t other = kg_text_map_add(&s->by_text, (int32_t)id);
        if (other >= 0)
            return kg_fail(err, KG_ERR_FORMAT, "%s/tokenizer.json: ids %" PRId32 " and %zu are both '%s'", s->dir,
                           other, id, QUOTE(s->texts[id].data));
    }
    return KG_OK;
}

enum kg_status kg_vocab_source_open(const char *dir, struct kg_vocab_source *s, struct kg_error *err) {
    *s = (struct kg_vocab_source){ .dir = dir };
    enum kg_status status = load_files(s, err);
    if (status == KG_OK) status = check_model(s, err);
    if (status == KG_OK)
        status = s->sentencepiece ? kg_vocab_sentencepiece_check(s, err) : kg_vocab_source_kind(s, &s->kind, err);
    if (status == KG_OK && s->kind) s->normalizes = s->kind->nfc;
    if (status == KG_OK) drop_image_tokens(s);
    if (status == KG_OK) status = count_tokens(s, err);
    if (status == KG_OK) status = gather_tokens(s, err);
    if (status == KG_OK && s->sentencepiece) kg_vocab_sentencepiece_types(s);
    if (status == KG_OK) pad_tokens(s);
    if (status == KG_OK) status = index_tokens(s, err);
    if (status != KG_OK) kg_vocab_source_close(s);
    return status;
}

void kg_vocab_source_close(struct kg_vocab_source *s) {
    kg_text_map_free(&s->by_text);
    free(s->padding);
    free(s->types);
    free(s->texts);
    free(s->chat_template_file);
    json_decref(s->config);
    json_decref(s->tokenizer_config);
    json_decref(s->tokenizer);
    *s = (struct kg_vocab_source){ 0 };
}
