/* The tokenizer's insides, shared by the files of this folder. */
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
    KG_TOKEN_CONTROL = 3,      /* special: found in text on request, left out of decoded text */
    KG_TOKEN_USER_DEFINED = 4, /* always found in text, kept in decoded text */
    KG_TOKEN_UNUSED = 5,
    KG_TOKEN_BYTE = 6,
};

/* Ids of tokens that take the white space behind them in text, which GGUF's own keys cannot say. */
#define KG_RSTRIP_KEY "kigo.tokenizer.rstrip_token_ids"

/* Ids of the tokens that are searched in normalised text (normalized in tokenizer.json), in the order in which they
 * take precedence; all others were found before that, in the text as it was written. */
#define KG_NORMALIZED_KEY "kigo.tokenizer.normalized_token_ids"

/* prepend_scheme of a tokenizer.json's Metaspace, "always" or "first": a text that begins with a space gets no other
 * one before it, and with "first" none but the first text does. Metaspace is no normaliser: tokens of KG_NORMALIZED_KEY
 * are searched before it puts marks for spaces, which beside them is said with "never", too. */
#define KG_PREPEND_SCHEME_KEY "kigo.tokenizer.prepend_scheme"

/* ignore_merges of a tokenizer.json, where it is not the kind's: OpenAI's vocabularies are published both ways. */
#define KG_IGNORE_MERGES_KEY "kigo.tokenizer.ignore_merges"

struct kg_token {
    struct kg_str text;  /* as in the file */
    struct kg_str bytes; /* as it enters decoded text */
    enum kg_token_type type;
    bool end;        /* ends a turn */
    bool rstrip;     /* found in text, it takes the white space behind it */
    bool normalised; /* in KG_NORMALIZED_KEY */
};

/* The token that merging could give for text[0..len): spelled byte by byte; -1 if there is none. */
int32_t kg_token_find_spelled(const struct kg_tokenizer *tokenizer, const char *text, size_t len);

struct kg_chat_format;

/* The tokens around an answer's messages, in a chat format with channels; all -1 elsewhere. */
struct kg_channel_marks {
    int32_t start, channel, message, end;
};

struct kg_tokenizer {
    struct kg_token *tokens;
    size_t n_tokens;
    char *arena;                    /* the bytes of texts and bytes */
    struct kg_text_map by_text;     /* over tokens[].text */
    struct kg_special special;      /* found in text as it is written */
    struct kg_special normalised;   /* found in normalised text, by their normalised texts */
    const struct kg_pre_kind *kind; /* NULL for sentencepiece, as is pre */
    struct kg_pretokenizer *pre;
    bool ignore_merges; /* a piece that is a token is taken whole, whatever the merges say */
    struct kg_bpe bpe;
    bool sentencepiece;       /* tokenizer.ggml.model is "llama": see sentencepiece.h */
    bool add_space_prefix;    /* if so: text between special tokens begins with a space that decoding takes away */
    bool prefix_unless_space; /* if so: but not before a text that begins with a space */
    bool prefix_first;        /* if so: but not behind anything */
    bool marks_by_normaliser; /* if so: normalised text has the prefix and U+2581 for spaces */
    bool cuts_at_spaces;      /* if so: no token goes on past the end of a word */
    int32_t bos, eos;         /* -1: none */
    bool adds_bos, adds_eos;
    char *chat_template;               /* NULL: none */
    const struct kg_chat_format *chat; /* NULL: none kigo knows */
    uint32_t chat_traits;              /* what chat->traits said */
    struct kg_channel_marks channel_marks;
    char *chat_default_system; /* what the template says if no system message is given; NULL: nothing */
};

/* Reads tokenizer.ggml.merges into the (initialised) bpe; n_more: room to leave for characters. byte_ids are not set.
 */
KG_WARN_UNUSED enum kg_status kg_tokenizer_load_merges(struct kg_tokenizer *tokenizer, const struct kg_gguf *gguf,
                                                       size_t n_more, struct kg_error *err);

/* Marks the tokens of KG_NORMALIZED_KEY, before the model is loaded, which does not merge into them. */
KG_WARN_UNUSED enum kg_status kg_tokenizer_load_normalised(struct kg_tokenizer *tokenizer, const struct kg_gguf *gguf,
                                                           struct kg_error *err);

/* Fills special and normalised, and what tokens take with them, once the tokens' types and ids are known. */
KG_WARN_UNUSED enum kg_status kg_tokenizer_load_added(struct kg_tokenizer *tokenizer, const struct kg_gguf *gguf,
                                                      struct kg_error *err);

/* Appends what tokenizer.json's normaliser makes of text[0..len), len > 0; prefix: with the space before it. */
KG_WARN_UNUSED enum kg_status kg_tokenizer_normalise(const struct kg_tokenizer *tokenizer, const char *text, size_t len,
                                                     bool prefix, struct kg_buffer *out, struct kg_error *err);

/* Recognises the template and fills what the tokenizer knows of its format; marks the format's end tokens. */
void kg_chat_recognise(struct kg_tokenizer *tokenizer);

#endif
