/* Byte-pair merging: a piece starts as one token a byte; the adjacent pair with the lowest rank (leftmost on a tie) is
 * replaced by its merged token until no adjacent pair has a merge. */
#ifndef KIGO_TOKENIZER_BPE_H
#define KIGO_TOKENIZER_BPE_H

#include <kigo/status.h>
#include <kigo/tokenizer.h>
#include <stddef.h>
#include <stdint.h>

struct kg_bpe_slot {
    uint64_t pair;   /* left id << 32 | right id; UINT64_MAX while empty */
    uint64_t result; /* rank << 32 | merged id, so that results order by rank */
};

struct kg_bpe {
    int32_t byte_ids[256];     /* -1: the vocabulary has no token for that byte */
    struct kg_bpe_slot *slots; /* mask + 1 of them, a power of two */
    size_t mask;
};

/* Room for n_max merges; byte_ids all -1. */
void kg_bpe_init(struct kg_bpe *bpe, size_t n_max);
void kg_bpe_free(struct kg_bpe *bpe);

/* A pair added twice keeps the later rank, as the reference does. */
void kg_bpe_add(struct kg_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t merged);

struct kg_bpe_work; /* working memory of one caller: a cache of short pieces, and room for long ones */

/* text_len: bytes about to be encoded, which decides whether a cache pays. */
struct kg_bpe_work *kg_bpe_work_new(size_t text_len);
void kg_bpe_work_free(struct kg_bpe_work *work);

/* Appends the ids of piece[0..len), len > 0. KG_ERR_FORMAT if the vocabulary lacks a byte of it. O(len log len). */
KG_WARN_UNUSED enum kg_status kg_bpe_encode(const struct kg_bpe *bpe, struct kg_bpe_work *work, const char *piece,
                                            size_t len, struct kg_ids *ids, struct kg_error *err);

#endif
