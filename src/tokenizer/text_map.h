/* A hash from byte strings to their index in an array of records that hold them. */
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
    struct kg_text_map_slot *slots; /* mask + 1 of them, a power of two, at most half used */
    size_t mask;
    const unsigned char *first_key; /* a struct kg_str; the next one is stride bytes on */
    size_t stride;
};

/* Room for n_max keys: those of records[i], each stride bytes after the one before. Records are borrowed; a key must
 * not change once it is added. */
void kg_text_map_init(struct kg_text_map *map, size_t n_max, const struct kg_str *first_key, size_t stride);
void kg_text_map_free(struct kg_text_map *map);

/* Adds the key of the record at index and returns -1, or returns the index that has an equal key (nothing is changed).
 */
int32_t kg_text_map_add(struct kg_text_map *map, int32_t index);

/* -1 if no record added has the key. */
int32_t kg_text_map_find(const struct kg_text_map *map, struct kg_str key);

#endif
