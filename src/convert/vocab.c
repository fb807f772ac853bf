#include "convert/vocab.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "base/utf8.h"
#include "convert/hf_folder.h"
#include "convert/vocab_source.h"
#include "tokenizer/tokenizer.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name

static void write_architecture(struct kg_gguf_writer *w, const struct kg_vocab_source *s) {
    const char *model_type = json_string_value(json_object_get(s->config, "model_type"));
    char *architecture = kg_xstrdup(model_type && *model_type ? model_type : s->sentencepiece ? "llama" : "gpt2");
    for (char *p = architecture; *p; p++) {
        if (strcmp(p, "_text") == 0) *p = '\0'; /* gemma3_text: the text model of gemma3 */
        if (*p == '_') *p = '-';
        if (!*p) break;
    }
    char *key = kg_xasprintf("%s.vocab_size", architecture);
    kg_gguf_writer_str(w, "general.architecture", architecture, strlen(architecture));
    kg_gguf_writer_u32(w, key, (uint32_t)s->n_tokens);
    free(key);
    free(architecture);
}

/* A merge is "a b", or ["a", "b"], which is written as "a b"; *joined is malloc'ed then. */
static enum kg_status merge_text(const struct kg_vocab_source *s, const json_t *merge, size_t rank, struct kg_str *text,
                                 char **joined, struct kg_error *err) {
    *joined = NULL;
    if (json_is_string(merge)) {
        *text = (struct kg_str){ json_string_value(merge), json_string_length(merge) };
        return KG_OK;
    }
    const char *left = json_string_value(json_array_get(merge, 0)),
               *right = json_string_value(json_array_get(merge, 1));
    if (!left || !right || json_array_size(merge) != 2)
        return kg_fail(err, KG_ERR_FORMAT, "%s/tokenizer.json: merges[%zu] is no pair of tokens", s->dir, rank);
    if (strchr(left, ' ') || strchr(right, ' '))
        return kg_fail(err, KG_ERR_UNSUPPORTED, "%s/tokenizer.json: merges[%zu] has a blank, which GGUF cannot say",
                       s->dir, rank);
    *joined = kg_xasprintf("%s %s", left, right);
    *text = (struct kg_str){ *joined, strlen(*joined) };
    return KG_OK;
}

static enum kg_status write_merges(struct kg_gguf_writer *w, const struct kg_vocab_source *s, size_t *n_merges,
                                   struct kg_error *err) {
    const json_t *merges = json_object_get(json_object_get(s->tokenizer, "model"), "merges"), *merge;
    const size_t n = json_array_size(merges);
    struct kg_str *texts = kg_xcalloc(n + 1, sizeof *texts);
    char **joined = kg_xcalloc(n + 1, sizeof *joined);
    enum kg_status status = KG_OK;
    size_t i;
    json_array_foreach(merges, i, merge) {
        status = merge_text(s, merge, i, &texts[i], &joined[i], err);
        if (status != KG_OK) break;
    }
    if (status == KG_OK) kg_gguf_writer_strings(w, KEY("merges"), texts, n);
    *n_merges = n;
    for (i = 0; i < n; i++) free(joined[i]);
    free(joined);
    free(texts);
    return status;
}

/* A special token is named by its text, alone or as the content of an object. */
static const json_t *token_name(const struct kg_vocab_source *s, const char *name) {
    const json_t *value = json_object_get(s->tokenizer_config, name);
    return json_is_object(value) ? json_object_get(value, "content") : value;
}

