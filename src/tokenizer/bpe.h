/* Byte-pair encoding (BPE): a piece starts as one symbol per byte, or per character. The adjacent pair with the lowest
 * rank (leftmost on a tie) is replaced by its merged token, until no adjacent pair has a merge.
 *
 * With symbols per character, a space becomes U+2581. A character without a token is still a symbol: it may merge; if
 * it does not, it becomes the tokens of its bytes. */
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

/* The symbol of a character without a token. */
static inline int32_t kg_bpe_character(uint32_t c) {
    return -2 - (int32_t)c;
}

struct kg_bpe {
    int32_t byte_ids[256]; /* -1: the vocabulary has no token for that byte */
    bool
        by_characters; /* symbols are characters; byte_ids then encode characters without a token, and none may be -1 */
    int32_t ascii[128];        /* symbols of these characters, if by_characters */
    struct kg_bpe_slot *slots; /* mask + 1 of them, a power of two */
    size_t mask;
};

/* Allocates room for n_max merges and characters. All byte_ids are -1, and no character is a token. */
void kg_bpe_init(struct kg_bpe *bpe, size_t n_max);
void kg_bpe_free(struct kg_bpe *bpe);

/* Adds a merge. A pair added twice keeps the later rank, as in the reference. */
void kg_bpe_add(struct kg_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t merged);

/* Adds a token for a single character; U+2581 stands for the space. */
void kg_bpe_add_character(struct kg_bpe *bpe, uint32_t c, int32_t id);

/* The token of a character; kg_bpe_character(c) if it has none. */
int32_t kg_bpe_find_character(const struct kg_bpe *bpe, uint32_t c);

struct kg_bpe_work; /* scratch memory of one caller: a cache of short pieces, and buffers for long ones */

/* text_len: bytes about to be encoded; short texts get no cache. */
struct kg_bpe_work *kg_bpe_work_new(size_t text_len);
void kg_bpe_work_free(struct kg_bpe_work *work);

/* Appends the ids of piece[0..len), len > 0, in O(len log len). With symbols per character the piece must be
 * well-formed UTF-8. KG_ERR_FORMAT if the vocabulary lacks one of its bytes. */
KG_WARN_UNUSED enum kg_status kg_bpe_encode(const struct kg_bpe *bpe, struct kg_bpe_work *work, const char *piece,
                                            size_t len, struct kg_ids *ids, struct kg_error *err);

#endif
