/* Builds a tokenizer from GGUF metadata (tokenizer.ggml.*). Everything in the file is untrusted. */
#include "base/buffer.h"
#include "base/size.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name

#define SHOW(s) kg_quote((s).data, (s).len).text

/* Returns true and sets *out; returns false if the key is absent, or wrong (*status is then an error). */
static bool optional_str(const struct kg_gguf *g, const char *key, struct kg_str *out, enum kg_status *status,
                         struct kg_error *err) {
    if (!kg_gguf_find_key(g, key)) return false;
    *status = kg_gguf_get_str(g, key, out, err);
    return *status == KG_OK;
}

static enum kg_status load_model(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    struct kg_str model;
    const enum kg_status status = kg_gguf_get_str(g, KEY("model"), &model, err);
    if (status != KG_OK) return status == KG_ERR_NOT_FOUND && err ? (err->status = KG_ERR_FORMAT) : status;
    t->sentencepiece = kg_str_eq(model, "llama");
    if (t->sentencepiece || kg_str_eq(model, "gpt2")) return KG_OK;
    return kg_fail(
        err, KG_ERR_UNSUPPORTED,
        "%s: " KEY("model") " is '%s'; kigo reads 'gpt2' (byte-level BPE) and 'llama' (SentencePiece-style BPE)",
        kg_gguf_path(g), SHOW(model));
}

static enum kg_status load_kind(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    struct kg_str pre = { "default", 7 };
    enum kg_status status = KG_OK;
    optional_str(g, KEY("pre"), &pre, &status, err);
    if (status != KG_OK) return status;
    t->kind = kg_pre_kind_find(pre);
    if (t->kind) {
        t->ignore_merges = t->kind->ignore_merges;
        if (kg_gguf_find_key(g, KG_IGNORE_MERGES_KEY))
            status = kg_gguf_get_bool(g, KG_IGNORE_MERGES_KEY, &t->ignore_merges, err);
        return status == KG_OK ? kg_pretokenizer_create(t->kind, &t->pre, err) : status;
    }
    struct kg_buffer known = KG_BUFFER_INIT;
    for (size_t i = 0; i < KG_N_PRE_KINDS; i++) kg_buffer_printf(&known, "%s%s", i ? ", " : "", KG_PRE_KINDS[i].name);
    kg_fail(err, KG_ERR_UNSUPPORTED, "%s: " KEY("pre") " is '%s'; kigo knows %s", kg_gguf_path(g), SHOW(pre),
            kg_buffer_text(&known));
    kg_buffer_free(&known);
    return KG_ERR_UNSUPPORTED;
}

static enum kg_status get_array(const struct kg_gguf *g, const char *key, enum kg_gguf_type type,
                                const struct kg_gguf_key **out, struct kg_error *err) {
    if (!kg_gguf_find_key(g, key)) return kg_fail(err, KG_ERR_FORMAT, "%s: no key %s", kg_gguf_path(g), key);
    return kg_gguf_get_array(g, key, type, out, err);
}

/* How a token's text is spelled: plainly if it is found in raw text, otherwise by the rules of the tokenizer model. */
static bool is_plain(enum kg_token_type type) {
    return type != KG_TOKEN_NORMAL && type != KG_TOKEN_UNDEFINED && type != KG_TOKEN_BYTE;
}

/* Writes the bytes that a token decodes to; out has room for its text. False if they equal its text. */
static bool spelled_bytes(const struct kg_tokenizer *t, const struct kg_token *token, char *out, size_t *n) {
    if (is_plain(token->type)) return false;
    if (!t->sentencepiece) return kg_byte_level_decode(token->text.data, token->text.len, out, n);
    unsigned char byte;
    if (token->type != KG_TOKEN_BYTE || !kg_sentencepiece_byte(token->text, &byte)) {
        *n = kg_sentencepiece_decode(token->text, out);
        return true;
    }
    out[0] = (char)byte;
    *n = 1;
    return true;
}

