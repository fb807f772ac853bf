/* A hash map from byte strings to the index of the record that holds them. */
#ifndef KIGO_TOKENIZER_TEXT_MAP_H
#define KIGO_TOKENIZER_TEXT_MAP_H

#include "format/gguf.h"
#include <stddef.h>
#include <stdint.h>

struct kg_text_map_slot {
    int32_t index; /* -1 while the slot is empty */
    uint32_t hash;
};

struct kg_text_map {
    struct kg_text_map_slot *slots; /* mask + 1 slots, a power of two; at most half are used */
    size_t mask;
    const unsigned char *first_key; /* a struct kg_str in the first record; records are stride bytes apart */
    size_t stride;
};

/* Allocates room for n_max keys. Key i is the struct kg_str at first_key + i * stride bytes. Records are borrowed; a
 * key must not change once it is added. */
void kg_text_map_init(struct kg_text_map *map, size_t n_max, const struct kg_str *first_key, size_t stride);
void kg_text_map_free(struct kg_text_map *map);

/* Adds the key of record `index` and returns -1. If an equal key is already in the map, changes nothing and returns its
 * index. */
int32_t kg_text_map_add(struct kg_text_map *map, int32_t index);

/* The index of the record with this key; -1 if it was not added. */
int32_t kg_text_map_find(const struct kg_text_map *map, struct kg_str key);

#endif
