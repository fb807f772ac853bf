/* Which rows of the dimension tables (tcase, figure) this connection has seen to be there, by what they are made of:
 * their ids are hashes that need not be computed, and the rows not inserted, again for every bundle. */
#ifndef KIGO_HISTORY_ID_CACHE_H
#define KIGO_HISTORY_ID_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kg_id_entry;
struct kg_id_cache {
    struct kg_id_entry *entries; /* open addressing, n_slots is 0 or a power of two */
    size_t n_slots, n_used;
};

bool kg_id_cache_find(const struct kg_id_cache *cache, const char *bytes, size_t n_bytes, int64_t *id);
void kg_id_cache_add(struct kg_id_cache *cache, const char *bytes, size_t n_bytes, int64_t id); /* copies bytes */
/* To be called whenever rows may have gone: a rollback, a bundle dropped. */
void kg_id_cache_clear(struct kg_id_cache *cache);

/* The first n_bits of SHA-256 over the bytes: the same id for the same content, whatever was indexed before. */
int64_t kg_hash_id(const char *bytes, size_t n_bytes, int n_bits);
/* That id, and a negative one of 63 other bits, for when something else has the first. */
void kg_hash_ids(const char *bytes, size_t n_bytes, int n_bits, int64_t ids[2]);

#endif
