/* Text to ids: tokens written in the text are found first, in the raw text; what lies between them is normalised, cut
 * into pieces, and each piece merged (sentencepiece.c has its own way of cutting). */
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
    bool prefix; /* what comes next is the beginning of a text */
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

/* Text that holds no token found as it is written. */
static enum kg_status encode_plain(struct encoding *e, const char *text, size_t len, struct kg_error *err) {
    enum kg_status status = KG_OK;
    if (len == 0) return KG_OK;
    if (e->tokenizer->sentencepiece)
        return kg_sentencepiece_encode(e->tokenizer, e->work, text, len, e->prefix, e->ids, err);
    if (e->tokenizer->kind->nfc && kg_nfc_may_change(text, len)) {
        kg_buffer_clear(&e->normalised);
        status = kg_nfc_append(text, len, &e->normalised, err);
        if (status != KG_OK) return status;
        text = e->normalised.data;
        len = e->normalised.len;
    }
    kg_splitter_start(e->splitter, text, len);
    const char *piece;
    size_t n;
    while ((status = kg_splitter_next(e->splitter, &piece, &n, err)) == KG_OK && n > 0) {
        status = encode_piece(e, piece, n, err);
        if (status != KG_OK) break;
    }
    return status;
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
        .prefix = prefix && (prefix_again || n_before == 0),
    };
    enum kg_status status = KG_OK;
    for (size_t at = 0; at < len && status == KG_OK;) {
        int32_t id = -1;
        size_t n_match = 0;
        const size_t n_plain =
            kg_special_search(&tokenizer->special, text + at, len - at, parse_special, &id, &n_match);
        status = encode_plain(&e, text + at, n_plain, err);
        at += n_plain;
        e.prefix = prefix_again; /* behind a token found in text another begins */
        if (status == KG_OK && at < len) {
            kg_ids_push(ids, id);
            at += n_match;
            if (tokenizer->tokens[id].rstrip) at += kg_white_space_span(text + at, len - at);
        }
    }
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