/* The id of a token tokenizer_config.json names, else of one config.json numbers; -1 if neither does. */
static enum kg_status special_id(const struct kg_vocab_source *s, const char *name, const char *id_name, int32_t *id,
                                 struct kg_error *err) {
    *id = -1;
    const json_t *text = token_name(s, name);
    if (json_is_string(text)) {
        *id = kg_text_map_find(&s->by_text, (struct kg_str){ json_string_value(text), json_string_length(text) });
        if (*id >= 0) return KG_OK;
        return kg_fail(err, KG_ERR_FORMAT, "%s/tokenizer_config.json: %s '%s' is no token", s->dir, name,
                       kg_quote(json_string_value(text), json_string_length(text)).text);
    }
    if (json_object_get(s->tokenizer_config, name)) return KG_OK; /* null: there is none */
    const json_t *number = json_object_get(s->config, id_name);
    if (json_is_array(number)) number = json_array_get(number, 0);
    if (!json_is_integer(number)) return KG_OK;
    const json_int_t n = json_integer_value(number);
    if (n < 0 || (uint64_t)n >= s->n_tokens)
        return kg_fail(err, KG_ERR_FORMAT, "%s/config.json: %s is %" JSON_INTEGER_FORMAT " of %zu tokens", s->dir,
                       id_name, n, s->n_tokens);
    *id = (int32_t)n;
    return KG_OK;
}

/* What tokenizer.json's post_processor puts before and behind a text. */
struct affixes {
    bool stated;    /* false: the file has no post_processor */
    bool none;      /* it is one that adds nothing */
    int32_t ids[2]; /* -1: its template has no token there */
};

static enum kg_status read_template(const struct kg_vocab_source *s, const json_t *single, struct affixes *a,
                                    struct kg_error *err) {
    const size_t n = json_array_size(single);
    for (size_t end = 0; end < 2 && n > 1; end++) {
        const json_t *item = json_array_get(single, end == 0 ? 0 : n - 1);
        const char *text = json_string_value(json_object_get(json_object_get(item, "SpecialToken"), "id"));
        if (!text) continue;
        a->ids[end] = kg_text_map_find(&s->by_text, (struct kg_str){ text, strlen(text) });
        if (a->ids[end] < 0)
            return kg_fail(err, KG_ERR_FORMAT, "%s/tokenizer.json: the post_processor's '%s' is no token", s->dir,
                           kg_quote(text, strlen(text)).text);
    }
    return KG_OK;
}

/* One processor, or a Sequence of them. */
static enum kg_status read_affixes(const struct kg_vocab_source *s, struct affixes *a, struct kg_error *err) {
    const json_t *processor = json_object_get(s->tokenizer, "post_processor");
    const json_t *list = json_object_get(processor, "processors");
    const size_t n = json_is_array(list) ? json_array_size(list) : 1;
    *a = (struct affixes){ .ids = { -1, -1 } };
    if (!processor || json_is_null(processor)) return KG_OK;
    a->stated = true;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_is_array(list) ? json_array_get(list, i) : processor;
        const char *type = json_string_value(json_object_get(item, "type"));
        if (type && strcmp(type, "ByteLevel") == 0) {
            a->none = true;
            continue;
        }
        if (!type || strcmp(type, "TemplateProcessing") != 0)
            return kg_fail(err, KG_ERR_UNSUPPORTED,
                           "%s/tokenizer.json: the post_processor '%s' is not one kigo can convert", s->dir,
                           type ? kg_quote(type, strlen(type)).text : "(no type)");
        const enum kg_status status = read_template(s, json_object_get(item, "single"), a, err);
        if (status != KG_OK) return status;
    }
    return KG_OK;
}

static enum kg_status write_ids(struct kg_gguf_writer *w, const struct kg_vocab_source *s, int32_t *eos_id,
                                struct kg_error *err) {
    /* flag_key: whether texts begin or end with it */
    static const struct {
        const char *name, *id_name, *key, *flag, *flag_key;
    } IDS[] = {
        { "bos_token", "bos_token_id", KEY("bos_token_id"), "add_bos_token", KEY("add_bos_token") },
        { "eos_token", "eos_token_id", KEY("eos_token_id"), "add_eos_token", KEY("add_eos_token") },
        { "pad_token", "pad_token_id", KEY("padding_token_id"), NULL, NULL },
        { "unk_token", "unk_token_id", KEY("unknown_token_id"), NULL, NULL },
    };
    struct affixes affixes;
    enum kg_status status = read_affixes(s, &affixes, err);
    for (size_t i = 0; i < KG_COUNT_OF(IDS) && status == KG_OK; i++) {
        int32_t id;
        status = special_id(s, IDS[i].name, IDS[i].id_name, &id, err);
        if (status != KG_OK) break;
        /* A token of the template is added, whatever tokenizer_config.json says: so do transformers 5 and llama.cpp. */
        const json_t *flag = IDS[i].flag ? json_object_get(s->tokenizer_config, IDS[i].flag) : NULL;
        const int32_t affix = IDS[i].flag ? affixes.ids[i] : -1;
        if (id < 0) id = affix;
        if (affix >= 0 && affix != id)
            return kg_fail(err, KG_ERR_UNSUPPORTED,
                           "%s/tokenizer.json: the post_processor adds token %" PRId32 ", but the %s is %" PRId32,
                           s->dir, affix, IDS[i].name, id);
        if (id >= 0) kg_gguf_writer_u32(w, IDS[i].key, (uint32_t)id);
        if (IDS[i].flag && (affixes.stated || json_is_boolean(flag)))
            kg_gguf_writer_bool(w, IDS[i].flag_key, affix >= 0 || (!affixes.none && json_is_true(flag)));
        if (strcmp(IDS[i].name, "eos_token") == 0) *eos_id = id;
    }
    return status;
}

