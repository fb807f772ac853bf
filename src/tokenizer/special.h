/* Tokens that are found in text as they are written, before it is cut into pieces: a byte trie.
 *
 * The leftmost match counts, and of those that begin there the longest. */
#ifndef KIGO_TOKENIZER_SPECIAL_H
#define KIGO_TOKENIZER_SPECIAL_H

#include "format/gguf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kg_special_node {
    int32_t child, sibling; /* -1: none */
    int32_t id;             /* of the token that ends here, -1: none */
    unsigned char byte;
    bool control; /* the token is matched only if special tokens are asked for */
};

struct kg_special {
    struct kg_special_node *nodes;
    size_t n_nodes, capacity;
    int32_t first[256]; /* node by a token's first byte, -1: none */
};

void kg_special_init(struct kg_special *special);
void kg_special_free(struct kg_special *special);

/* Adds a token; an empty text is never matched. */
void kg_special_add(struct kg_special *special, struct kg_str text, int32_t id, bool control);

/* The token with exactly this text, -1 if there is none. */
int32_t kg_special_find(const struct kg_special *special, struct kg_str text);

/* Offset of the first match in text[0..len), len if there is none; *id and *match_len say which. Tokens marked control
 * are passed over unless with_control. */
size_t kg_special_search(const struct kg_special *special, const char *text, size_t len, bool with_control, int32_t *id,
                         size_t *match_len);

/* Bytes of white space (Unicode's White_Space) that well-formed text[0..len) begins with. */
size_t kg_white_space_span(const char *text, size_t len);

#endif
