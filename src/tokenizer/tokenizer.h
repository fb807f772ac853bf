/* Internals of the tokenizer, shared by the files of this folder. */
#ifndef KIGO_TOKENIZER_TOKENIZER_H
#define KIGO_TOKENIZER_TOKENIZER_H

#include "base/buffer.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/special.h"
#include "tokenizer/text_map.h"
#include <kigo/tokenizer.h>

/* tokenizer.ggml.token_type. */
enum kg_token_type {
    KG_TOKEN_UNDEFINED = 0,
    KG_TOKEN_NORMAL = 1,
    KG_TOKEN_UNKNOWN = 2,
    KG_TOKEN_CONTROL = 3,      /* special: found in text on request, omitted from decoded text */
    KG_TOKEN_USER_DEFINED = 4, /* always found in text, kept in decoded text */
    KG_TOKEN_UNUSED = 5,
    KG_TOKEN_BYTE = 6,
};

/* Key for ids of tokens that also take the white space after them; GGUF has no standard key. */
#define KG_RSTRIP_KEY "kigo.tokenizer.rstrip_token_ids"

/* Key for ids of tokens that are searched in normalised text ("normalized" in tokenizer.json), in order of precedence.
 * All others are searched before that, in raw text. */
#define KG_NORMALIZED_KEY "kigo.tokenizer.normalized_token_ids"

/* Key for prepend_scheme of a tokenizer.json's Metaspace. "always": a text gets a space prefix unless it begins with a
 * space. "first": only the first text does. Metaspace is not a normaliser: tokens of KG_NORMALIZED_KEY are searched
 * before it marks spaces. A file with such tokens says "never" if there is no prefix. */
#define KG_PREPEND_SCHEME_KEY "kigo.tokenizer.prepend_scheme"

/* Key for ignore_merges of a tokenizer.json if it differs from the kind's default: OpenAI's vocabularies are published
 * both ways. */
#define KG_IGNORE_MERGES_KEY "kigo.tokenizer.ignore_merges"

struct kg_token {
    struct kg_str text;  /* verbatim from the file */
    struct kg_str bytes; /* decoded */
    enum kg_token_type type;
    bool end;        /* ends a chat turn */
    bool rstrip;     /* if found in text, it takes the white space after it */
    bool normalised; /* in KG_NORMALIZED_KEY */
};

/* The token that merging may produce for text[0..len), by its byte-level spelling; -1 if there is none. */
int32_t kg_token_find_spelled(const struct kg_tokenizer *tokenizer, const char *text, size_t len);

struct kg_chat_format;

/* The tokens that delimit an answer's messages in a chat format with channels; all -1 in other formats. */
struct kg_channel_marks {
    int32_t start, channel, message, end;
};

struct kg_tokenizer {
    struct kg_token *tokens;
    size_t n_tokens;
    char *arena;                    /* memory of all tokens' text and bytes */
    struct kg_text_map by_text;     /* over tokens[].text */
    struct kg_special special;      /* tokens searched in raw text */
    struct kg_special normalised;   /* tokens searched in normalised text, by their normalised texts */
    const struct kg_pre_kind *kind; /* NULL for sentencepiece, as is pre */
    struct kg_pretokenizer *pre;
    bool ignore_merges; /* a piece that is a token becomes that token without merging */
    struct kg_bpe bpe;
    bool sentencepiece;       /* tokenizer.ggml.model is "llama": see sentencepiece.h */
    bool add_space_prefix;    /* a space is added before text between special tokens, and removed by decoding */
    bool prefix_unless_space; /* but not before text that begins with a space */
    bool prefix_first;        /* but only before the first text */
    bool marks_by_normaliser; /* normalised text already has the prefix and U+2581 for spaces */
    bool cuts_at_spaces;      /* no token crosses the end of a word */
    int32_t bos, eos;         /* -1: none */
    bool adds_bos, adds_eos;
    char *chat_template;               /* NULL: none */
    const struct kg_chat_format *chat; /* NULL: none kigo knows */
    uint32_t chat_traits;              /* from chat->traits */
    struct kg_channel_marks channel_marks;
    char *chat_default_system; /* the template's default system message; NULL: none */
};

/* Reads tokenizer.ggml.merges into the initialised bpe, with room for n_more characters. Does not set byte_ids. */
KG_WARN_UNUSED enum kg_status kg_tokenizer_load_merges(struct kg_tokenizer *tokenizer, const struct kg_gguf *gguf,
                                                       size_t n_more, struct kg_error *err);

/* Marks the tokens of KG_NORMALIZED_KEY. Call it before loading the tokenizer model, which must not merge into them. */
KG_WARN_UNUSED enum kg_status kg_tokenizer_load_normalised(struct kg_tokenizer *tokenizer, const struct kg_gguf *gguf,
                                                           struct kg_error *err);

/* Fills special, normalised and rstrip, once the tokens' types and ids are known. */
KG_WARN_UNUSED enum kg_status kg_tokenizer_load_added(struct kg_tokenizer *tokenizer, const struct kg_gguf *gguf,
                                                      struct kg_error *err);

/* Appends text[0..len), len > 0, normalised as tokenizer.json says; prefix: with a space before it. */
KG_WARN_UNUSED enum kg_status kg_tokenizer_normalise(const struct kg_tokenizer *tokenizer, const char *text, size_t len,
                                                     bool prefix, struct kg_buffer *out, struct kg_error *err);

/* Recognises the chat template, fills the tokenizer's chat fields, and marks the format's end tokens. */
void kg_chat_recognise(struct kg_tokenizer *tokenizer);

#endif
