/* JSON read quickly: a text becomes an array of nodes that point into it, without a malloc for each value. For reading
 * many records once; jansson is for everything else. What is accepted is what jansson accepts with
 * JSON_REJECT_DUPLICATES (RFC 8259, UTF-8, no U+0000, integers of 64 bits, no number that overflows), objects and
 * arrays nested at most 64 deep; a NUL is a wrong character, where jansson takes it for the end.
 *
 * A tree lies flat: a node is followed by its children, and node.n_below says how many nodes are below it. */
#ifndef KIGO_BASE_JSON_TAPE_H
#define KIGO_BASE_JSON_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kg_node_kind {
    KG_NODE_NULL,
    KG_NODE_FALSE,
    KG_NODE_TRUE,
    KG_NODE_INT,
    KG_NODE_REAL,
    KG_NODE_TEXT,
    KG_NODE_LIST,
    KG_NODE_OBJECT
};

struct kg_node {
    enum kg_node_kind kind;
    uint32_t n_below;
    const char *name; /* of an object's member; NULL in a list */
    const char *text; /* of TEXT: the characters; of INT and REAL: the digits, not ended by a NUL */
};

struct kg_tape {
    struct kg_node *nodes;
    size_t n_nodes, room;
};
void kg_tape_free(struct kg_tape *tape);

/* Appends the value that text[0..len) holds; *at is the place of its node. The text is changed (escapes and ends of
 * strings), must stay, and text[len] must be writable. NULL, or what is wrong (static storage). Nodes move when a tape
 * grows: pointers to them are taken when all is read. */
const char *kg_tape_read(struct kg_tape *tape, char *text, size_t len, size_t *at);

/* A member of an object; NULL if there is none, or the node is NULL or no object. */
const struct kg_node *kg_node_member(const struct kg_node *object, const char *name);
/* The children of a list, one after another: the first, then each one's next; NULL behind the last. */
const struct kg_node *kg_node_first(const struct kg_node *list);
const struct kg_node *kg_node_next(const struct kg_node *list, const struct kg_node *child);

/* Members as jansson's helpers of bundle/records.h give them: NULL or the fallback where missing or of another type. */
const char *kg_node_text(const struct kg_node *object, const char *name);
int64_t kg_node_int(const struct kg_node *object, const char *name, int64_t fallback);
bool kg_node_is_number(const struct kg_node *node);
double kg_node_number(const struct kg_node *node);   /* of an INT or REAL */
int64_t kg_node_integer(const struct kg_node *node); /* of an INT */

#endif
