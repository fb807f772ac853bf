/* Ids to text, and the properties of tokens. */
#include "base/buffer.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char REPLACEMENT[] = "\xef\xbf\xbd"; /* U+FFFD */

void kg_utf8_stream_push(struct kg_utf8_stream *stream, const char *bytes, size_t len, struct kg_buffer *out) {
    size_t at = 0, n;
    /* Complete a pending character byte by byte; a byte that does not continue it is processed again on its own. */
    while (at < len && stream->n_pending > 0) {
        stream->pending[stream->n_pending] = (unsigned char)bytes[at];
        const enum kg_utf8_kind kind = kg_utf8_look((const char *)stream->pending, stream->n_pending + 1, &n);
        if (kind == KG_UTF8_BROKEN) {
            kg_buffer_append(out, REPLACEMENT, sizeof REPLACEMENT - 1);
            stream->n_pending = 0;
            break;
        }
        at++;
        stream->n_pending++;
        if (kind == KG_UTF8_CUT) continue;
        kg_buffer_append(out, stream->pending, n);
        stream->n_pending = 0;
    }
    size_t start = at; /* of the well-formed text not yet written */
    while (at < len) {
        const enum kg_utf8_kind kind = kg_utf8_look(bytes + at, len - at, &n);
        if (kind != KG_UTF8_WHOLE) {
            kg_buffer_append(out, bytes + start, at - start);
            start = at + n;
        }
        if (kind == KG_UTF8_BROKEN) kg_buffer_append(out, REPLACEMENT, sizeof REPLACEMENT - 1);
        if (kind == KG_UTF8_CUT) {
            memcpy(stream->pending, bytes + at, n);
            stream->n_pending = n;
        }
        at += n;
    }
    if (start < len) kg_buffer_append(out, bytes + start, len - start);
}

void kg_utf8_stream_finish(struct kg_utf8_stream *stream, struct kg_buffer *out) {
    if (stream->n_pending > 0) kg_buffer_append(out, REPLACEMENT, sizeof REPLACEMENT - 1);
    stream->n_pending = 0;
}

static enum kg_status check_id(const struct kg_tokenizer *t, int32_t id, struct kg_error *err) {
    if (id >= 0 && (size_t)id < t->n_tokens) return KG_OK;
    return kg_fail(err, KG_ERR_RANGE, "token id %" PRId32 " is outside the vocabulary of %zu", id, t->n_tokens);
}

enum kg_status kg_tokenizer_token_bytes(const struct kg_tokenizer *t, int32_t id, bool keep_special, const char **bytes,
                                        size_t *len, struct kg_error *err) {
    const enum kg_status status = check_id(t, id, err);
    if (status != KG_OK) return status;
    const bool hidden = !keep_special && kg_tokenizer_is_special(t, id);
    *bytes = hidden ? "" : t->tokens[id].bytes.data;
    *len = hidden ? 0 : t->tokens[id].bytes.len;
    return KG_OK;
}

enum kg_status kg_tokenizer_decode(const struct kg_tokenizer *t, const int32_t *ids, size_t n, bool keep_special,
                                   char **text, size_t *len, struct kg_error *err) {
    struct kg_utf8_stream stream = { .n_pending = 0 };
    struct kg_buffer out = KG_BUFFER_INIT;
    bool at_start = t->add_space_prefix;
    for (size_t i = 0; i < n; i++) {
        const char *bytes;
        size_t n_bytes;
        const enum kg_status status = kg_tokenizer_token_bytes(t, ids[i], keep_special, &bytes, &n_bytes, err);
        if (status != KG_OK) {
            kg_buffer_free(&out);
            return status;
        }
        const size_t n_prefix = at_start && n_bytes > 0 && bytes[0] == ' ';
        if (n_bytes > 0) at_start = false;
        kg_utf8_stream_push(&stream, bytes + n_prefix, n_bytes - n_prefix, &out);
    }
    kg_utf8_stream_finish(&stream, &out);
    kg_buffer_append(&out, "", 0); /* so that an empty text is allocated, too */
    *text = out.data;
    *len = out.len;
    return KG_OK;
}

size_t kg_tokenizer_n_tokens(const struct kg_tokenizer *t) {
    return t->n_tokens;
}

size_t kg_tokenizer_n_drawable(const struct kg_tokenizer *t) {
    size_t n = t->n_tokens;
    while (n > 0 && t->tokens[n - 1].type == KG_TOKEN_UNUSED) n--;
    return n;
}

int32_t kg_tokenizer_bos(const struct kg_tokenizer *t) {
    return t->bos;
}

int32_t kg_tokenizer_eos(const struct kg_tokenizer *t) {
    return t->eos;
}

bool kg_tokenizer_adds_bos(const struct kg_tokenizer *t) {
    return t->adds_bos;
}

bool kg_tokenizer_adds_eos(const struct kg_tokenizer *t) {
    return t->adds_eos;
}

int32_t kg_token_find_spelled(const struct kg_tokenizer *t, const char *text, size_t len) {
    if (t->sentencepiece) return kg_sentencepiece_find(t, text, len);
    enum { MOST_TOKENS_BYTES = 128 };
    char on_stack[2 * MOST_TOKENS_BYTES];
    char *spelled = len <= MOST_TOKENS_BYTES ? on_stack : kg_xmalloc(2 * len);
    const size_t n = kg_byte_level_encode(text, len, spelled);
    const int32_t id = kg_text_map_find(&t->by_text, (struct kg_str){ spelled, n });
    if (spelled != on_stack) free(spelled);
    return id >= 0 && t->tokens[id].bytes.data != t->tokens[id].text.data ? id : -1;
}

int32_t kg_tokenizer_find(const struct kg_tokenizer *t, const char *text) {
    const struct kg_str key = { text, strlen(text) };
    int32_t id = kg_special_find(&t->special, key);
    if (id >= 0) return id;
    const int32_t as_it_stands = kg_text_map_find(&t->by_text, key);
    if (as_it_stands >= 0 && t->tokens[as_it_stands].normalised) return as_it_stands;
    id = kg_token_find_spelled(t, text, key.len);
    if (id >= 0) return id;
    id = as_it_stands; /* as unused tokens are spelled */
    return id >= 0 && t->tokens[id].bytes.data == t->tokens[id].text.data ? id : -1;
}

bool kg_tokenizer_is_special(const struct kg_tokenizer *t, int32_t id) {
    if (id < 0 || (size_t)id >= t->n_tokens) return false;
    const enum kg_token_type type = t->tokens[id].type;
    return type == KG_TOKEN_CONTROL || type == KG_TOKEN_UNKNOWN || type == KG_TOKEN_UNUSED;
}

bool kg_tokenizer_is_end(const struct kg_tokenizer *t, int32_t id) {
    return id >= 0 && (size_t)id < t->n_tokens && t->tokens[id].end;
}
