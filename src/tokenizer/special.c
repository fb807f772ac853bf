#include "tokenizer/special.h"
#include "base/buffer.h"
#include "base/size.h"
#include "base/utf8.h"
#include <stdlib.h>

void kg_special_init(struct kg_special *special) {
    *special = (struct kg_special){ 0 };
    for (size_t i = 0; i < 256; i++) special->first[i] = -1;
}

void kg_special_free(struct kg_special *special) {
    free(special->nodes);
    special->nodes = NULL;
}

static int32_t find_sibling(const struct kg_special *special, int32_t node, unsigned char byte) {
    while (node >= 0 && special->nodes[node].byte != byte) node = special->nodes[node].sibling;
    return node;
}

static int32_t add_node(struct kg_special *special, unsigned char byte, int32_t sibling) {
    if (special->n_nodes == special->capacity) {
        special->capacity = special->capacity ? 2 * special->capacity : 256;
        special->nodes = kg_xrealloc(special->nodes, special->capacity * sizeof *special->nodes);
    }
    special->nodes[special->n_nodes] =
        (struct kg_special_node){ .child = -1, .sibling = sibling, .id = -1, .byte = byte };
    return (int32_t)special->n_nodes++;
}

void kg_special_add(struct kg_special *special, struct kg_str text, int32_t id, bool control) {
    if (text.len == 0) return;
    const unsigned char first = (unsigned char)text.data[0];
    if (special->first[first] < 0) special->first[first] = add_node(special, first, -1);
    int32_t node = special->first[first];
    for (size_t i = 1; i < text.len; i++) {
        const unsigned char byte = (unsigned char)text.data[i];
        int32_t next = find_sibling(special, special->nodes[node].child, byte);
        if (next < 0) {
            next = add_node(special, byte, special->nodes[node].child);
            special->nodes[node].child = next;
        }
        node = next;
    }
    special->nodes[node].id = id;
    special->nodes[node].control = control;
}

/* The longest token at the start of text[0..len). */
static int32_t match_here(const struct kg_special *special, const char *text, size_t len, bool with_control,
                          size_t *match_len) {
    int32_t id = -1, node = special->first[(unsigned char)text[0]];
    for (size_t n = 1; node >= 0; n++) {
        const struct kg_special_node *at = &special->nodes[node];
        if (at->id >= 0 && (with_control || !at->control)) {
            id = at->id;
            *match_len = n;
        }
        if (n == len) break;
        node = find_sibling(special, at->child, (unsigned char)text[n]);
    }
    return id;
}

int32_t kg_special_find(const struct kg_special *special, struct kg_str text) {
    size_t match_len = 0;
    if (text.len == 0) return -1;
    const int32_t id = match_here(special, text.data, text.len, true, &match_len);
    return id >= 0 && match_len == text.len ? id : -1;
}

size_t kg_special_search(const struct kg_special *special, const char *text, size_t len, bool with_control, int32_t *id,
                         size_t *match_len) {
    if (special->n_nodes == 0) return len;
    for (size_t at = 0; at < len; at++) {
        if (special->first[(unsigned char)text[at]] < 0) continue;
        *id = match_here(special, text + at, len - at, with_control, match_len);
        if (*id >= 0) return at;
    }
    return len;
}

static bool is_white_space(uint32_t c) {
    static const uint32_t RANGES[][2] = { { 0x9, 0xd },       { 0x20, 0x20 },     { 0x85, 0x85 },
                                          { 0xa0, 0xa0 },     { 0x1680, 0x1680 }, { 0x2000, 0x200a },
                                          { 0x2028, 0x2029 }, { 0x202f, 0x202f }, { 0x205f, 0x205f },
                                          { 0x3000, 0x3000 } };
    for (size_t i = 0; i < KG_COUNT_OF(RANGES); i++)
        if (c >= RANGES[i][0] && c <= RANGES[i][1]) return true;
    return false;
}

size_t kg_white_space_span(const char *text, size_t len) {
    size_t at = 0;
    while (at < len) {
        uint32_t c;
        const size_t n = kg_utf8_get(text + at, &c);
        if (!is_white_space(c)) break;
        at += n;
    }
    return at;
}
