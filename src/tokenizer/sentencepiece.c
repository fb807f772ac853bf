#include "tokenizer/sentencepiece.h"
#include "base/buffer.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name
#define SPACE_MARK "\xe2\x96\x81" /* U+2581 */
enum { SPACE_MARK_BYTES = 3, BYTE_TOKEN_BYTES = 6 };

/* Each token is split at every character, which takes quadratic time in its length. No published token has more than
 * 100 bytes. */
enum { MAX_TOKEN_BYTES = 1024 };

static int hex_value(char digit) {
    static const char DIGITS[] = "0123456789ABCDEF";
    const char *at = digit ? strchr(DIGITS, digit) : NULL;
    return at ? (int)(at - DIGITS) : -1;
}

bool kg_sentencepiece_byte(struct kg_str text, unsigned char *byte) {
    if (text.len != BYTE_TOKEN_BYTES || memcmp(text.data, "<0x", 3) != 0 || text.data[5] != '>') return false;
    const int high = hex_value(text.data[3]), low = hex_value(text.data[4]);
    if (high < 0 || low < 0) return false;
    *byte = (unsigned char)(16 * high + low);
    return true;
}

/* The length in bytes of the space, plain or as a mark, at the start of text[0..len); 0 if there is none. */
static size_t space_here(const char *text, size_t len) {
    if (len > 0 && text[0] == ' ') return 1;
    return len >= SPACE_MARK_BYTES && memcmp(text, SPACE_MARK, SPACE_MARK_BYTES) == 0 ? SPACE_MARK_BYTES : 0;
}

size_t kg_sentencepiece_decode(struct kg_str text, char *out) {
    size_t n = 0;
    for (size_t at = 0; at < text.len;) {
        const size_t n_space = space_here(text.data + at, text.len - at);
        out[n++] = n_space ? ' ' : text.data[at];
        at += n_space ? n_space : 1;
    }
    return n;
}

/* Merging must not produce a token that is searched in normalised text: its text may be left over where the search did
 * not match. */
static bool is_mergeable(const struct kg_token *token) {
    return token->type == KG_TOKEN_NORMAL || token->type == KG_TOKEN_UNDEFINED ||
           (token->type == KG_TOKEN_USER_DEFINED && !token->normalised);
}

static int32_t find_mergeable(const struct kg_tokenizer *t, struct kg_str text) {
    const int32_t id = kg_text_map_find(&t->by_text, text);
    return id >= 0 && is_mergeable(&t->tokens[id]) ? id : -1;
}

void kg_sentencepiece_mark(const char *text, size_t len, bool prefix, struct kg_buffer *out) {
    if (prefix) kg_buffer_append(out, SPACE_MARK, SPACE_MARK_BYTES);
    for (size_t at = 0; at < len;) {
        const char *space = memchr(text + at, ' ', len - at);
        const size_t n = space ? (size_t)(space - text) - at : len - at;
        kg_buffer_append(out, text + at, n);
        if (space) kg_buffer_append(out, SPACE_MARK, SPACE_MARK_BYTES);
        at += n + (space != NULL);
    }
}

int32_t kg_sentencepiece_find(const struct kg_tokenizer *t, const char *text, size_t len) {
    struct kg_buffer marked = KG_BUFFER_INIT;
    kg_sentencepiece_mark(text, len, false, &marked);
    const int32_t id = find_mergeable(t, (struct kg_str){ marked.data, marked.len });
    kg_buffer_free(&marked);
    return id;
}

/* A token and its score, for sorting. */
struct scored {
    float score;
    int32_t id;
};

