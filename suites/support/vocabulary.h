/* Vocabularies for the tokenizer's suites: the published ones that make unpacked, and small ones made on the spot. */
#ifndef KIGO_SUITES_VOCABULARY_H
#define KIGO_SUITES_VOCABULARY_H

#include "suites/harness/case.h"
#include <jansson.h>
#include <kigo/tokenizer.h>

/* "qwen2.5", "o200k", "gpt2", "phi3" or "small", opened once; never NULL (the case fails instead). */
struct kg_tokenizer *published_vocabulary(const char *name);

/* The lines of fixtures/<relative>, each a JSON object; the case fails if there is none. Owned by the caller. */
json_t *fixture_lines(const char *relative);

/* A byte-level vocabulary: ids 0 to 255 are the bytes in order, 256 to 258 "he", "ll", "hell" and their merges
 * ("h e", "l l", "he ll"), then the extra tokens. A NULL text ends each list. */
struct small_vocabulary {
    const char *model, *pre;     /* NULL: "gpt2", "gpt-2"; "" leaves the key out */
    const char *extra_tokens[6]; /* from id 259 on */
    int32_t extra_types[6];      /* 0: normal (1) */
    const char *extra_merges[4]; /* ranks 3 on */
    const char *chat_template;   /* NULL: no key */
    const char *id_key;          /* tokenizer.ggml.<id_key> = id_value */
    uint32_t id_value;
    uint32_t eos_id;                     /* 0: no key */
    bool no_tokens, no_merges, no_types; /* leave the key out */
    bool tokens_are_numbers;             /* tokens as an array of I32 */
    bool types_cut_short;                /* one type less than tokens */
    bool adds_bos;
    bool lacks_byte_h; /* the token of that byte is spelled otherwise; no merges then */
};

enum { SMALL_FIRST_EXTRA = 259 };

/* Writes it to the case's scratch folder and opens it. */
enum kg_status small_vocabulary_open(struct kg_record *rec, const struct small_vocabulary *v, struct kg_tokenizer **t,
                                     struct kg_error *err);

/* Fails the case unless text has exactly these ids. */
void expect_ids(const struct kg_tokenizer *t, const char *text, size_t len, bool parse_special, const int32_t *ids,
                size_t n);

#endif
