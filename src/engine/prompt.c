#include "engine/prompt.h"
#include "base/buffer.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void begin_sequence(const struct kg_tokenizer *t, size_t first, struct kg_ids *ids) {
    const int32_t bos = kg_tokenizer_bos(t);
    if (!kg_tokenizer_adds_bos(t) || bos < 0) return;
    if (ids->n > first && ids->ids[first] == bos) return;
    kg_ids_push(ids, bos); /* makes room at the end, then moves to the front */
    memmove(ids->ids + first + 1, ids->ids + first, (ids->n - 1 - first) * sizeof *ids->ids);
    ids->ids[first] = bos;
}

enum kg_status kg_prompt_encode_text(const struct kg_tokenizer *t, const char *text, size_t len, struct kg_ids *ids,
                                     struct kg_error *err) {
    const size_t first = ids->n;
    const enum kg_status status = kg_tokenizer_encode(t, text, len, true, ids, err);
    if (!status) begin_sequence(t, first, ids);
    return status;
}

/* Whether a text holds a special token written out: its ids differ when such are looked for. */
static enum kg_status holds_special(const struct kg_tokenizer *t, const char *text, bool *holds, struct kg_error *err) {
    struct kg_ids plain = { 0 }, parsed = { 0 };
    enum kg_status status = kg_tokenizer_encode(t, text, strlen(text), false, &plain, err);
    if (!status) status = kg_tokenizer_encode(t, text, strlen(text), true, &parsed, err);
    if (!status)
        *holds = plain.n != parsed.n || (plain.n && memcmp(plain.ids, parsed.ids, plain.n * sizeof *plain.ids) != 0);
    kg_ids_free(&parsed);
    kg_ids_free(&plain);
    return status;
}

static void mark_of(size_t index, char mark[32]) {
    snprintf(mark, 32, "\x02message-%zu\x03", index);
}

/* Encodes the format's own text with special tokens and the messages' without, piece by piece. Where the pieces are is
 * known from rendering marks in the messages' place. */
static enum kg_status encode_apart(const struct kg_tokenizer *t, const struct kg_chat_message *messages, size_t n,
                                   struct kg_ids *ids, struct kg_error *err) {
    struct kg_chat_message *marked = kg_xcalloc(n, sizeof *marked);
    char(*marks)[32] = kg_xcalloc(n, sizeof *marks);
    char *rendered = NULL;
    for (size_t i = 0; i < n; i++) {
        mark_of(i, marks[i]);
        marked[i] = (struct kg_chat_message){ .role = messages[i].role, .content = marks[i] };
    }
    enum kg_status status = kg_chat_render(t, marked, n, true, &rendered, err);
    const char *rest = rendered;
    for (size_t i = 0; i < n && !status; i++) {
        const char *mark = strstr(rest, marks[i]);
        if (!mark) {
            status = kg_fail(err, KG_ERR_UNSUPPORTED, "the chat format leaves out message %zu", i);
            break;
        }
        status = kg_tokenizer_encode(t, rest, (size_t)(mark - rest), true, ids, err);
        if (!status) status = kg_tokenizer_encode(t, messages[i].content, strlen(messages[i].content), false, ids, err);
        rest = mark + strlen(marks[i]);
    }
    if (!status) status = kg_tokenizer_encode(t, rest, strlen(rest), true, ids, err);
    free(rendered);
    free(marks);
    free(marked);
    return status;
}

enum kg_status kg_prompt_encode_chat(const struct kg_tokenizer *t, const struct kg_chat_message *messages,
                                     size_t n_messages, char **rendered, struct kg_ids *ids, struct kg_error *err) {
    const size_t first = ids->n;
    bool any_special = false;
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < n_messages && !status && !any_special; i++)
        status = holds_special(t, messages[i].content, &any_special, err);
    char *text = NULL;
    if (!status) status = kg_chat_render(t, messages, n_messages, true, &text, err);
    /* As one text where that is safe: a word may then join the format's text before it, as in other programs. */
    if (!status && any_special) status = encode_apart(t, messages, n_messages, ids, err);
    if (!status && !any_special) status = kg_tokenizer_encode(t, text, strlen(text), true, ids, err);
    if (status) {
        free(text);
        return status;
    }
    begin_sequence(t, first, ids);
    *rendered = text;
    return KG_OK;
}