static enum kg_status load_type(const struct kg_gguf *g, const struct kg_gguf_key *types, size_t i,
                                enum kg_token_type *out, struct kg_error *err) {
    *out = KG_TOKEN_NORMAL;
    if (!types) return KG_OK;
    const int64_t type = kg_gguf_array_int(types, i);
    if (type < KG_TOKEN_UNDEFINED || type > KG_TOKEN_BYTE)
        return kg_fail(err, KG_ERR_FORMAT, "%s: " KEY("token_type") "[%zu] is %" PRId64 ", no token type",
                       kg_gguf_path(g), i, type);
    *out = (enum kg_token_type)type;
    return KG_OK;
}

static enum kg_status find_types(const struct kg_gguf *g, uint64_t n_tokens, const struct kg_gguf_key **types,
                                 struct kg_error *err) {
    *types = NULL;
    if (!kg_gguf_find_key(g, KEY("token_type"))) return KG_OK;
    const enum kg_status status = kg_gguf_get_array(g, KEY("token_type"), KG_GGUF_I32, types, err);
    if (status != KG_OK) return status;
    if ((*types)->value.array.n == n_tokens) return KG_OK;
    return kg_fail(err, KG_ERR_FORMAT, "%s: " KEY("token_type") " has %" PRIu64 " elements for %" PRIu64 " tokens",
                   kg_gguf_path(g), (*types)->value.array.n, n_tokens);
}

static enum kg_status load_tokens(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    const struct kg_gguf_key *texts, *types;
    enum kg_status status = get_array(g, KEY("tokens"), KG_GGUF_STRING, &texts, err);
    if (status != KG_OK) return status;
    const uint64_t n = texts->value.array.n;
    if (n == 0 || n > INT32_MAX)
        return kg_fail(err, KG_ERR_FORMAT, "%s: " KEY("tokens") " has %" PRIu64 " elements", kg_gguf_path(g), n);
    status = find_types(g, n, &types, err);
    if (status != KG_OK) return status;

    size_t n_bytes = 0;
    for (size_t i = 0; i < n; i++) n_bytes += texts->value.array.strings[i].len;
    t->arena = kg_xmalloc(2 * n_bytes + 1); /* each text and its decoded bytes, which are never longer */
    t->tokens = kg_xcalloc(n, sizeof *t->tokens);
    t->n_tokens = n;
    kg_text_map_init(&t->by_text, n, &t->tokens[0].text, sizeof *t->tokens);
    char *free_bytes = t->arena;
    for (size_t i = 0; i < n; i++) {
        struct kg_token *token = &t->tokens[i];
        const struct kg_str text = texts->value.array.strings[i];
        status = load_type(g, types, i, &token->type, err);
        if (status != KG_OK) return status;
        if (kg_utf8_first_error(text.data, text.len) != text.len)
            return kg_fail(err, KG_ERR_FORMAT, "%s: token %zu is not valid UTF-8", kg_gguf_path(g), i);
        if (text.len > 0) memcpy(free_bytes, text.data, text.len);
        token->text = (struct kg_str){ free_bytes, text.len };
        free_bytes += text.len;
        token->bytes = token->text;
        size_t n_decoded;
        if (spelled_bytes(t, token, free_bytes, &n_decoded)) {
            token->bytes = (struct kg_str){ free_bytes, n_decoded };
            free_bytes += n_decoded;
        }
        const int32_t other = kg_text_map_add(&t->by_text, (int32_t)i);
        if (other >= 0)
            return kg_fail(err, KG_ERR_FORMAT, "%s: tokens %" PRId32 " and %zu are both '%s'", kg_gguf_path(g), other,
                           i, SHOW(text));
    }
    return KG_OK;
}