/* Also of none for SentencePiece's: a reader would else go by the name whether they are Phi-3's. */
static void write_rstrip(struct kg_gguf_writer *w, const struct kg_vocab_source *s) {
    const json_t *added = json_object_get(s->tokenizer, "added_tokens"), *token;
    int32_t *ids = kg_xcalloc(json_array_size(added) + 1, sizeof *ids);
    size_t i, n = 0;
    json_array_foreach(added, i, token) {
        if (json_is_true(json_object_get(token, "rstrip")))
            ids[n++] = (int32_t)json_integer_value(json_object_get(token, "id"));
    }
    if (n > 0 || s->sentencepiece) kg_gguf_writer_i32s(w, KG_RSTRIP_KEY, ids, n);
    free(ids);
}

/* Appends the ids of added tokens that are normalized, of special ones or of the others. */
static size_t list_normalized(const json_t *added, bool special, int32_t *ids) {
    const json_t *token;
    size_t i, n = 0;
    json_array_foreach(added, i, token) {
        if (json_is_true(json_object_get(token, "normalized")) &&
            json_is_true(json_object_get(token, "special")) == special)
            ids[n++] = (int32_t)json_integer_value(json_object_get(token, "id"));
    }
    return n;
}

/* The model's way with a character left over where such a token was not found cannot be said of the token itself. */
static enum kg_status check_normalized(const struct kg_vocab_source *s, int32_t id, struct kg_error *err) {
    const struct kg_str text = s->texts[id];
    const json_t *vocab = json_object_get(json_object_get(s->tokenizer, "model"), "vocab");
    if (!s->sentencepiece || text.len == 0 || kg_utf8_length(text.data[0]) != text.len ||
        !json_object_get(vocab, text.data))
        return KG_OK;
    return kg_fail(err, KG_ERR_UNSUPPORTED,
                   "%s/tokenizer.json: added token '%s' is normalized, and a character of the model, too", s->dir,
                   kg_quote(text.data, text.len).text);
}

/* Only where it matters: without a normalizer, two searches of one text differ from one of it if both find tokens. Of
 * two tokens with one normalised text, special ones come first, then the first in the file. */
static enum kg_status write_normalized(struct kg_gguf_writer *w, const struct kg_vocab_source *s,
                                       struct kg_error *err) {
    const json_t *added = json_object_get(s->tokenizer, "added_tokens");
    const size_t n_added = json_array_size(added);
    int32_t *ids = kg_xcalloc(n_added + 1, sizeof *ids);
    size_t n = list_normalized(added, true, ids);
    n += list_normalized(added, false, ids + n);
    if (n == n_added && !s->normalizes) n = 0;
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < n && status == KG_OK; i++) status = check_normalized(s, ids[i], err);
    if (n > 0 && status == KG_OK) kg_gguf_writer_i32s(w, KG_NORMALIZED_KEY, ids, n);
    if (n > 0 && s->sentencepiece && !s->normalizes && !s->prepend_scheme)
        kg_gguf_writer_str(w, KG_PREPEND_SCHEME_KEY, "never", strlen("never"));
    free(ids);
    return status;
}

