/* Pre-tokenizers: split text into pieces before BPE, by the regular expressions that the vocabularies were published
 * with. */
#ifndef KIGO_TOKENIZER_PRETOKENIZE_H
#define KIGO_TOKENIZER_PRETOKENIZE_H

#include "format/gguf.h"
#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>

/* A kind of pre-tokenizer, named by tokenizer.ggml.pre. GGUF has no key for normalisation or for ignore_merges, so the
 * kind implies them, as in its publisher's tokenizer.json; KG_IGNORE_MERGES_KEY overrides ignore_merges. */
struct kg_pre_kind {
    const char *name;      /* as written to files */
    const char *aliases;   /* other names read from files, separated by spaces, or "" */
    const char *published; /* the pattern in tokenizer.json, verbatim */
    bool from_byte_level;  /* the pattern is the one built into Hugging Face's ByteLevel (use_regex) */
    bool nfc;              /* text is normalised to NFC first */
    bool ignore_merges;    /* a piece that is a token becomes that token without merging */
};

extern const struct kg_pre_kind KG_PRE_KINDS[];
extern const size_t KG_N_PRE_KINDS;

/* Finds a kind by its name or an alias; NULL if kigo does not know it. */
const struct kg_pre_kind *kg_pre_kind_find(struct kg_str name);

struct kg_pretokenizer; /* a compiled pattern; const, shared by threads */

KG_WARN_UNUSED enum kg_status kg_pretokenizer_create(const struct kg_pre_kind *kind, struct kg_pretokenizer **pre,
                                                     struct kg_error *err);
void kg_pretokenizer_free(struct kg_pretokenizer *pre);

struct kg_splitter; /* scratch memory of one caller */

struct kg_splitter *kg_splitter_new(const struct kg_pretokenizer *pre);
void kg_splitter_free(struct kg_splitter *splitter);

/* Sets the text to split: well-formed UTF-8, borrowed until the last piece. */
void kg_splitter_start(struct kg_splitter *splitter, const char *text, size_t len);

/* The next piece of *len > 0 bytes; *len is 0 at the end. The pieces cover the text: text between matches is a piece
 * too. */
KG_WARN_UNUSED enum kg_status kg_splitter_next(struct kg_splitter *splitter, const char **piece, size_t *len,
                                               struct kg_error *err);

#endif
