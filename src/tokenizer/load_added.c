/* Tokens that are found in text: which tokens, whether in raw or in normalised text, and the white space they take. */
#include "base/buffer.h"
#include "base/size.h"
#include "tokenizer/tokenizer.h"
#include <inttypes.h>
#include <string.h>
#include <strings.h>

/* An element of a list of ids. */
static enum kg_status listed_id(const struct kg_tokenizer *t, const struct kg_gguf *g, const struct kg_gguf_key *ids,
                                uint64_t i, int32_t *id, struct kg_error *err) {
    const int64_t value = kg_gguf_array_int(ids, i);
    if (value < 0 || (uint64_t)value >= t->n_tokens)
        return kg_fail(err, KG_ERR_FORMAT, "%s: %.*s[%" PRIu64 "] is %" PRId64 " of %zu tokens", kg_gguf_path(g),
                       (int)ids->name.len, ids->name.data, i, value, t->n_tokens);
    *id = (int32_t)value;
    return KG_OK;
}

static bool is_control(const struct kg_token *token) {
    return token->type == KG_TOKEN_CONTROL || token->type == KG_TOKEN_UNKNOWN;
}

static bool is_found(const struct kg_token *token) {
    return is_control(token) || token->type == KG_TOKEN_USER_DEFINED;
}

enum kg_status kg_tokenizer_load_normalised(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    const struct kg_gguf_key *ids;
    if (!kg_gguf_find_key(g, KG_NORMALIZED_KEY)) return KG_OK;
    enum kg_status status = kg_gguf_get_array(g, KG_NORMALIZED_KEY, KG_GGUF_I32, &ids, err);
    for (uint64_t i = 0; status == KG_OK && i < ids->value.array.n; i++) {
        int32_t id;
        status = listed_id(t, g, ids, i, &id, err);
        if (status != KG_OK) break;
        if (!is_found(&t->tokens[id]) || t->tokens[id].normalised)
            return kg_fail(err, KG_ERR_FORMAT, "%s: " KG_NORMALIZED_KEY "[%" PRIu64 "] is %" PRId32 ", %s",
                           kg_gguf_path(g), i, id,
                           is_found(&t->tokens[id]) ? "which is listed twice" : "no token that is found in text");
        t->tokens[id].normalised = true;
    }
    return status;
}

/* The text of such a token is normalised like other text; of two tokens with the same normalised text, the first is
 * found. */
static enum kg_status add_normalised(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    const struct kg_gguf_key *ids = kg_gguf_find_key(g, KG_NORMALIZED_KEY);
    const uint64_t n = ids ? ids->value.array.n : 0; /* validated by kg_tokenizer_load_normalised */
    struct kg_buffer text = KG_BUFFER_INIT;
    enum kg_status status = KG_OK;
    for (uint64_t i = 0; i < n && status == KG_OK; i++) {
        const int32_t id = (int32_t)kg_gguf_array_int(ids, i);
        const struct kg_token *token = &t->tokens[id];
        if (token->text.len == 0) continue;
        kg_buffer_clear(&text);
        status = kg_tokenizer_normalise(t, token->text.data, token->text.len, true, &text, err);
        const struct kg_str made = { text.data, text.len };
        if (status == KG_OK && kg_special_find(&t->normalised, made) < 0)
            kg_special_add(&t->normalised, made, id, is_control(token));
    }
    kg_buffer_free(&text);
    return status;
}

static enum kg_status load_found(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    if (!kg_gguf_find_key(g, "tokenizer.ggml.token_type")) {
        /* Old files without token types: bos and eos are special. */
        if (t->bos >= 0) t->tokens[t->bos].type = KG_TOKEN_CONTROL;
        if (t->eos >= 0) t->tokens[t->eos].type = KG_TOKEN_CONTROL;
    }
    kg_special_init(&t->special);
    kg_special_init(&t->normalised);
    const enum kg_status status = add_normalised(t, g, err);
    for (size_t i = 0; status == KG_OK && i < t->n_tokens; i++) {
        const struct kg_token *token = &t->tokens[i];
        if (is_found(token) && !token->normalised)
            kg_special_add(&t->special, token->text, (int32_t)i, is_control(token));
    }
    return status;
}

/* Phi-3's special tokens take the white space after them. GGUF has no key for it; like llama.cpp, decide by
 * general.name. */
static bool is_phi3(const struct kg_tokenizer *t, const struct kg_gguf *g) {
    static const char *const NAMES[] = { "phi-3", "phi3", "phi 3" };
    struct kg_str name;
    struct kg_error ignored;
    if (!t->sentencepiece || kg_gguf_get_str(g, "general.name", &name, &ignored) != KG_OK) return false;
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++) {
        const size_t n = strlen(NAMES[i]);
        for (size_t at = 0; at + n <= name.len; at++)
            if (strncasecmp(name.data + at, NAMES[i], n) == 0) return true;
    }
    return false;
}

static enum kg_status load_rstrip(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    static const char *const NOT_PHI3S[] = { "<unk>", "<s>", "<|endoftext|>" };
    const struct kg_gguf_key *ids;
    if (!kg_gguf_find_key(g, KG_RSTRIP_KEY)) {
        const bool phi3 = is_phi3(t, g);
        for (size_t i = 0; i < t->n_tokens && phi3; i++) t->tokens[i].rstrip = true;
        for (size_t i = 0; i < KG_COUNT_OF(NOT_PHI3S) && phi3; i++) {
            const int32_t id = kg_tokenizer_find(t, NOT_PHI3S[i]);
            if (id >= 0) t->tokens[id].rstrip = false;
        }
        return KG_OK;
    }
    enum kg_status status = kg_gguf_get_array(g, KG_RSTRIP_KEY, KG_GGUF_I32, &ids, err);
    for (uint64_t i = 0; status == KG_OK && i < ids->value.array.n; i++) {
        int32_t id;
        status = listed_id(t, g, ids, i, &id, err);
        if (status == KG_OK) t->tokens[id].rstrip = true;
    }
    return status;
}

enum kg_status kg_tokenizer_load_added(struct kg_tokenizer *t, const struct kg_gguf *g, struct kg_error *err) {
    const enum kg_status status = load_found(t, g, err);
    return status == KG_OK ? load_rstrip(t, g, err) : status;
}
