#include "base/json_read.h"
#include <stdlib.h>

void kg_json_room_free(struct kg_json_room *room) {
    kg_tape_free(&room->tape);
    kg_buffer_free(&room->text);
}

static json_t *value_of(const struct kg_node *node);

static json_t *list_of(const struct kg_node *node) {
    json_t *list = json_array();
    for (const struct kg_node *c = kg_node_first(node); c; c = kg_node_next(node, c))
        if (json_array_append_new(list, value_of(c)) != 0) return json_decref(list), NULL;
    return list;
}

/* NULL where a member comes twice, or memory ran out. */
static json_t *object_of(const struct kg_node *node) {
    json_t *object = json_object();
    size_t n = 0;
    for (const struct kg_node *m = kg_node_first(node); m; m = kg_node_next(node, m))
        if (json_object_set_new_nocheck(object, m->name, value_of(m)) != 0 || json_object_size(object) != ++n)
            return json_decref(object), NULL;
    return object;
}

static json_t *value_of(const struct kg_node *node) {
    switch (node->kind) {
    case KG_NODE_NULL: return json_null();
    case KG_NODE_FALSE: return json_false();
    case KG_NODE_TRUE: return json_true();
    case KG_NODE_INT: return json_integer(kg_node_integer(node));
    case KG_NODE_REAL: return json_real(kg_node_number(node));
    case KG_NODE_TEXT: return json_string_nocheck(node->text);
    case KG_NODE_LIST: return list_of(node);
    case KG_NODE_OBJECT: return object_of(node);
    }
    return NULL;
}

/* What the tape does not take, or what is no value by itself, is jansson's to judge: its words are what users know. */
json_t *kg_json_read(struct kg_json_room *room, const char *text, size_t len, json_error_t *error) {
    size_t at;
    room->tape.n_nodes = 0;
    room->text.len = 0;
    kg_buffer_reserve(&room->text, len + 1);
    kg_buffer_append(&room->text, text, len);
    json_t *json = NULL;
    if (!kg_tape_read_with_duplicates(&room->tape, room->text.data, len, &at)) {
        const struct kg_node *node = &room->tape.nodes[at];
        if (node->kind == KG_NODE_OBJECT || node->kind == KG_NODE_LIST) json = value_of(node);
    }
    return json ? json : json_loadb(text, len, JSON_REJECT_DUPLICATES, error);
}
