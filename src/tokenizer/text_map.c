#include "tokenizer/text_map.h"
#include "base/buffer.h"
#include <stdlib.h>
#include <string.h>

/* Eight bytes a step: multiply and fold (in the manner of wyhash). */
static uint32_t hash_text(struct kg_str s) {
    uint64_t h = 0x9e3779b97f4a7c15u ^ s.len;
    for (size_t at = 0; at < s.len; at += 8) {
        uint64_t word = 0;
        memcpy(&word, s.data + at, s.len - at < 8 ? s.len - at : 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return (uint32_t)(h ^ h >> 29);
}

void kg_text_map_init(struct kg_text_map *map, size_t n_max, const struct kg_str *first_key, size_t stride) {
    size_t n_slots = 16;
    while (n_slots < 2 * n_max) n_slots *= 2;
    *map = (struct kg_text_map){ .slots = kg_xmalloc(n_slots * sizeof *map->slots),
                                 .mask = n_slots - 1,
                                 .first_key = (const unsigned char *)first_key,
                                 .stride = stride };
    memset(map->slots, 0xff, n_slots * sizeof *map->slots);
}

void kg_text_map_free(struct kg_text_map *map) {
    free(map->slots);
    map->slots = NULL;
}

static struct kg_str key_at(const struct kg_text_map *map, int32_t index) {
    struct kg_str key;
    memcpy(&key, map->first_key + (size_t)index * map->stride, sizeof key);
    return key;
}

/* The key's slot, or the empty one where it belongs. */
static struct kg_text_map_slot *find_slot(const struct kg_text_map *map, struct kg_str key, uint32_t hash) {
    for (size_t i = hash & map->mask;; i = (i + 1) & map->mask) {
        struct kg_text_map_slot *slot = &map->slots[i];
        if (slot->index < 0) return slot;
        if (slot->hash != hash) continue;
        const struct kg_str other = key_at(map, slot->index);
        if (other.len == key.len && (key.len == 0 || memcmp(other.data, key.data, key.len) == 0)) return slot;
    }
}

int32_t kg_text_map_add(struct kg_text_map *map, int32_t index) {
    const struct kg_str key = key_at(map, index);
    const uint32_t hash = hash_text(key);
    struct kg_text_map_slot *slot = find_slot(map, key, hash);
    if (slot->index >= 0) return slot->index;
    *slot = (struct kg_text_map_slot){ .index = index, .hash = hash };
    return -1;
}

int32_t kg_text_map_find(const struct kg_text_map *map, struct kg_str key) {
    return find_slot(map, key, hash_text(key))->index;
}
