/* The tokenizer's insides, shared by the files of this folder. */
#ifndef KIGO_TOKENIZER_TOKENIZER_H
#define KIGO_TOKENIZER_TOKENIZER_H

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

struct kg_token {
    struct kg_str text;  /* as in the file */
    struct kg_str bytes; /* as it enters decoded text */
    enum kg_token_type type;
    bool end; /* ends a turn */
};

/* The token that merging could give for text[0..len): spelled byte by byte; -1 if there is none. */
int32_t kg_token_find_spelled(const struct kg_tokenizer *tokenizer, const char *text, size_t len);

struct kg_chat_format;

struct kg_tokenizer {
    struct kg_token *tokens;
    size_t n_tokens;
    char *arena;                /* the bytes of texts and bytes */
    struct kg_text_map by_text; /* over tokens[].text */
    struct kg_special special;
    const struct kg_pre_kind *kind;
    struct kg_pretokenizer *pre;
    struct kg_bpe bpe;
    int32_t bos, eos; /* -1: none */
    bool adds_bos;
    char *chat_template;               /* NULL: none */
    const struct kg_chat_format *chat; /* NULL: none kigo knows */
    char *chat_default_system;         /* what the template says if no system message is given; NULL: nothing */
};

/* Recognises the template and fills chat and chat_default_system; marks the format's end tokens. */
void kg_chat_recognise(struct kg_tokenizer *tokenizer);

#endif
