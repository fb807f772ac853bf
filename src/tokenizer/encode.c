/* Text to ids, in four steps: find special tokens in the raw text; normalise the text between them; find the tokens
 * that are searched in normalised text; split the rest into pieces and merge each piece. sentencepiece.c splits
 * differently. */
#include "base/buffer.h"
#include "tokenizer/normalize.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer.h"
#include "base/utf8.h"
#include <stdlib.h>

void kg_ids_free(struct kg_ids *ids) {
    free(ids->ids);
    *ids = (struct kg_ids){ 0 };
}

void kg_ids_push(struct kg_ids *ids, int32_t id) {
    if (ids->n == ids->capacity) {
        ids->capacity = ids->capacity ? 2 * ids->capacity : 64;
        ids->ids = kg_xrealloc(ids->ids, ids->capacity * sizeof *ids->ids);
    }
    ids->ids[ids->n++] = id;
}

struct encoding {
    const struct kg_tokenizer *tokenizer;
    struct kg_splitter *splitter;
    struct kg_bpe_work *work;
    struct kg_buffer normalised;
    struct kg_ids *ids;
    bool parse_special;
    bool prefix;       /* a text begins here (it may get a space prefix) */
    bool prefix_again; /* another text begins after a token found in text */
    bool marked;       /* the normaliser already added the prefix and the space marks */
};

static enum kg_status encode_piece(struct encoding *e, const char *piece, size_t len, struct kg_error *err) {
    const struct kg_tokenizer *t = e->tokenizer;
    if (t->ignore_merges) {
        const int32_t id = kg_token_find_spelled(t, piece, len);
        if (id >= 0) {
            kg_ids_push(e->ids, id);
            return KG_OK;
        }
    }
    return kg_bpe_encode(&t->bpe, e->work, piece, len, e->ids, err);
}

enum kg_status kg_tokenizer_normalise(const struct kg_tokenizer *t, const char *text, size_t len, bool prefix,
                                      struct kg_buffer *out, struct kg_error *err) {
    if (t->kind && t->kind->nfc) return kg_nfc_append(text, len, out, err);
    if (t->marks_by_normaliser) kg_sentencepiece_mark(text, len, prefix && t->add_space_prefix, out);
    else kg_buffer_append(out, text, len);
    return KG_OK;
}

typedef enum kg_status encode_fn(struct encoding *e, const char *text, size_t len, struct kg_error *err);

/* Encodes text without tokens to be found. */
static enum kg_status encode_rest(struct encoding *e, const char *text, size_t len, struct kg_error *err) {
    enum kg_status status = KG_OK;
    if (e->tokenizer->sentencepiece)
        return kg_sentencepiece_encode(e->tokenizer, e->work, text, len, e->prefix && !e->marked, e->ids, err);
    kg_splitter_start(e->splitter, text, len);
    const char *piece;
    size_t n;
    while ((status = kg_splitter_next(e->splitter, &piece, &n, err)) == KG_OK && n > 0) {
        status = encode_piece(e, piece, n, err);
        if (status != KG_OK) break;
    }
    return status;
}

/* Finds tokens and encodes the text between them. The search continues directly after a token, even if the token also
 * takes the white space there: a white-space token is still found, and ends the white space taken. The reference does
 * the same. */
static enum kg_status encode_between(struct encoding *e, const struct kg_special *tokens, encode_fn *encode_text,
                                     const char *text, size_t len, struct kg_error *err) {
    size_t at = 0, taken = 0,
           white_end = 0; /* ends of: the token, the white space it takes, and the white space examined */
    for (;;) {
        int32_t id = -1;
        size_t n_match = 0;
        const size_t found = at + kg_special_search(tokens, text + at, len - at, e->parse_special, &id, &n_match);
        if (found > taken) {
            const enum kg_status status = encode_text(e, text + taken, found - taken, err);
            if (status != KG_OK) return status;
        }
        e->prefix = e->prefix_again;
        if (found == len) return KG_OK;
        kg_ids_push(e->ids, id);
        taken = at = found + n_match;
        if (!e->tokenizer->tokens[id].rstrip) continue;
        if (at >= white_end) white_end = at + kg_white_space_span(text + at, len - at);
        taken = white_end;
    }
}

/* Encodes text without tokens that are found in raw text. */
static enum kg_status encode_plain(struct encoding *e, const char *text, size_t len, struct kg_error *err) {
    const struct kg_tokenizer *t = e->tokenizer;
    if (e->marked || (t->kind && t->kind->nfc && kg_nfc_may_change(text, len))) {
        kg_buffer_clear(&e->normalised);
        const enum kg_status status = kg_tokenizer_normalise(t, text, len, e->prefix, &e->normalised, err);
        if (status != KG_OK) return status;
        text = e->normalised.data;
        len = e->normalised.len;
    }
    if (t->normalised.n_nodes == 0) return encode_rest(e, text, len, err);
    return encode_between(e, &t->normalised, encode_rest, text, len, err);
}

static enum kg_status encode(const struct kg_tokenizer *tokenizer, const char *text, size_t len, bool parse_special,
                             bool prefix, struct kg_ids *ids, struct kg_error *err) {
    if (len == 0) return KG_OK;
    const size_t bad = kg_utf8_first_error(text, len);
    if (bad != len)
        return kg_fail(err, KG_ERR_FORMAT, "text is not valid UTF-8 at byte %zu (0x%02x)", bad,
                       (unsigned)(unsigned char)text[bad]);
    const size_t n_before = ids->n;
    const bool prefix_again = !tokenizer->prefix_first;
    struct encoding e = {
        .tokenizer = tokenizer,
        .splitter = tokenizer->pre ? kg_splitter_new(tokenizer->pre) : NULL,
        .work = kg_bpe_work_new(len),
        .ids = ids,
        .parse_special = parse_special,
        .prefix = prefix && (prefix_again || n_before == 0),
        .prefix_again = prefix_again,
        .marked = tokenizer->marks_by_normaliser && tokenizer->normalised.n_nodes > 0,
    };
    const enum kg_status status = encode_between(&e, &tokenizer->special, encode_plain, text, len, err);
    if (status != KG_OK) ids->n = n_before;
    kg_buffer_free(&e.normalised);
    kg_bpe_work_free(e.work);
    kg_splitter_free(e.splitter);
    return status;
}

enum kg_status kg_tokenizer_encode(const struct kg_tokenizer *tokenizer, const char *text, size_t len,
                                   bool parse_special, struct kg_ids *ids, struct kg_error *err) {
    return encode(tokenizer, text, len, parse_special, true, ids, err);
}

enum kg_status kg_tokenizer_encode_inside(const struct kg_tokenizer *tokenizer, const char *text, size_t len,
                                          bool parse_special, struct kg_ids *ids, struct kg_error *err) {
    return encode(tokenizer, text, len, parse_special, false, ids, err);
}
