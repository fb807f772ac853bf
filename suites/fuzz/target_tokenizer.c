#include "suites/fuzz/readers.h"
#include "base/buffer.h"
#include "base/size.h"
#include "base/utf8.h"
#include "format/gguf.h"
#include "suites/support/vocabulary.h"
#include "tokenizer/normalize.h"
#include "tokenizer/special.h"
#include "tokenizer/tokenizer.h"
#include <kigo/tokenizer.h>
#include <stdlib.h>
#include <string.h>

/* White space and U+2581, which SentencePiece writes for it. */
static size_t spaces_span(const char *text, size_t len) {
    static const char MARK[] = "\u2581";
    const size_t n_mark = sizeof MARK - 1;
    size_t at = 0, before;
    do {
        before = at;
        at += kg_white_space_span(text + at, len - at);
        if (len - at >= n_mark && memcmp(text + at, MARK, n_mark) == 0) at += n_mark;
    } while (at != before);
    return at;
}

/* Text whose special tokens swallow white space, or with U+2581, comes back otherwise: what is not such must be the
 * same, in order. */
static bool same_but_spaces(const char *text, size_t len, const char *back, size_t n_back) {
    size_t at = 0, in = 0;
    for (;;) {
        at += spaces_span(text + at, len - at);
        in += spaces_span(back + in, n_back - in);
        if (at == len || in == n_back) return at == len && in == n_back;
        const size_t n = kg_utf8_length(text[at]);
        if (n > n_back - in || memcmp(text + at, back + in, n) != 0) return false;
        at += n;
        in += n;
    }
}

/* Valid text comes back as it was, or in form C, which some kinds of vocabularies ask for; SentencePiece's may change
 * spaces. */
static void expect_round_trip(const struct kg_tokenizer *t, const char *text, size_t len, const struct kg_ids *ids) {
    struct kg_error err = { .status = KG_OK };
    struct kg_buffer composed = KG_BUFFER_INIT;
    char *back;
    size_t n_back;
    if (kg_tokenizer_decode(t, ids->ids, ids->n, true, &back, &n_back, &err) != KG_OK)
        kg_fuzz_give_up("%s", err.message);
    if (kg_nfc_append(text, len, &composed, &err) != KG_OK) kg_fuzz_give_up("%s", err.message);
    if (!kg_utf8_valid(back, n_back)) kg_fuzz_give_up("the text decoded is not UTF-8");
    const bool as_it_was = n_back == len && (len == 0 || memcmp(back, text, len) == 0);
    const bool in_form_c = n_back == composed.len && (n_back == 0 || memcmp(back, composed.data, n_back) == 0);
    const bool in_pieces = t->sentencepiece && same_but_spaces(text, len, back, n_back);
    if (!as_it_was && !in_form_c && !in_pieces) kg_fuzz_give_up("the text decoded is not the one encoded");
    kg_buffer_free(&composed);
    free(back);
}

KG_FUZZ_READER(encode) {
    const struct kg_tokenizer *t = published_vocabulary(target->file);
    const char *text = (const char *)data;
    bool accepted = false;
    for (int special = 0; special < 2; special++) {
        struct kg_ids ids = { 0 };
        struct kg_error err = { .status = KG_OK };
        accepted = kg_tokenizer_encode(t, text, size, special, &ids, &err) == KG_OK;
        if (accepted && !kg_utf8_valid(text, size)) kg_fuzz_give_up("what is not UTF-8 is encoded");
        if (!accepted && kg_utf8_valid(text, size)) kg_fuzz_give_up("%s", err.message);
        if (accepted) expect_round_trip(t, text, size, &ids);
        else kg_fuzz_expect_error(&err);
        kg_ids_free(&ids);
    }
    return accepted ? KG_OK : KG_ERR_FORMAT;
}

/* A file of any bytes as a vocabulary; one that loads must serve. */
KG_FUZZ_READER(vocabulary) {
    (void)target;
    static const char SAMPLE[] = "hell <a> \u00e9\u0301\n";
    static const struct kg_chat_message MESSAGE = { "user", "hi" };
    struct kg_gguf *gguf;
    struct kg_tokenizer *t;
    struct kg_error err = { .status = KG_OK };
    if (kg_gguf_parse(data, size, "fuzz", &gguf, &err) != KG_OK) return kg_fuzz_expect_error(&err);
    if (kg_tokenizer_create(gguf, &t, &err) != KG_OK) {
        kg_fuzz_expect_error(&err);
        kg_gguf_close(gguf);
        return err.status;
    }
    kg_gguf_close(gguf); /* everything needed is copied */
    struct kg_ids ids = { 0 };
    char *text;
    size_t len;
    if (kg_tokenizer_encode(t, SAMPLE, sizeof SAMPLE - 1, true, &ids, &err) != KG_OK) kg_fuzz_expect_error(&err);
    for (size_t i = 0; i < kg_tokenizer_n_tokens(t); i++) kg_ids_push(&ids, (int32_t)i);
    if (kg_tokenizer_decode(t, ids.ids, ids.n, true, &text, &len, &err) != KG_OK)
        kg_fuzz_give_up("the tokens of a vocabulary that was accepted are not decoded: %s", err.message);
    if (!kg_utf8_valid(text, len)) kg_fuzz_give_up("the tokens decoded are not UTF-8");
    free(text);
    if (kg_chat_render(t, &MESSAGE, 1, true, &text, &err) != KG_OK) kg_fuzz_expect_error(&err);
    else free(text);
    kg_ids_free(&ids);
    kg_tokenizer_free(t);
    return KG_OK;
}