/* A merge is the string "left right"; left, right and their concatenation must be tokens. */
static enum kg_status load_merge(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_str text, size_t rank,
                                 struct kg_buffer *joined, struct kg_error *err) {
    const char *space = text.len > 1 ? memchr(text.data + 1, ' ', text.len - 1) : NULL;
    if (!space || space + 1 == text.data + text.len)
        return kg_fail(err, KG_ERR_FORMAT, "%s: " KEY("merges") "[%zu] is '%s', not two tokens", kg_gguf_path(g), rank,
                       SHOW(text));
    const struct kg_str left = { text.data, (size_t)(space - text.data) };
    const struct kg_str right = { space + 1, text.len - left.len - 1 };
    kg_buffer_clear(joined);
    kg_buffer_append(joined, left.data, left.len);
    kg_buffer_append(joined, right.data, right.len);
    const struct kg_str parts[] = { left, right, { joined->data, joined->len } };
    int32_t ids[3];
    for (size_t i = 0; i < KG_COUNT_OF(parts); i++) {
        ids[i] = kg_text_map_find(&t->by_text, parts[i]);
        if (ids[i] < 0)
            return kg_fail(err, KG_ERR_FORMAT, "%s: " KEY("merges") "[%zu] is '%s', but '%s' is no token",
                           kg_gguf_path(g), rank, SHOW(text), SHOW(parts[i]));
    }
    kg_bpe_add(&t->bpe, ids[0], ids[1], (uint32_t)rank, ids[2]);
    return KG_OK;
}

enum kg_status kg_tokenizer_load_merges(struct kg_tokenizer *t, const struct kg_gguf *g, size_t n_more,
                                        struct kg_error *err) {
    const struct kg_gguf_key *merges;
    enum kg_status status = get_array(g, KEY("merges"), KG_GGUF_STRING, &merges, err);
    if (status != KG_OK) return status;
    const uint64_t n = merges->value.array.n;
    if (n >= UINT32_MAX) return kg_fail(err, KG_ERR_FORMAT, "%s: %" PRIu64 " merges", kg_gguf_path(g), n);
    kg_bpe_init(&t->bpe, n + n_more);
    struct kg_buffer joined = KG_BUFFER_INIT;
    for (size_t i = 0; i < n && status == KG_OK; i++)
        status = load_merge(t, g, merges->value.array.strings[i], i, &joined, err);
    kg_buffer_free(&joined);
    return status;
}

/* Finds the id of each byte by its spelling among the normal tokens. */
static enum kg_status load_byte_level(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    const enum kg_status status = kg_tokenizer_load_merges(t, g, 0, err);
    if (status != KG_OK) return status;
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[KG_UTF8_MAX_BYTES];
        const size_t n = kg_utf8_put(kg_byte_level_code_point((unsigned char)byte), text);
        t->bpe.byte_ids[byte] = kg_text_map_find(&t->by_text, (struct kg_str){ text, n });
    }
    return KG_OK;
}

/* *id is -1 if the key is absent. */
static enum kg_status load_id(const struct kg_tokenizer *t, const struct kg_gguf *g, const char *key, int32_t *id,
                              struct kg_error *err) {
    *id = -1;
    if (!kg_gguf_find_key(g, key)) return KG_OK;
    uint32_t value;
    const enum kg_status status = kg_gguf_get_u32(g, key, &value, err);
    if (status != KG_OK) return status;
    if (value >= t->n_tokens)
        return kg_fail(err, KG_ERR_FORMAT, "%s: %s is %" PRIu32 ", but there are %zu tokens", kg_gguf_path(g), key,
                       value, t->n_tokens);
    *id = (int32_t)value;
    return KG_OK;
}

/* SentencePiece files without bos and eos keys have them at the ids that its trainer assigns. */
static int32_t usual_id(const struct kg_tokenizer *t, int32_t id, int32_t usual) {
    const bool stands = (size_t)usual < t->n_tokens && t->tokens[usual].type == KG_TOKEN_CONTROL;
    return id < 0 && stands ? usual : id;
}

