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

/* The chat with marks in the messages' place, which shows where each of them goes. */
struct marked {
    char (*marks)[32]; /* "" for a message without text, as a format may treat it otherwise */
    char *rendered;
};

static void marked_free(struct marked *m) {
    free(m->rendered);
    free(m->marks);
}

/* KG_ERR_UNSUPPORTED if the format leaves a message out. */
static enum kg_status render_marked(const struct kg_tokenizer *t, const struct kg_chat_message *messages, size_t n,
                                    const struct kg_chat_options *options, struct marked *m, struct kg_error *err) {
    struct kg_chat_message *marked = kg_xcalloc(n, sizeof *marked);
    *m = (struct marked){ .marks = kg_xcalloc(n, sizeof *m->marks) };
    for (size_t i = 0; i < n; i++) {
        if (*messages[i].content) snprintf(m->marks[i], sizeof m->marks[i], "\x02message-%zu\x03", i);
        marked[i] = (struct kg_chat_message){ .role = messages[i].role, .content = m->marks[i] };
    }
    enum kg_status status = kg_chat_render_with(t, marked, n, true, options, &m->rendered, err);
    free(marked);
    for (size_t i = 0; i < n && !status; i++)
        if (!strstr(m->rendered, m->marks[i]))
            status = kg_fail(err, KG_ERR_UNSUPPORTED, "the chat format %s leaves out message %zu, of role '%s'",
                             kg_chat_format_name(t), i, messages[i].role);
    if (status) marked_free(m);
    return status;
}

/* A message's text begins anew behind a special token, as if all were one text. */
static enum kg_status encode_content(const struct kg_tokenizer *t, const char *content, struct kg_ids *ids,
                                     struct kg_error *err) {
    const bool begins = ids->n == 0 || kg_tokenizer_is_special(t, ids->ids[ids->n - 1]);
    return begins ? kg_tokenizer_encode(t, content, strlen(content), false, ids, err)
                  : kg_tokenizer_encode_inside(t, content, strlen(content), false, ids, err);
}

/* Encodes the format's own text with special tokens and the messages' without, piece by piece. */
static enum kg_status encode_apart(const struct kg_tokenizer *t, const struct kg_chat_message *messages, size_t n,
                                   const struct marked *m, struct kg_ids *ids, struct kg_error *err) {
    const char *rest = m->rendered;
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < n && !status; i++) {
        if (!*m->marks[i]) continue;
        const char *mark = strstr(rest, m->marks[i]);
        status = kg_tokenizer_encode(t, rest, (size_t)(mark - rest), true, ids, err);
        if (!status) status = encode_content(t, messages[i].content, ids, err);
        rest = mark + strlen(m->marks[i]);
    }
    return status ? status : kg_tokenizer_encode(t, rest, strlen(rest), true, ids, err);
}

enum kg_status kg_prompt_encode_chat_with(const struct kg_tokenizer *t, const struct kg_chat_message *messages,
                                          size_t n_messages, const struct kg_chat_options *options, char **rendered,
                                          struct kg_ids *ids, struct kg_error *err) {
    const size_t first = ids->n;
    struct marked m;
    char *text = NULL;
    bool any_special = false;
    enum kg_status status = render_marked(t, messages, n_messages, options, &m, err);
    if (status) return status;
    for (size_t i = 0; i < n_messages && !status && !any_special; i++)
        status = holds_special(t, messages[i].content, &any_special, err);
    if (!status) status = kg_chat_render_with(t, messages, n_messages, true, options, &text, err);
    /* As one text where that is safe: a word may then join the format's text before it, as in other programs. */
    if (!status && any_special) status = encode_apart(t, messages, n_messages, &m, ids, err);
    if (!status && !any_special) status = kg_tokenizer_encode(t, text, strlen(text), true, ids, err);
    marked_free(&m);
    if (status) {
        free(text);
        return status;
    }
    begin_sequence(t, first, ids);
    *rendered = text;
    return KG_OK;
}

enum kg_status kg_prompt_encode_chat(const struct kg_tokenizer *t, const struct kg_chat_message *messages,
                                     size_t n_messages, char **rendered, struct kg_ids *ids, struct kg_error *err) {
    return kg_prompt_encode_chat_with(t, messages, n_messages, &(struct kg_chat_options){ 0 }, rendered, ids, err);
}
