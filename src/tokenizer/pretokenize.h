/* Pre-tokenizers: how text is cut into pieces before merging, by the patterns of the vocabularies' publishers. */
#ifndef KIGO_TOKENIZER_PRETOKENIZE_H
#define KIGO_TOKENIZER_PRETOKENIZE_H

#include "format/gguf.h"
#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>

/* A kind is what tokenizer.ggml.pre names. GGUF has no key for normalisation or for ignore_merges: the kind implies
 * them, as the tokenizer.json of the kind's publisher has them (KG_IGNORE_MERGES_KEY says otherwise of the latter). */
struct kg_pre_kind {
    const char *name;      /* as written to files */
    const char *aliases;   /* other names read from files, separated by spaces, or "" */
    const char *published; /* the pattern as it stands in tokenizer.json */
    bool from_byte_level;  /* the pattern is the one built into Hugging Face's ByteLevel (use_regex) */
    bool nfc;              /* text is brought to normalisation form C first */
    bool ignore_merges;    /* a piece that is a token is taken whole, whatever the merges say */
};

extern const struct kg_pre_kind KG_PRE_KINDS[];
extern const size_t KG_N_PRE_KINDS;

/* NULL if kigo knows no kind by that name. */
const struct kg_pre_kind *kg_pre_kind_find(struct kg_str name);

struct kg_pretokenizer; /* a compiled pattern; const, shared by threads */

KG_WARN_UNUSED enum kg_status kg_pretokenizer_create(const struct kg_pre_kind *kind, struct kg_pretokenizer **pre,
                                                     struct kg_error *err);
void kg_pretokenizer_free(struct kg_pretokenizer *pre);

struct kg_splitter; /* working memory of one caller */

struct kg_splitter *kg_splitter_new(const struct kg_pretokenizer *pre);
void kg_splitter_free(struct kg_splitter *splitter);

/* Sets the text to cut, well-formed UTF-8, borrowed until the last piece. */
void kg_splitter_start(struct kg_splitter *splitter, const char *text, size_t len);

/* The next piece, *len > 0 bytes; *len is 0 at the end. Pieces cover the text: what the pattern leaves out is a piece.
 */
KG_WARN_UNUSED enum kg_status kg_splitter_next(struct kg_splitter *splitter, const char **piece, size_t *len,
                                               struct kg_error *err);

#endif