static int by_score(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The symbol of a text: a token or a single character; -1 if it is neither. */
static int32_t symbol_of(const struct kg_tokenizer *t, struct kg_str text) {
    if (kg_utf8_length(text.data[0]) < text.len) return find_mergeable(t, text);
    uint32_t c;
    kg_utf8_get(text.data, &c);
    return kg_bpe_find_character(&t->bpe, c);
}

/* Adds every pair of symbols that forms a token, with the token's rank; only counts them if !add. */
static size_t take_apart(struct kg_tokenizer *t, int32_t id, uint32_t rank, bool add) {
    const struct kg_str text = t->tokens[id].text;
    size_t n = 0;
    for (size_t at = kg_utf8_length(text.data[0]); at < text.len; at += kg_utf8_length(text.data[at])) {
        const int32_t left = symbol_of(t, (struct kg_str){ text.data, at });
        const int32_t right = left == -1 ? -1 : symbol_of(t, (struct kg_str){ text.data + at, text.len - at });
        if (right == -1) continue;
        n++;
        if (add) kg_bpe_add(&t->bpe, left, right, rank, id);
    }
    return n;
}

static void add_characters(struct kg_tokenizer *t) {
    for (size_t i = 0; i < t->n_tokens; i++) {
        const struct kg_token *token = &t->tokens[i];
        uint32_t c;
        if (!is_mergeable(token) || token->text.len == 0 || kg_utf8_length(token->text.data[0]) != token->text.len)
            continue;
        kg_utf8_get(token->text.data, &c);
        kg_bpe_add_character(&t->bpe, c, (int32_t)i);
    }
}

/* Tokens with equal scores share a rank, so that the leftmost pair in a text is merged first. */
static void add_merges(struct kg_tokenizer *t, const struct scored *order, size_t n) {
    uint32_t rank = 0;
    size_t n_merges = 0;
    for (int pass = 0; pass < 2; pass++) {
        /* Counting needs the characters, so a temporary table holds them until the size of the final table is known. */
        kg_bpe_init(&t->bpe, t->n_tokens + n_merges);
        add_characters(t);
        for (size_t i = 0; i < n; i++) {
            if (i > 0 && order[i].score != order[i - 1].score) rank++;
            n_merges += take_apart(t, order[i].id, rank, pass > 0);
        }
        if (pass == 0) kg_bpe_free(&t->bpe);
        rank = 0;
    }
}

static enum kg_status load_scores(struct kg_tokenizer *t, const struct kg_gguf *g, struct scored *order, size_t *n,
                                  struct kg_error *err) {
    const struct kg_gguf_key *scores;
    if (!kg_gguf_find_key(g, KEY("scores")))
        return kg_fail(err, KG_ERR_FORMAT, "%s: no key " KEY("scores"), kg_gguf_path(g));
    const enum kg_status status = kg_gguf_get_array(g, KEY("scores"), KG_GGUF_F32, &scores, err);
    if (status != KG_OK) return status;
    if (scores->value.array.n != t->n_tokens)
        return kg_fail(err, KG_ERR_FORMAT, "%s: " KEY("scores") " has %" PRIu64 " elements for %zu tokens",
                       kg_gguf_path(g), scores->value.array.n, t->n_tokens);
    *n = 0;
    for (size_t i = 0; i < t->n_tokens; i++) {
        const double score = kg_gguf_array_float(scores, i);
        if (!isfinite(score))
            return kg_fail(err, KG_ERR_FORMAT, "%s: " KEY("scores") "[%zu] is %g", kg_gguf_path(g), i, score);
        const struct kg_token *token = &t->tokens[i];
        if (!is_mergeable(token) || token->text.len == 0) continue;
        if (token->text.len > MAX_TOKEN_BYTES)
            return kg_fail(err, KG_ERR_FORMAT, "%s: token %zu has %zu bytes, more than %d", kg_gguf_path(g), i,
                           token->text.len, MAX_TOKEN_BYTES);
        order[(*n)++] = (struct scored){ (float)score, (int32_t)i };
    }
    qsort(order, *n, sizeof *order, by_score);
    return KG_OK;
}

static enum kg_status load_pairs(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    struct scored *order = kg_xcalloc(t->n_tokens, sizeof *order);
    size_t n;
    enum kg_status status = load_scores(t, g, order, &n, err);
    if (status == KG_OK && kg_gguf_find_key(g, KEY("merges"))) {
        status = kg_tokenizer_load_merges(t, g, t->n_tokens, err);
        if (status == KG_OK) add_characters(t);
    } else if (status == KG_OK) {
        add_merges(t, order, n);
    }
    free(order);
    return status;
}

static enum kg_status load_byte_tokens(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[BYTE_TOKEN_BYTES + 1];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        const int32_t id = kg_text_map_find(&t->by_text, (struct kg_str){ text, BYTE_TOKEN_BYTES });
        if (id < 0) return kg_fail(err, KG_ERR_FORMAT, "%s: no token '%s'", kg_gguf_path(g), text);
        if (t->tokens[id].type != KG_TOKEN_BYTE)
            return kg_fail(err, KG_ERR_FORMAT, "%s: token %" PRId32 " is '%s', but its type is %d, not %d (byte)",
                           kg_gguf_path(g), id, text, (int)t->tokens[id].type, KG_TOKEN_BYTE);
        t->bpe.byte_ids[byte] = id;
    }
    return KG_OK;
}

