#include "suites/support/vocabulary.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "format/gguf.h"
#include "tokenizer/byte_level.h"
#include "base/utf8.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

struct kg_tokenizer *published_vocabulary(const char *name) {
    static struct {
        const char *name;
        struct kg_tokenizer *tokenizer;
    } opened[] = { { "qwen2.5", NULL }, { "o200k", NULL }, { "gpt2", NULL }, { "phi3", NULL }, { "small", NULL } };
    for (size_t i = 0; i < KG_COUNT_OF(opened); i++) {
        if (strcmp(opened[i].name, name) != 0) continue;
        if (opened[i].tokenizer) return opened[i].tokenizer;
        char *relative = kg_xasprintf("tokenizers/%s/vocab.gguf", name);
        struct kg_error err = { 0 };
        const enum kg_status status = kg_tokenizer_open(kg_built_fixture_path(relative), &opened[i].tokenizer, &err);
        free(relative);
        ck_assert_msg(status == KG_OK, "%s", err.message);
        return opened[i].tokenizer;
    }
    ck_abort_msg("no published vocabulary is named %s", name);
    return NULL;
}

json_t *fixture_lines(const char *relative) {
    char *text = NULL;
    size_t len = 0;
    struct kg_error err = { 0 };
    ck_assert_msg(kg_file_read(kg_fixture_path(relative), &text, &len, &err) == KG_OK, "%s", err.message);
    json_t *lines = json_array();
    for (const char *at = text; at < text + len;) {
        const char *end = memchr(at, '\n', (size_t)(text + len - at));
        if (!end) end = text + len;
        json_error_t why;
        json_t *line = json_loadb(at, (size_t)(end - at), JSON_ALLOW_NUL, &why);
        ck_assert_msg(json_is_object(line), "%s, line %zu: %s", relative, json_array_size(lines) + 1, why.text);
        json_array_append_new(lines, line);
        at = end + 1;
    }
    free(text);
    ck_assert_uint_gt(json_array_size(lines), 0);
    return lines;
}

/* Gathered tokens; texts are kept in the buffer, whose memory is reserved before and does not move. */
struct gathered {
    struct kg_str texts[SMALL_FIRST_EXTRA + 6];
    int32_t types[SMALL_FIRST_EXTRA + 6];
    size_t n;
    struct kg_buffer bytes;
};

static void gather(struct gathered *g, const char *text, size_t len, int32_t type) {
    const size_t at = g->bytes.len;
    kg_buffer_append(&g->bytes, text, len);
    g->types[g->n] = type ? type : 1;
    g->texts[g->n++] = (struct kg_str){ g->bytes.data + at, len };
}

static void gather_tokens(struct gathered *g, const struct small_vocabulary *v) {
    static const char *const MERGED[] = { "he", "ll", "hell" };
    kg_buffer_reserve(&g->bytes, 1 << 16);
    for (unsigned byte = 0; byte < 256; byte++) {
        char spelled[KG_UTF8_MAX_BYTES];
        const size_t n = kg_utf8_put(kg_byte_level_code_point((unsigned char)byte), spelled);
        if (v->lacks_byte_h && byte == 'h') gather(g, "no-h", 4, 1);
        else gather(g, spelled, n, 1);
    }
    for (size_t i = 0; i < KG_COUNT_OF(MERGED); i++) gather(g, MERGED[i], strlen(MERGED[i]), 1);
    for (size_t i = 0; i < KG_COUNT_OF(v->extra_tokens) && v->extra_tokens[i]; i++)
        gather(g, v->extra_tokens[i], strlen(v->extra_tokens[i]), v->extra_types[i]);
}

static void write_text(struct kg_gguf_writer *w, const char *key, const char *text, const char *otherwise) {
    if (!text) text = otherwise;
    if (text && *text) kg_gguf_writer_str(w, key, text, strlen(text));
}

static void write_merges(struct kg_gguf_writer *w, const struct small_vocabulary *v) {
    struct kg_str merges[3 + KG_COUNT_OF(v->extra_merges)] = { { "h e", 3 }, { "l l", 3 }, { "he ll", 5 } };
    size_t n = v->lacks_byte_h ? 0 : 3;
    for (size_t i = 0; i < KG_COUNT_OF(v->extra_merges) && v->extra_merges[i]; i++)
        merges[n++] = (struct kg_str){ v->extra_merges[i], strlen(v->extra_merges[i]) };
    kg_gguf_writer_strings(w, "tokenizer.ggml.merges", merges, n);
}

static void write_keys(struct kg_gguf_writer *w, const struct small_vocabulary *v, const struct gathered *g) {
    kg_gguf_writer_str(w, "general.architecture", "gpt2", 4);
    write_text(w, "tokenizer.ggml.model", v->model, "gpt2");
    write_text(w, "tokenizer.ggml.pre", v->pre, "gpt-2");
    write_text(w, "tokenizer.chat_template", v->chat_template, NULL);
    if (v->tokens_are_numbers) kg_gguf_writer_i32s(w, "tokenizer.ggml.tokens", g->types, g->n);
    else if (!v->no_tokens) kg_gguf_writer_strings(w, "tokenizer.ggml.tokens", g->texts, g->n);
    if (!v->no_types) kg_gguf_writer_i32s(w, "tokenizer.ggml.token_type", g->types, g->n - v->types_cut_short);
    if (!v->no_merges) write_merges(w, v);
    if (v->id_key) {
        char *key = kg_xasprintf("tokenizer.ggml.%s", v->id_key);
        kg_gguf_writer_u32(w, key, v->id_value);
        free(key);
    }
    if (v->eos_id) kg_gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", v->eos_id);
    if (v->adds_bos) kg_gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", true);
}

enum kg_status small_vocabulary_open(struct kg_record *rec, const struct small_vocabulary *v, struct kg_tokenizer **t,
                                     struct kg_error *err) {
    struct gathered g = { .n = 0 };
    gather_tokens(&g, v);
    struct kg_gguf_writer *w = kg_gguf_writer_new(32);
    write_keys(w, v, &g);
    char *path = kg_path_join(kg_scratch_dir(rec), "small.gguf");
    ck_assert_msg(kg_gguf_writer_finish(w, path, err) == KG_OK, "%s", err->message);
    kg_gguf_writer_free(w);
    kg_buffer_free(&g.bytes);
    const enum kg_status status = kg_tokenizer_open(path, t, err);
    free(path);
    return status;
}

void expect_ids(const struct kg_tokenizer *t, const char *text, size_t len, bool parse_special, const int32_t *ids,
                size_t n) {
    struct kg_ids got = { 0 };
    struct kg_error err = { 0 };
    ck_assert_msg(kg_tokenizer_encode(t, text, len, parse_special, &got, &err) == KG_OK, "%s", err.message);
    for (size_t i = 0; i < got.n && i < n; i++)
        ck_assert_msg(got.ids[i] == ids[i], "id %zu of '%.*s' is %d, not %d", i, (int)len, text, (int)got.ids[i],
                      (int)ids[i]);
    ck_assert_msg(got.n == n, "'%.*s' has %zu ids, not %zu", (int)len, text, got.n, n);
    kg_ids_free(&got);
}
