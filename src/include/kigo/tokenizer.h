/* Tokenizer: text to token ids and back, as the model's GGUF metadata defines it (tokenizer.ggml.*).
 *
 * Const after creation; any number of threads may use one at once. */
#ifndef KIGO_TOKENIZER_H
#define KIGO_TOKENIZER_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kg_gguf;
struct kg_tokenizer;

struct kg_ids {
    int32_t *ids; /* malloc'ed, owned by the struct */
    size_t n;
    size_t capacity;
};

void kg_ids_free(struct kg_ids *ids);
void kg_ids_push(struct kg_ids *ids, int32_t id);

/* Everything needed is copied: the file may be closed afterwards. KG_ERR_UNSUPPORTED for a model or pre-tokenizer kind
 * kigo does not know, naming it; KG_ERR_FORMAT for contradictory or missing metadata. */
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

/* The same for text that goes on with what stands before it: a SentencePiece vocabulary puts no space in front of it.
 */
KG_WARN_UNUSED enum kg_status kg_tokenizer_encode_inside(const struct kg_tokenizer *tokenizer, const char *text,
                                                         size_t len, bool parse_special, struct kg_ids *ids,
                                                         struct kg_error *err);

/* The bytes of one token as they enter the decoded text: a pointer into the tokenizer. Special tokens give "" unless
 * keep_special. KG_ERR_RANGE for an id outside the vocabulary. */
KG_WARN_UNUSED enum kg_status kg_tokenizer_token_bytes(const struct kg_tokenizer *tokenizer, int32_t id,
                                                       bool keep_special, const char **bytes, size_t *len,
                                                       struct kg_error *err);

/* Decodes ids to a malloc'ed, NUL-terminated text of *len bytes. Invalid UTF-8 (a cut character at the end, bytes that
 * form none) becomes U+FFFD, one per maximal ill-formed subsequence (Unicode 15, 3.9). */
KG_WARN_UNUSED enum kg_status kg_tokenizer_decode(const struct kg_tokenizer *tokenizer, const int32_t *ids, size_t n,
                                                  bool keep_special, char **text, size_t *len, struct kg_error *err);

/* Streaming decode: gives only whole UTF-8 characters and keeps an unfinished one for the next token. */
struct kg_utf8_stream {
    unsigned char pending[4];
    size_t n_pending;
};
struct kg_buffer;
void kg_utf8_stream_push(struct kg_utf8_stream *stream, const char *bytes, size_t len, struct kg_buffer *out);
void kg_utf8_stream_finish(struct kg_utf8_stream *stream, struct kg_buffer *out);

/* What a reader is shown of generated ids, token by token: special tokens hidden, only whole characters, and without
 * the one space that kg_tokenizer_decode takes off the beginning. In a chat format with channels (harmony) the headers
 * of the answer's messages are hidden; a message of another channel than "final" comes as "[analysis]\n" and its text,
 * and what follows it after "\n\n[final]\n", so that the final message alone is plain text. Elsewhere it is
 * kg_tokenizer_decode's. */
struct kg_text_stream {
    const struct kg_tokenizer *tokenizer;
    struct kg_utf8_stream utf8;
    bool final_only; /* to be set after begin: messages of other channels are hidden, too */
    /* of the stream's own */
    bool at_start, in_header, in_name, is_final, shown_any;
    char channel[24];
};
/* prompt: the ids before; they tell whether a header is open. */
void kg_text_stream_begin(struct kg_text_stream *stream, const struct kg_tokenizer *tokenizer, const int32_t *prompt,
                          size_t n_prompt);
KG_WARN_UNUSED enum kg_status kg_text_stream_push(struct kg_text_stream *stream, int32_t id, struct kg_buffer *out,
                                                  struct kg_error *err);
void kg_text_stream_finish(struct kg_text_stream *stream, struct kg_buffer *out);
/* All of it at once; malloc'ed, NUL-terminated text of *len bytes. */
KG_WARN_UNUSED enum kg_status kg_tokenizer_show(const struct kg_tokenizer *tokenizer, const int32_t *prompt,
                                                size_t n_prompt, const int32_t *ids, size_t n, bool final_only,
                                                char **text, size_t *len, struct kg_error *err);

size_t kg_tokenizer_n_tokens(const struct kg_tokenizer *tokenizer);
/* The tokens before those of type UNUSED at the end, which only pad the vocabulary and are never to be drawn. */
size_t kg_tokenizer_n_drawable(const struct kg_tokenizer *tokenizer);
/* -1 if the vocabulary has none. */
int32_t kg_tokenizer_bos(const struct kg_tokenizer *tokenizer);
int32_t kg_tokenizer_eos(const struct kg_tokenizer *tokenizer);
/* Whether the model's file asks for bos before a text, and for eos behind it. */
bool kg_tokenizer_adds_bos(const struct kg_tokenizer *tokenizer);
bool kg_tokenizer_adds_eos(const struct kg_tokenizer *tokenizer);
/* The id of a token by its exact text (special or not), -1 if there is none. */
int32_t kg_tokenizer_find(const struct kg_tokenizer *tokenizer, const char *text);
bool kg_tokenizer_is_special(const struct kg_tokenizer *tokenizer, int32_t id);
/* True for ids that end a turn: eos and the chat format's end marks. */
bool kg_tokenizer_is_end(const struct kg_tokenizer *tokenizer, int32_t id);

/* Chat formats. */
struct kg_chat_message {
    const char *role; /* "system", "user" or "assistant"; in harmony "developer" too */
    const char *content;
};
/* Of formats that tell the model more than the messages do (harmony); for the others both must be NULL. */
struct kg_chat_options {
    const char *date;      /* "2026-01-31"; NULL: today where the process runs, as the publisher's template has it */
    const char *reasoning; /* effort: "low", "medium" or "high"; NULL: "medium" */
};
/* Renders messages in the model's chat format (recognised from tokenizer.chat_template: ChatML, Phi-3's, harmony),
 * ending where the assistant speaks if add_generation_prompt; malloc'ed text. The template's own behaviour decides:
 * nothing is added that it does not add, and what it leaves out (harmony a system message that is not the first, the
 * first Phi-3 any system message) is left out. KG_ERR_UNSUPPORTED if the file has no template kigo knows; KG_ERR_USAGE
 * names a role the format lacks ("tool" among them: tools are not rendered), an option it lacks or that is out of form.
 */
KG_WARN_UNUSED enum kg_status kg_chat_render_with(const struct kg_tokenizer *tokenizer,
                                                  const struct kg_chat_message *messages, size_t n_messages,
                                                  bool add_generation_prompt, const struct kg_chat_options *options,
                                                  char **text, struct kg_error *err);
/* With the options' defaults. */
KG_WARN_UNUSED enum kg_status kg_chat_render(const struct kg_tokenizer *tokenizer,
                                             const struct kg_chat_message *messages, size_t n_messages,
                                             bool add_generation_prompt, char **text, struct kg_error *err);
/* "chatml", "phi3", "harmony", ...; NULL if kigo knows none for the model. */
const char *kg_chat_format_name(const struct kg_tokenizer *tokenizer);
/* Whether answers have channels, as harmony's do. */
bool kg_chat_has_channels(const struct kg_tokenizer *tokenizer);

#endif
