/* Reads and validates the vocabulary of a Hugging Face folder: the first half of kg_convert_vocab. */
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

    bool sentencepiece;         /* BPE with byte_fallback: characters, not bytes */
    bool add_space_prefix;      /* of sentencepiece */
    const char *prepend_scheme; /* value of KG_PREPEND_SCHEME_KEY; NULL: a space before every text */
    bool normalizes;            /* has a normalizer, which changes the text in which normalized tokens are searched */
    bool ignore_merges;         /* as in struct kg_tokenizer */
    const struct kg_pre_kind *kind; /* NULL for sentencepiece */
    struct kg_str *texts;           /* (n_tokens), pointing into the JSON or padding */
    int32_t *types;                 /* (n_tokens) */
    size_t n_tokens, n_special, n_padding;
    char *padding; /* memory of the texts of ids without a token */
    struct kg_text_map by_text;
};

/* Opens the folder's files and checks that kigo supports them. On failure there is nothing to free. */
KG_WARN_UNUSED enum kg_status kg_vocab_source_open(const char *dir, struct kg_vocab_source *source,
                                                   struct kg_error *err);
void kg_vocab_source_close(struct kg_vocab_source *source);

/* Recognises the kind of pre-tokenizer. */
KG_WARN_UNUSED enum kg_status kg_vocab_source_kind(const struct kg_vocab_source *source,
                                                   const struct kg_pre_kind **kind, struct kg_error *err);

/* Checks that kigo supports the treatment of spaces, and sets add_space_prefix and prepend_scheme. */
KG_WARN_UNUSED enum kg_status kg_vocab_sentencepiece_check(struct kg_vocab_source *source, struct kg_error *err);
/* Sets the types of byte tokens and of the unknown token. */
void kg_vocab_sentencepiece_types(struct kg_vocab_source *source);
/* Writes tokenizer.ggml.scores, .add_space_prefix and kigo.tokenizer.prepend_scheme. */
void kg_vocab_sentencepiece_put(struct kg_gguf_writer *writer, const struct kg_vocab_source *source);

#endif