/* True if the token never crosses the end of a word: all its spaces are at its start. */
static bool ends_with_words(const struct kg_token *token) {
    bool in_word = false;
    for (size_t at = 0; at < token->text.len; at += kg_utf8_length(token->text.data[at])) {
        const bool space = space_here(token->text.data + at, token->text.len - at) > 0;
        if (in_word && space) return false;
        in_word = !space;
    }
    return true;
}

static enum kg_status load_prepend_scheme(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    struct kg_str scheme;
    t->marks_by_normaliser = !kg_gguf_find_key(g, KG_PREPEND_SCHEME_KEY);
    if (t->marks_by_normaliser) return KG_OK;
    const enum kg_status status = kg_gguf_get_str(g, KG_PREPEND_SCHEME_KEY, &scheme, err);
    if (status != KG_OK) return status;
    if (kg_str_eq(scheme, "never") && !t->add_space_prefix) return KG_OK;
    t->prefix_first = kg_str_eq(scheme, "first");
    t->prefix_unless_space = t->prefix_first || kg_str_eq(scheme, "always");
    if (t->prefix_unless_space) return KG_OK;
    return kg_fail(err, KG_ERR_FORMAT,
                   "%s: " KG_PREPEND_SCHEME_KEY " is '%s', neither 'always' nor 'first', nor 'never' without a prefix",
                   kg_gguf_path(g), kg_quote(scheme.data, scheme.len).text);
}

enum kg_status kg_sentencepiece_load(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    enum kg_status status = KG_OK;
    bool collapses = false;
    t->add_space_prefix = true;
    if (kg_gguf_find_key(g, KEY("add_space_prefix")))
        status = kg_gguf_get_bool(g, KEY("add_space_prefix"), &t->add_space_prefix, err);
    if (status == KG_OK) status = load_prepend_scheme(t, g, err);
    if (status == KG_OK && kg_gguf_find_key(g, KEY("remove_extra_whitespaces")))
        status = kg_gguf_get_bool(g, KEY("remove_extra_whitespaces"), &collapses, err);
    if (status == KG_OK && collapses)
        status = kg_fail(err, KG_ERR_UNSUPPORTED,
                         "%s: " KEY("remove_extra_whitespaces") " is true, which kigo does not do", kg_gguf_path(g));
    if (status == KG_OK) status = load_pairs(t, g, err);
    if (status == KG_OK) status = load_byte_tokens(t, g, err);
    t->bpe.by_characters = true;
    t->cuts_at_spaces = true;
    for (size_t i = 0; i < t->n_tokens && t->cuts_at_spaces; i++)
        t->cuts_at_spaces = !is_mergeable(&t->tokens[i]) || ends_with_words(&t->tokens[i]);
    return status;
}

/* The next piece: spaces and the word after them if no merge crosses word ends, otherwise the whole text. */
static size_t piece_len(const struct kg_tokenizer *t, const char *text, size_t len) {
    if (!t->cuts_at_spaces) return len;
    size_t at = 0, n;
    while (at < len && (n = space_here(text + at, len - at)) > 0) at += n;
    while (at < len && space_here(text + at, len - at) == 0) at++;
    return at;
}

enum kg_status kg_sentencepiece_encode(const struct kg_tokenizer *t, struct kg_bpe_work *work, const char *text,
                                       size_t len, bool prefix, struct kg_ids *ids, struct kg_error *err) {
    enum kg_status status = KG_OK;
    size_t at = 0;
    if (len > 0 && prefix && t->add_space_prefix && !(t->prefix_unless_space && space_here(text, len) > 0)) {
        struct kg_buffer first = KG_BUFFER_INIT;
        at = piece_len(t, text, len);
        kg_buffer_append(&first, " ", 1);
        kg_buffer_append(&first, text, at);
        status = kg_bpe_encode(&t->bpe, work, first.data, first.len, ids, err);
        kg_buffer_free(&first);
    }
    while (status == KG_OK && at < len) {
        const size_t n = piece_len(t, text + at, len - at);
        status = kg_bpe_encode(&t->bpe, work, text + at, n, ids, err);
        at += n;
    }
    return status;
}