static enum kg_status load_ids(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    static const char *const CHECKED[] = { KEY("unknown_token_id"), KEY("padding_token_id"),
                                           KEY("seperator_token_id") };
    static const char *const ENDS[] = { KEY("eot_token_id"), KEY("eom_token_id") };
    int32_t id;
    enum kg_status status = load_id(t, g, KEY("bos_token_id"), &t->bos, err);
    if (status == KG_OK) status = load_id(t, g, KEY("eos_token_id"), &t->eos, err);
    if (status == KG_OK && t->sentencepiece) {
        t->bos = usual_id(t, t->bos, 1);
        t->eos = usual_id(t, t->eos, 2);
    }
    if (status == KG_OK && t->eos >= 0) t->tokens[t->eos].end = true;
    for (size_t i = 0; i < KG_COUNT_OF(ENDS) && status == KG_OK; i++) {
        status = load_id(t, g, ENDS[i], &id, err);
        if (status == KG_OK && id >= 0) t->tokens[id].end = true;
    }
    for (size_t i = 0; i < KG_COUNT_OF(CHECKED) && status == KG_OK; i++) status = load_id(t, g, CHECKED[i], &id, err);
    return status;
}

/* An absent flag leaves *flag unchanged; a flag that is set needs its token. */
static enum kg_status load_flag(const struct kg_gguf *g, const char *key, const char *id_key, int32_t id, bool *flag,
                                struct kg_error *err) {
    enum kg_status status = KG_OK;
    if (kg_gguf_find_key(g, key)) status = kg_gguf_get_bool(g, key, flag, err);
    if (status == KG_OK && *flag && id < 0)
        status = kg_fail(err, KG_ERR_FORMAT, "%s: %s is true, but there is no %s", kg_gguf_path(g), key, id_key);
    return status;
}

static enum kg_status load_flags(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    t->adds_bos = t->sentencepiece && t->bos >= 0;
    enum kg_status status = load_flag(g, KEY("add_bos_token"), KEY("bos_token_id"), t->bos, &t->adds_bos, err);
    if (status == KG_OK) status = load_flag(g, KEY("add_eos_token"), KEY("eos_token_id"), t->eos, &t->adds_eos, err);
    return status;
}

static enum kg_status load_chat(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    struct kg_str text;
    enum kg_status status = KG_OK;
    if (optional_str(g, "tokenizer.chat_template", &text, &status, err)) {
        t->chat_template = kg_xstrndup(text.len ? text.data : "", text.len);
        kg_chat_recognise(t);
    }
    return status;
}

enum kg_status kg_tokenizer_create(const struct kg_gguf *g, struct kg_tokenizer **tokenizer, struct kg_error *err) {
    struct kg_tokenizer *t = kg_xcalloc(1, sizeof *t);
    t->bos = t->eos = -1;
    t->channel_marks = (struct kg_channel_marks){ -1, -1, -1, -1 };
    enum kg_status status = load_model(t, g, err);
    if (status == KG_OK && !t->sentencepiece) status = load_kind(t, g, err);
    if (status == KG_OK) status = load_tokens(t, g, err);
    if (status == KG_OK) status = kg_tokenizer_load_normalised(t, g, err);
    if (status == KG_OK) status = t->sentencepiece ? kg_sentencepiece_load(t, g, err) : load_byte_level(t, g, err);
    if (status == KG_OK) status = load_ids(t, g, err);
    if (status == KG_OK) status = load_flags(t, g, err);
    if (status == KG_OK) status = kg_tokenizer_load_added(t, g, err);
    if (status == KG_OK) status = load_chat(t, g, err);
    if (status != KG_OK) {
        kg_tokenizer_free(t);
        return status;
    }
    *tokenizer = t;
    return KG_OK;
}

enum kg_status kg_tokenizer_open(const char *gguf_path, struct kg_tokenizer **tokenizer, struct kg_error *err) {
    struct kg_gguf *g;
    enum kg_status status = kg_gguf_open(gguf_path, &g, err);
    if (status != KG_OK) return status;
    status = kg_tokenizer_create(g, tokenizer, err);
    kg_gguf_close(g);
    return status;
}

void kg_tokenizer_free(struct kg_tokenizer *t) {
    if (!t) return;
    free(t->chat_default_system);
    free(t->chat_template);
    kg_special_free(&t->normalised);
    kg_special_free(&t->special);
    kg_bpe_free(&t->bpe);
    kg_pretokenizer_free(t->pre);
    kg_text_map_free(&t->by_text);
    free(t->tokens);
    free(t->arena);
    free(t);
}
