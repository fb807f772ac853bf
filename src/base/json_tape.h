/* A fast JSON reader: it parses a text into an array of nodes that point into the text, without a malloc per value. Use
 * it to read many records once, and jansson for everything else.
 *
 * It accepts what jansson accepts with JSON_REJECT_DUPLICATES: RFC 8259, UTF-8, no U+0000, 64-bit integers, no number
 * that overflows. Objects and arrays nest at most 64 deep. A NUL is an error (jansson takes it for the end).
 *
 * The tree is stored flat: a node is followed by its descendants, n_below of them. */
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
    const char *name; /* of a member of an object; NULL in a list */
    const char *text; /* TEXT: the characters; INT and REAL: the digits, not NUL-terminated */
};

struct kg_tape {
    struct kg_node *nodes;
    size_t n_nodes, room;
};
void kg_tape_free(struct kg_tape *tape);

/* Parses text[0..len) and appends its nodes; *at is the index of the root node. Returns NULL, or a description of the
 * error (static storage). The text is modified in place (escapes, string ends) and must outlive the tape; text[len]
 * must be writable. Nodes move when the tape grows, so take pointers to them only after the last read. */
const char *kg_tape_read(struct kg_tape *tape, char *text, size_t len, size_t *at);

/* The same, but an object may have members of one name, all of which are nodes: looking for them takes the square of
 * their number. */
const char *kg_tape_read_with_duplicates(struct kg_tape *tape, char *text, size_t len, size_t *at);

/* A member of an object; NULL if it has no such member, or the node is NULL or not an object. */
const struct kg_node *kg_node_member(const struct kg_node *object, const char *name);
/* Iterates over a list: the first child, then the one after `child`; NULL at the end. */
const struct kg_node *kg_node_first(const struct kg_node *list);
const struct kg_node *kg_node_next(const struct kg_node *list, const struct kg_node *child);

/* A member's value; NULL or the fallback if it is missing or of another type (like the jansson helpers of
 * bundle/records.h). */
const char *kg_node_text(const struct kg_node *object, const char *name);
int64_t kg_node_int(const struct kg_node *object, const char *name, int64_t fallback);
bool kg_node_is_number(const struct kg_node *node);
double kg_node_number(const struct kg_node *node);   /* of an INT or REAL */
int64_t kg_node_integer(const struct kg_node *node); /* of an INT */

#endif
