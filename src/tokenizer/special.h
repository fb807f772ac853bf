/* A byte trie of the tokens that are searched in text before it is split into pieces.
 *
 * The leftmost match wins; among matches at the same offset, the longest. */
#ifndef KIGO_TOKENIZER_SPECIAL_H
#define KIGO_TOKENIZER_SPECIAL_H

#include "format/gguf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kg_special_node {
    int32_t child, sibling; /* -1: none */
    int32_t id;             /* of the token that ends at this node; -1: none */
    unsigned char byte;
    bool control; /* matched only if special tokens are parsed */
};

struct kg_special {
    struct kg_special_node *nodes;
    size_t n_nodes, capacity;
    int32_t first[256]; /* root nodes by first byte; -1: none */
};

void kg_special_init(struct kg_special *special);
void kg_special_free(struct kg_special *special);

/* Adds a token. An empty text never matches. */
void kg_special_add(struct kg_special *special, struct kg_str text, int32_t id, bool control);

/* The token with exactly this text, -1 if there is none. */
int32_t kg_special_find(const struct kg_special *special, struct kg_str text);

/* The offset of the first match in text[0..len), with *id and *match_len; len if there is none. Control tokens match
 * only if with_control. */
size_t kg_special_search(const struct kg_special *special, const char *text, size_t len, bool with_control, int32_t *id,
                         size_t *match_len);

/* The length in bytes of the white space (Unicode's White_Space) at the start of well-formed text[0..len). */
size_t kg_white_space_span(const char *text, size_t len);

#endif