/* The chat template: chat_template.jinja if it exists, otherwise a string, or the "default" one of a list of named
 * templates. */
static void write_chat_template(struct kg_gguf_writer *w, const struct kg_vocab_source *s) {
    static const char KEY_NAME[] = "tokenizer.chat_template";
    if (s->chat_template_file) {
        kg_gguf_writer_str(w, KEY_NAME, s->chat_template_file, s->chat_template_len);
        return;
    }
    const json_t *value = json_object_get(s->tokenizer_config, "chat_template"), *item;
    size_t i;
    json_array_foreach(value, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (!name || strcmp(name, "default") != 0) continue;
        value = json_object_get(item, "template");
        break;
    }
    if (json_is_string(value)) kg_gguf_writer_str(w, KEY_NAME, json_string_value(value), json_string_length(value));
}

enum kg_status kg_convert_vocab_put(struct kg_gguf_writer *w, const struct kg_vocab_source *s,
                                    struct kg_vocab_summary *summary, struct kg_error *err) {
    /* llama.cpp names no pre-tokenizer for SentencePiece's files: "default". */
    const char *model = s->sentencepiece ? "llama" : "gpt2", *pre = s->sentencepiece ? "default" : s->kind->name;
    struct kg_vocab_summary made = { .kind = s->sentencepiece ? "sentencepiece" : s->kind->name,
                                     .n_tokens = s->n_tokens,
                                     .n_special = s->n_special,
                                     .n_padding = s->n_padding,
                                     .eos_id = -1 };
    kg_gguf_writer_str(w, KEY("model"), model, strlen(model));
    kg_gguf_writer_str(w, KEY("pre"), pre, strlen(pre));
    kg_gguf_writer_strings(w, KEY("tokens"), s->texts, s->n_tokens);
    kg_gguf_writer_i32s(w, KEY("token_type"), s->types, s->n_tokens);
    if (s->sentencepiece) kg_vocab_sentencepiece_put(w, s);
    else if (s->ignore_merges != s->kind->ignore_merges) kg_gguf_writer_bool(w, KG_IGNORE_MERGES_KEY, s->ignore_merges);
    write_rstrip(w, s);
    enum kg_status status = write_normalized(w, s, err);
    if (status == KG_OK) status = write_merges(w, s, &made.n_merges, err);
    if (status == KG_OK) status = write_ids(w, s, &made.eos_id, err);
    if (status != KG_OK) return status;
    write_chat_template(w, s);
    *summary = made;
    return KG_OK;
}

enum kg_status kg_convert_vocab_check(const struct kg_gguf_writer *w, const char *name, struct kg_error *err) {
    struct kg_buffer image = KG_BUFFER_INIT;
    struct kg_gguf *g = NULL;
    struct kg_tokenizer *t;
    enum kg_status status = kg_gguf_writer_keys(w, &image, err);
    if (status == KG_OK) status = kg_gguf_parse(image.data, image.len, name, &g, err);
    if (status == KG_OK) status = kg_tokenizer_create(g, &t, err);
    if (status == KG_OK) kg_tokenizer_free(t);
    kg_gguf_close(g);
    kg_buffer_free(&image);
    return status;
}

enum kg_status kg_convert_vocab(const char *hf_dir, const char *out_path, struct kg_vocab_summary *summary,
                                struct kg_error *err) {
    struct kg_vocab_source source;
    struct kg_vocab_summary made;
    enum kg_status status = kg_hf_check_out_path(&(struct kg_hf_folder){ .dir = hf_dir }, out_path, err);
    if (status == KG_OK) status = kg_vocab_source_open(hf_dir, &source, err);
    if (status != KG_OK) return status;
    struct kg_gguf_writer *w = kg_gguf_writer_new(32);
    write_architecture(w, &source);
    status = kg_convert_vocab_put(w, &source, &made, err);
    if (status == KG_OK) status = kg_convert_vocab_check(w, out_path, err);
    if (status == KG_OK) status = kg_gguf_writer_finish(w, out_path, err);
    if (status == KG_OK) *summary = made;
    kg_gguf_writer_free(w);
    kg_vocab_source_close(&source);
    return status;
}
