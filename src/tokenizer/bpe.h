/* Byte-pair merging: a piece starts as one symbol a byte, or one a character; the adjacent pair with the lowest rank
 * (leftmost on a tie) is replaced by its merged token until no adjacent pair has a merge.
 *
 * By characters, a space stands for U+2581, and a character that is no token is a symbol all the same: it may merge,
 * and becomes the tokens of its bytes if it does not. */
#ifndef KIGO_TOKENIZER_BPE_H
#define KIGO_TOKENIZER_BPE_H

#include <kigo/status.h>
#include <kigo/tokenizer.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kg_bpe_slot {
    uint64_t pair;   /* left id << 32 | right id; UINT64_MAX while empty */
    uint64_t result; /* rank << 32 | merged id, so that results order by rank */
};

enum { KG_BPE_SPACE = 0x2581 }; /* the character that stands for a space in vocabularies of characters */

/* The symbol of a character that is no token. */
static inline int32_t kg_bpe_character(uint32_t c) {
    return -2 - (int32_t)c;
}

struct kg_bpe {
    int32_t byte_ids[256];     /* -1: the vocabulary has no token for that byte */
    bool by_characters;        /* byte_ids serve for what merging leaves without a token; none may be -1 then */
    int32_t ascii[128];        /* symbols of these characters, if by_characters */
    struct kg_bpe_slot *slots; /* mask + 1 of them, a power of two */
    size_t mask;
};

/* Room for n_max merges and characters; byte_ids all -1, no character a token. */
void kg_bpe_init(struct kg_bpe *bpe, size_t n_max);
void kg_bpe_free(struct kg_bpe *bpe);

/* A pair added twice keeps the later rank, as the reference does. */
void kg_bpe_add(struct kg_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t merged);

/* Makes a character a token; U+2581 for the space. */
void kg_bpe_add_character(struct kg_bpe *bpe, uint32_t c, int32_t id);

/* The token of a character, or kg_bpe_character(c). */
int32_t kg_bpe_find_character(const struct kg_bpe *bpe, uint32_t c);

struct kg_bpe_work; /* working memory of one caller: a cache of short pieces, and room for long ones */

/* text_len: bytes about to be encoded, which decides whether a cache pays. */
struct kg_bpe_work *kg_bpe_work_new(size_t text_len);
void kg_bpe_work_free(struct kg_bpe_work *work);

/* Appends the ids of piece[0..len), len > 0. KG_ERR_FORMAT if the vocabulary lacks a byte of it. By characters the
 * piece must be well-formed UTF-8. O(len log len). */
KG_WARN_UNUSED enum kg_status kg_bpe_encode(const struct kg_bpe *bpe, struct kg_bpe_work *work, const char *piece,
                                            size_t len, struct kg_ids *ids, struct kg_error *err);

#endif
