/* SentencePiece-style BPE in a tokenizer.json: the supported normalizers and pre-tokenizers, and the GGUF keys that
 * only this kind has. */
#include "base/buffer.h"
#include "base/size.h"
#include "base/utf8.h"
#include "convert/vocab_source.h"
#include "tokenizer/sentencepiece.h"
#include <stdlib.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name
#define SPACE_MARK "\xe2\x96\x81" /* U+2581 */

static bool member_is(const json_t *object, const char *name, const char *value) {
    const char *text = json_string_value(json_object_get(object, name));
    return text && strcmp(text, value) == 0;
}

/* Replace of each space by the mark. */
static bool marks_spaces(const json_t *n) {
    return member_is(n, "type", "Replace") && member_is(json_object_get(n, "pattern"), "String", " ") &&
           member_is(n, "content", SPACE_MARK);
}

static bool is_none(const json_t *value) {
    return !value || json_is_null(value);
}

/* Metaspace that puts marks for spaces, and perhaps one before a text, as transformers 5 writes all of Llama's. Its
 * split would keep spaces apart, which is not SentencePiece's way. */
static bool is_metaspace(const json_t *p) {
    return member_is(p, "type", "Metaspace") && member_is(p, "replacement", SPACE_MARK) &&
           json_is_false(json_object_get(p, "split"));
}

static bool take_scheme(struct kg_vocab_source *s, const json_t *metaspace) {
    static const char *const SCHEMES[] = { "always", "first" };
    s->add_space_prefix = false;
    if (member_is(metaspace, "prepend_scheme", "never")) return true;
    for (size_t i = 0; i < KG_COUNT_OF(SCHEMES) && !s->prepend_scheme; i++)
        if (member_is(metaspace, "prepend_scheme", SCHEMES[i])) s->prepend_scheme = SCHEMES[i];
    s->add_space_prefix = s->prepend_scheme != NULL;
    return s->add_space_prefix;
}

/* A Split at spaces, as Gemma's files have it: behind a normalizer that marks spaces, it finds none. */
static bool splits_at_spaces(const json_t *pre) {
    return member_is(pre, "type", "Split") && member_is(json_object_get(pre, "pattern"), "String", " ");
}

/* Prepend and Replace, or Replace alone, without a pre-tokenizer that does anything; or Metaspace alone. */
enum kg_status kg_vocab_sentencepiece_check(struct kg_vocab_source *s, struct kg_error *err) {
    const json_t *n = json_object_get(s->tokenizer, "normalizer"),
                 *pre = json_object_get(s->tokenizer, "pre_tokenizer");
    const bool is_list = member_is(n, "type", "Sequence");
    const json_t *list = json_object_get(n, "normalizers");
    const json_t *first = is_list ? json_array_get(list, 0) : n, *second = is_list ? json_array_get(list, 1) : NULL;
    const size_t n_parts = is_list ? json_array_size(list) : !is_none(n);
    const bool prepends = member_is(first, "type", "Prepend") && member_is(first, "prepend", SPACE_MARK);
    s->normalizes = n_parts > 0;
    s->add_space_prefix = n_parts == 2 && prepends && marks_spaces(second);
    const bool all_marked = s->add_space_prefix || (n_parts == 1 && marks_spaces(first));
    if (all_marked && (is_none(pre) || splits_at_spaces(pre))) return KG_OK;
    if (n_parts == 0 && is_metaspace(pre) && take_scheme(s, pre)) return KG_OK;
    char *text = json_dumps(is_none(pre) ? n : pre, JSON_COMPACT | JSON_ENCODE_ANY);
    kg_fail(err, KG_ERR_UNSUPPORTED,
            "%s/tokenizer.json: with byte_fallback, the %s must put U+2581 for spaces and nothing else; it is '%s'",
            s->dir, is_none(pre) ? "normalizer" : "pre_tokenizer", text ? kg_quote(text, strlen(text)).text : "null");
    free(text);
    return KG_ERR_UNSUPPORTED;
}

void kg_vocab_sentencepiece_types(struct kg_vocab_source *s) {
    const json_t *model = json_object_get(s->tokenizer, "model");
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    for (size_t id = 0; id < s->n_tokens; id++) {
        unsigned char byte;
        if (s->types[id] != KG_TOKEN_NORMAL) continue;
        if (kg_sentencepiece_byte(s->texts[id], &byte)) s->types[id] = KG_TOKEN_BYTE;
        else if (unknown && kg_str_eq(s->texts[id], unknown)) s->types[id] = KG_TOKEN_UNKNOWN;
    }
}

/* The token a merge makes; -1 if there is none, which reading the file back will name. */
static int32_t merged_id(const struct kg_vocab_source *s, const json_t *merge, struct kg_buffer *joined) {
    const char *left = json_string_value(json_is_array(merge) ? json_array_get(merge, 0) : merge);
    const char *right = json_string_value(json_array_get(merge, 1));
    kg_buffer_clear(joined);
    if (!right && left) { /* "left right" */
        right = *left ? strchr(left + 1, ' ') : NULL;
        if (!right) return -1;
        kg_buffer_append(joined, left, (size_t)(right++ - left));
    } else if (left) {
        kg_buffer_puts(joined, left);
    }
    if (!right) return -1;
    kg_buffer_puts(joined, right);
    return kg_text_map_find(&s->by_text, (struct kg_str){ joined->data, joined->len });
}

/* SentencePiece's trainer scores its tokens 0, -1, -2, ... in the order in which they were merged. The same here, by
 * the first merge of each token: programs that know only scores then merge in the order of ranks, except among
 * different pairs that form the same token. Tokens without a merge come last. */
static void put_scores(struct kg_gguf_writer *w, const struct kg_vocab_source *s) {
    static const float NEVER_MADE = -1e9f;
    float *scores = kg_xcalloc(s->n_tokens, sizeof *scores);
    bool *made = kg_xcalloc(s->n_tokens, sizeof *made);
    struct kg_buffer joined = KG_BUFFER_INIT;
    const json_t *merges = json_object_get(json_object_get(s->tokenizer, "model"), "merges"), *merge;
    size_t i, n_made = 0;
    json_array_foreach(merges, i, merge) {
        const int32_t id = merged_id(s, merge, &joined);
        if (id < 0 || made[id]) continue;
        scores[id] = -(float)n_made++;
        made[id] = true;
    }
    for (i = 0; i < s->n_tokens; i++)
        if (!made[i] && s->types[i] == KG_TOKEN_NORMAL) scores[i] = NEVER_MADE;
    kg_gguf_writer_f32s(w, KEY("scores"), scores, s->n_tokens);
    kg_buffer_free(&joined);
    free(made);
    free(scores);
}

void kg_vocab_sentencepiece_put(struct kg_gguf_writer *w, const struct kg_vocab_source *s) {
    put_scores(w, s);
    kg_gguf_writer_bool(w, KEY("add_space_prefix"), s->add_space_prefix);
    if (s->prepend_scheme) kg_gguf_writer_str(w, KG_PREPEND_SCHEME_KEY, s->prepend_scheme, strlen(s->prepend_scheme));
}
