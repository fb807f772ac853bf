/* Generated ids as text for a reader. In a format with channels an answer is a run of messages, each
 *     <|start|> role <|channel|> channel ... <|message|> body <|end|>
 * The prompt has already begun the first one. Headers are hidden and bodies are shown. A body is preceded by its
 * channel's name if the channel is not "final", or follows another message. */
#include "base/buffer.h"
#include "tokenizer/chat.h"
#include "tokenizer/tokenizer.h"
#include <stdlib.h>
#include <string.h>

void kg_text_stream_begin(struct kg_text_stream *s, const struct kg_tokenizer *t, const int32_t *prompt,
                          size_t n_prompt) {
    *s = (struct kg_text_stream){ .tokenizer = t, .at_start = t->add_space_prefix, .is_final = true };
    const struct kg_channel_marks *marks = &t->channel_marks;
    if (marks->message < 0) return;
    for (size_t i = n_prompt; i-- > 0;) {
        if (prompt[i] == marks->message) return;
        s->in_header = prompt[i] == marks->start || prompt[i] == marks->channel || prompt[i] == marks->end;
        if (!s->in_header) continue;
        s->in_name = prompt[i] == marks->channel;
        return;
    }
}

static void put_body_head(struct kg_text_stream *s, struct kg_buffer *out) {
    s->is_final = strcmp(s->channel, "final") == 0 || !*s->channel;
    if (s->final_only) return;
    if (s->shown_any) kg_buffer_puts(out, "\n\n");
    if (s->shown_any || !s->is_final) kg_buffer_printf(out, "[%s]\n", *s->channel ? s->channel : "final");
    s->shown_any = true;
}

/* The channel is the first word after the channel mark. */
static void put_name(struct kg_text_stream *s, const char *bytes, size_t len) {
    size_t n = strlen(s->channel);
    for (size_t i = 0; i < len && s->in_name; i++) {
        if (n > 0 && bytes[i] == ' ') s->in_name = false;
        else if (bytes[i] > ' ' && bytes[i] < 0x7f && n + 1 < sizeof s->channel) s->channel[n++] = bytes[i];
    }
}

/* Consumes a mark or header text; false if the token is to be shown. */
static bool take_header(struct kg_text_stream *s, int32_t id, const char *bytes, size_t len, struct kg_buffer *out) {
    const struct kg_channel_marks *marks = &s->tokenizer->channel_marks;
    if (marks->message < 0) return false;
    if (id == marks->message && s->in_header) {
        put_body_head(s, out);
        s->in_header = s->in_name = false;
    } else if (id == marks->start || id == marks->end || id == marks->channel ||
               kg_tokenizer_is_end(s->tokenizer, id)) {
        kg_utf8_stream_finish(&s->utf8, out);
        s->in_header = true;
        s->in_name = id == marks->channel;
        memset(s->channel, 0, sizeof s->channel);
    } else if (s->in_header) {
        put_name(s, bytes, len);
    } else {
        return s->final_only && !s->is_final;
    }
    return true;
}

enum kg_status kg_text_stream_push(struct kg_text_stream *s, int32_t id, struct kg_buffer *out, struct kg_error *err) {
    const char *bytes;
    size_t len;
    const enum kg_status status = kg_tokenizer_token_bytes(s->tokenizer, id, false, &bytes, &len, err);
    if (status != KG_OK || take_header(s, id, bytes, len, out)) return status;
    const size_t n_prefix = s->at_start && len > 0 && bytes[0] == ' ';
    if (len > 0) s->at_start = false;
    if (len > n_prefix) s->shown_any = true;
    kg_utf8_stream_push(&s->utf8, bytes + n_prefix, len - n_prefix, out);
    return KG_OK;
}

void kg_text_stream_finish(struct kg_text_stream *s, struct kg_buffer *out) {
    kg_utf8_stream_finish(&s->utf8, out);
}

enum kg_status kg_tokenizer_show(const struct kg_tokenizer *t, const int32_t *prompt, size_t n_prompt,
                                 const int32_t *ids, size_t n, bool final_only, char **text, size_t *len,
                                 struct kg_error *err) {
    struct kg_text_stream stream;
    struct kg_buffer out = KG_BUFFER_INIT;
    enum kg_status status = KG_OK;
    kg_text_stream_begin(&stream, t, prompt, n_prompt);
    stream.final_only = final_only;
    kg_buffer_append(&out, "", 0); /* so that an empty text is allocated, too */
    for (size_t i = 0; i < n && status == KG_OK; i++) status = kg_text_stream_push(&stream, ids[i], &out, err);
    if (status != KG_OK) {
        kg_buffer_free(&out);
        return status;
    }
    kg_text_stream_finish(&stream, &out);
    *text = out.data;
    *len = out.len;
    return KG_OK;
}

bool kg_chat_has_channels(const struct kg_tokenizer *t) {
    return t->channel_marks.message >= 0;
}
