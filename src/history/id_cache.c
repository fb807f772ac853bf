#include "history/id_cache.h"
#include "base/buffer.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

struct kg_id_entry {
    char *bytes; /* NULL: a free slot */
    size_t n_bytes;
    uint64_t hash;
    int64_t id;
};

/* FNV-1a: for the table only; ids are SHA-256. */
static uint64_t slot_hash(const char *bytes, size_t n_bytes) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n_bytes; i++) hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

/* The entry of these bytes, or the free slot where it belongs. */
static struct kg_id_entry *slot_of(const struct kg_id_cache *cache, const char *bytes, size_t n_bytes, uint64_t hash) {
    for (size_t i = (size_t)hash & (cache->n_slots - 1);; i = (i + 1) & (cache->n_slots - 1)) {
        struct kg_id_entry *entry = &cache->entries[i];
        if (!entry->bytes) return entry;
        if (entry->hash == hash && entry->n_bytes == n_bytes && memcmp(entry->bytes, bytes, n_bytes) == 0) return entry;
    }
}

bool kg_id_cache_find(const struct kg_id_cache *cache, const char *bytes, size_t n_bytes, int64_t *id) {
    if (cache->n_slots == 0) return false;
    const struct kg_id_entry *entry = slot_of(cache, bytes, n_bytes, slot_hash(bytes, n_bytes));
    if (!entry->bytes) return false;
    *id = entry->id;
    return true;
}

static void grow(struct kg_id_cache *cache) {
    const struct kg_id_cache old = *cache;
    cache->n_slots = old.n_slots ? 2 * old.n_slots : 256;
    cache->entries = kg_xcalloc(cache->n_slots, sizeof *cache->entries);
    for (size_t i = 0; i < old.n_slots; i++) {
        const struct kg_id_entry *entry = &old.entries[i];
        if (entry->bytes) *slot_of(cache, entry->bytes, entry->n_bytes, entry->hash) = *entry;
    }
    free(old.entries);
}

void kg_id_cache_add(struct kg_id_cache *cache, const char *bytes, size_t n_bytes, int64_t id) {
    if (2 * cache->n_used >= cache->n_slots) grow(cache);
    const uint64_t hash = slot_hash(bytes, n_bytes);
    struct kg_id_entry *entry = slot_of(cache, bytes, n_bytes, hash);
    if (entry->bytes) return;
    char *copy = kg_xmalloc(n_bytes + 1);
    memcpy(copy, bytes, n_bytes);
    *entry = (struct kg_id_entry){ copy, n_bytes, hash, id };
    cache->n_used++;
}

void kg_id_cache_clear(struct kg_id_cache *cache) {
    for (size_t i = 0; i < cache->n_slots; i++) free(cache->entries[i].bytes);
    free(cache->entries);
    *cache = (struct kg_id_cache){ NULL, 0, 0 };
}

void kg_hash_ids(const char *bytes, size_t n_bytes, int n_bits, int64_t ids[2]) {
    char hex[KG_SHA256_HEX_SIZE];
    kg_sha256_hex(bytes, n_bytes, hex);
    hex[32] = '\0';
    ids[1] = -1 - (int64_t)(strtoull(hex + 16, NULL, 16) >> 1);
    hex[16] = '\0';
    ids[0] = (int64_t)(strtoull(hex, NULL, 16) >> (64 - n_bits));
}

int64_t kg_hash_id(const char *bytes, size_t n_bytes, int n_bits) {
    int64_t ids[2];
    kg_hash_ids(bytes, n_bytes, n_bits, ids);
    return ids[0];
}
