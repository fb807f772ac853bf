/* What a Hugging Face folder says about a vocabulary, read and checked: the first half of convert_vocab. */
#ifndef KIGO_CONVERT_VOCAB_SOURCE_H
#define KIGO_CONVERT_VOCAB_SOURCE_H

#include "format/gguf.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/text_map.h"
#include <jansson.h>

struct kg_vocab_source {
    const char *dir;
    json_t *tokenizer;        /* tokenizer.json */
    json_t *tokenizer_config; /* NULL: no such file */
    json_t *config;           /* NULL: no such file */
    char *chat_template_file; /* chat_template.jinja, NULL: no such file */
    size_t chat_template_len;

    bool sentencepiece;             /* BPE with byte_fallback: characters, not bytes */
    bool add_space_prefix;          /* of sentencepiece */
    const char *prepend_scheme;     /* KG_PREPEND_SCHEME_KEY; NULL: a space before every text */
    bool normalizes;                /* there is a normalizer: it changes text that tokens are searched in */
    bool ignore_merges;             /* as in struct kg_tokenizer */
    const struct kg_pre_kind *kind; /* NULL for sentencepiece */
    struct kg_str *texts;           /* (n_tokens), pointing into the JSON or padding */
    int32_t *types;                 /* (n_tokens) */
    size_t n_tokens, n_special, n_padding;
    char *padding; /* texts of ids without a token */
    struct kg_text_map by_text;
};

/* Opens the folder's files and checks that kigo can express what they say. On failure nothing is left to free. */
KG_WARN_UNUSED enum kg_status kg_vocab_source_open(const char *dir, struct kg_vocab_source *source,
                                                   struct kg_error *err);
void kg_vocab_source_close(struct kg_vocab_source *source);

/* Recognises the kind of pre-tokenizer. */
KG_WARN_UNUSED enum kg_status kg_vocab_source_kind(const struct kg_vocab_source *source,
                                                   const struct kg_pre_kind **kind, struct kg_error *err);

/* Checks that spaces are treated in a way that kigo has, and whether text gets one before it: add_space_prefix,
 * prepend_scheme. */
KG_WARN_UNUSED enum kg_status kg_vocab_sentencepiece_check(struct kg_vocab_source *source, struct kg_error *err);
/* Tells byte tokens and the unknown one from normal ones. */
void kg_vocab_sentencepiece_types(struct kg_vocab_source *source);
/* tokenizer.ggml.scores and .add_space_prefix, and kigo.tokenizer.prepend_scheme. */
void kg_vocab_sentencepiece_put(struct kg_gguf_writer *writer, const struct kg_vocab_source *source);

#endif
