/* Tokenizer: text to token ids and back, defined by the model's GGUF metadata (tokenizer.ggml.*).
 *
 * A tokenizer is const after creation: any number of threads may share it. */
#ifndef KIGO_TOKENIZER_H
#define KIGO_TOKENIZER_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kg_gguf;
struct kg_tokenizer;

struct kg_ids {
    int32_t *ids; /* malloc'ed, owned by the struct */
    size_t n;
    size_t capacity;
};

void kg_ids_free(struct kg_ids *ids);
void kg_ids_push(struct kg_ids *ids, int32_t id);

/* Builds a tokenizer. It copies what it needs, so the file may be closed afterwards. KG_ERR_UNSUPPORTED names a
 * tokenizer model or pre-tokenizer that kigo does not know; KG_ERR_FORMAT reports contradictory or missing metadata. */
KG_WARN_UNUSED enum kg_status kg_tokenizer_create(const struct kg_gguf *gguf, struct kg_tokenizer **tokenizer,
                                                  struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_tokenizer_open(const char *gguf_path, struct kg_tokenizer **tokenizer,
                                                struct kg_error *err);
void kg_tokenizer_free(struct kg_tokenizer *tokenizer);

/* Appends the ids of text[0..len), which may hold NUL and must be valid UTF-8 (else KG_ERR_FORMAT naming the byte
 * offset). With parse_special, special tokens written in the text become their ids; without it they are plain text.
 * No bos or eos is added. Time is linear in len. */
KG_WARN_UNUSED enum kg_status kg_tokenizer_encode(const struct kg_tokenizer *tokenizer, const char *text, size_t len,
                                                  bool parse_special, struct kg_ids *ids, struct kg_error *err);

/* The same for text that continues earlier text: a SentencePiece vocabulary adds no space before it. */
KG_WARN_UNUSED enum kg_status kg_tokenizer_encode_inside(const struct kg_tokenizer *tokenizer, const char *text,
                                                         size_t len, bool parse_special, struct kg_ids *ids,
                                                         struct kg_error *err);

/* The bytes that one token adds to decoded text; they belong to the tokenizer. Special tokens give "" unless
 * keep_special. KG_ERR_RANGE for an id outside the vocabulary. */
KG_WARN_UNUSED enum kg_status kg_tokenizer_token_bytes(const struct kg_tokenizer *tokenizer, int32_t id,
                                                       bool keep_special, const char **bytes, size_t *len,
                                                       struct kg_error *err);

/* Decodes ids to a malloc'ed, NUL-terminated text of *len bytes. Invalid UTF-8 (a character cut off at the end, bytes
 * that form no character) becomes U+FFFD, one per maximal ill-formed subsequence (Unicode 15, 3.9). */
KG_WARN_UNUSED enum kg_status kg_tokenizer_decode(const struct kg_tokenizer *tokenizer, const int32_t *ids, size_t n,
                                                  bool keep_special, char **text, size_t *len, struct kg_error *err);

/* Streaming decode: outputs only whole UTF-8 characters and keeps an incomplete one for the next push. */
struct kg_utf8_stream {
    unsigned char pending[4];
    size_t n_pending;
};
struct kg_buffer;
void kg_utf8_stream_push(struct kg_utf8_stream *stream, const char *bytes, size_t len, struct kg_buffer *out);
void kg_utf8_stream_finish(struct kg_utf8_stream *stream, struct kg_buffer *out);

/* The text that a user sees of generated ids, token by token: whole characters only, special tokens hidden. The pieces
 * together equal kg_tokenizer_decode's text, except in a chat format with channels (harmony): there the headers of the
 * answer's messages are hidden, and a message of a channel other than "final" is shown as "[analysis]\n" and its text,
 * then "\n\n[final]\n" before the final message. An answer of a final message alone is plain text. */
struct kg_text_stream {
    const struct kg_tokenizer *tokenizer;
    struct kg_utf8_stream utf8;
    bool final_only; /* set it after begin: hides the messages of all other channels */
    /* private */
    bool at_start, in_header, in_name, is_final, shown_any;
    char channel[24];
};
/* prompt: the ids before the generated ones; a message header may still be open at their end. */
void kg_text_stream_begin(struct kg_text_stream *stream, const struct kg_tokenizer *tokenizer, const int32_t *prompt,
                          size_t n_prompt);
KG_WARN_UNUSED enum kg_status kg_text_stream_push(struct kg_text_stream *stream, int32_t id, struct kg_buffer *out,
                                                  struct kg_error *err);
void kg_text_stream_finish(struct kg_text_stream *stream, struct kg_buffer *out);
/* The same for all ids at once; malloc'ed, NUL-terminated text of *len bytes. */
KG_WARN_UNUSED enum kg_status kg_tokenizer_show(const struct kg_tokenizer *tokenizer, const int32_t *prompt,
                                                size_t n_prompt, const int32_t *ids, size_t n, bool final_only,
                                                char **text, size_t *len, struct kg_error *err);

size_t kg_tokenizer_n_tokens(const struct kg_tokenizer *tokenizer);
/* Number of tokens that may be drawn: all but the run of UNUSED ones at the end, which only pad the vocabulary. */
size_t kg_tokenizer_n_drawable(const struct kg_tokenizer *tokenizer);
/* -1 if the vocabulary has none. */
int32_t kg_tokenizer_bos(const struct kg_tokenizer *tokenizer);
int32_t kg_tokenizer_eos(const struct kg_tokenizer *tokenizer);
/* Whether the model's file asks for bos before a text, and for eos after it. */
bool kg_tokenizer_adds_bos(const struct kg_tokenizer *tokenizer);
bool kg_tokenizer_adds_eos(const struct kg_tokenizer *tokenizer);
/* The id of a token by its exact text (special or not), -1 if there is none. */
int32_t kg_tokenizer_find(const struct kg_tokenizer *tokenizer, const char *text);
bool kg_tokenizer_is_special(const struct kg_tokenizer *tokenizer, int32_t id);
/* True for ids that end a chat turn: eos and the chat format's end marks. */
bool kg_tokenizer_is_end(const struct kg_tokenizer *tokenizer, int32_t id);

/* Chat formats. */
struct kg_chat_message {
    const char *role; /* "system", "user" or "assistant"; in harmony "developer" too */
    const char *content;
};
/* Options of formats whose system message has more fields (harmony); both must be NULL for the others. */
struct kg_chat_options {
    const char *date;      /* "2026-01-31"; NULL: today in local time, as in the publisher's template */
    const char *reasoning; /* effort: "low", "medium" or "high"; NULL: "medium" */
};
/* Renders messages in the model's chat format (ChatML, Phi-3's, harmony, Qwen3's or Gemma 3's, recognised from
 * tokenizer.chat_template); malloc'ed text. With add_generation_prompt it ends where the assistant speaks. The text
 * equals the template's: whatever the template leaves out is left out (harmony: a system message that is not the first;
 * the first Phi-3: any system message). KG_ERR_UNSUPPORTED if the file has no template that kigo knows. KG_ERR_USAGE
 * names a role that the format lacks (such as "tool": tools are not rendered), or an option that it lacks or that is
 * malformed. */
KG_WARN_UNUSED enum kg_status kg_chat_render_with(const struct kg_tokenizer *tokenizer,
                                                  const struct kg_chat_message *messages, size_t n_messages,
                                                  bool add_generation_prompt, const struct kg_chat_options *options,
                                                  char **text, struct kg_error *err);
/* kg_chat_render_with with default options. */
KG_WARN_UNUSED enum kg_status kg_chat_render(const struct kg_tokenizer *tokenizer,
                                             const struct kg_chat_message *messages, size_t n_messages,
                                             bool add_generation_prompt, char **text, struct kg_error *err);
/* "chatml", "phi3", "harmony", "qwen3", "gemma", ...; NULL if kigo knows none for the model. */
const char *kg_chat_format_name(const struct kg_tokenizer *tokenizer);
/* Whether answers have channels, as harmony's do. */
bool kg_chat_has_channels(const struct kg_tokenizer *tokenizer);

#ifdef __cplusplus
}
#endif

#endif
