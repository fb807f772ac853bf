#include "base/json_tape.h"
#include "base/buffer.h"
#include "base/utf8.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64, SAFE_DIGITS = 18, MANY_DIGITS = 300 }; /* numbers with fewer digits cannot overflow */

struct reader {
    struct kg_tape *tape;
    char *at, *end;
    const char *wrong; /* the first error; NULL: none */
    int depth;
    bool duplicates; /* are the caller's to find */
};

static void read_value(struct reader *r, const char *name);

static bool fail(struct reader *r, const char *what) {
    if (!r->wrong) r->wrong = what;
    return false;
}

static void skip_blanks(struct reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static bool take(struct reader *r, char c) {
    skip_blanks(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static size_t add_node(struct reader *r, enum kg_node_kind kind, const char *name, const char *text) {
    struct kg_tape *tape = r->tape;
    if (tape->n_nodes == tape->room) {
        tape->room = tape->room ? 2 * tape->room : 4096;
        tape->nodes = kg_xrealloc(tape->nodes, tape->room * sizeof *tape->nodes);
    }
    tape->nodes[tape->n_nodes] = (struct kg_node){ kind, 0, name, text };
    return tape->n_nodes++;
}

static bool hex4(const char *at, const char *end, uint32_t *value) {
    *value = 0;
    if (end - at < 4) return false;
    for (int i = 0; i < 4; i++) {
        const char c = at[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return false;
        *value = *value * 16 + (uint32_t)digit;
    }
    return true;
}

/* "\uXXXX", or a surrogate pair for code points above U+FFFF; r->at is after the 'u'. */
static bool unescape_code(struct reader *r, char **to) {
    uint32_t code, low;
    if (!hex4(r->at, r->end, &code)) return fail(r, "invalid escape");
    r->at += 4;
    if (code >= 0xD800 && code < 0xDC00) {
        if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u' || !hex4(r->at + 2, r->end, &low) ||
            low < 0xDC00 || low > 0xDFFF)
            return fail(r, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        r->at += 6;
    } else if (code >= 0xDC00 && code < 0xE000) {
        return fail(r, "half of a surrogate pair");
    }
    if (code == 0) return fail(r, "U+0000 in a string");
    *to += kg_utf8_put(code, *to);
    return true;
}

static bool unescape(struct reader *r, char **to) {
    static const char FROM[] = "\"\\/bfnrt", TO[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end) return fail(r, "a string without an end");
    const char c = *r->at++;
    if (c == 'u') return unescape_code(r, to);
    const char *place = c ? strchr(FROM, c) : NULL;
    if (!place) return fail(r, "invalid escape");
    *(*to)++ = TO[place - FROM];
    return true;
}

/* Unescapes a string in place and NUL-terminates it; r->at is after the opening quote. */
static char *read_string(struct reader *r) {
    char *const begin = r->at;
    char *to = begin;
    bool ascii = true;
    while (r->at < r->end && *r->at != '"') {
        const unsigned char c = (unsigned char)*r->at++;
        if (c < 0x20) return fail(r, "control character in a string"), NULL;
        ascii = ascii && c < 0x80;
        if (c != '\\') *to++ = (char)c;
        else if (!unescape(r, &to)) return NULL;
    }
    if (r->at == r->end) return fail(r, "a string without an end"), NULL;
    r->at++;
    if (!ascii && !kg_utf8_valid(begin, (size_t)(to - begin))) return fail(r, "not UTF-8"), NULL;
    *to = '\0';
    return begin;
}

static bool digits(struct reader *r) {
    const char *begin = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
    return r->at > begin;
}

static void read_number(struct reader *r, const char *name) {
    char *const begin = r->at;
    bool real = false, scaled = false;
    if (*r->at == '-') r->at++;
    const char *first = r->at;
    if (!digits(r) || (*first == '0' && r->at > first + 1)) {
        fail(r, "invalid number");
        return;
    }
    const bool long_number = r->at - first > SAFE_DIGITS;
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        real = true;
        if (!digits(r)) fail(r, "invalid number");
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        real = scaled = true;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
        if (!digits(r)) fail(r, "invalid number");
    }
    if (r->wrong) return;
    const size_t place = add_node(r, real ? KG_NODE_REAL : KG_NODE_INT, name, begin); /* may move the nodes */
    const struct kg_node *node = &r->tape->nodes[place];
    errno = 0;
    if (!real && long_number) {
        (void)!strtoll(begin, NULL, 10);
        if (errno == ERANGE) fail(r, "too large an integer");
    }
    if (real && (scaled || r->at - begin > MANY_DIGITS) && isinf(kg_node_number(node))) fail(r, "too large a number");
}

static void read_word(struct reader *r, const char *name, const char *word, enum kg_node_kind kind) {
    const size_t len = strlen(word);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0) {
        fail(r, "invalid token");
        return;
    }
    r->at += len;
    add_node(r, kind, name, NULL);
}

/* Whether the object that is being read already has this member. */
static bool has_member(const struct kg_tape *tape, size_t object, const char *name) {
    for (size_t i = object + 1; i < tape->n_nodes; i += 1 + tape->nodes[i].n_below)
        if (tape->nodes[i].name[0] == name[0] && strcmp(tape->nodes[i].name, name) == 0) return true;
    return false;
}

static bool read_member(struct reader *r, size_t object) {
    if (!take(r, '"')) return fail(r, "a member's name is expected");
    const char *name = read_string(r);
    if (!name) return false;
    if (!r->duplicates && has_member(r->tape, object, name)) return fail(r, "a member comes twice");
    if (!take(r, ':')) return fail(r, "':' is expected");
    read_value(r, name);
    return !r->wrong;
}

static void read_nested(struct reader *r, const char *name, enum kg_node_kind kind) {
    const bool is_object = kind == KG_NODE_OBJECT;
    const char close = is_object ? '}' : ']';
    if (++r->depth > DEEPEST) {
        fail(r, "nested too deep");
        return;
    }
    r->at++;
    const size_t own = add_node(r, kind, name, NULL);
    if (!take(r, close)) {
        do {
            if (is_object) read_member(r, own);
            else read_value(r, NULL);
        } while (!r->wrong && take(r, ','));
        if (!r->wrong && !take(r, close)) fail(r, "',' or an end is expected");
    }
    r->tape->nodes[own].n_below = (uint32_t)(r->tape->n_nodes - own - 1);
    r->depth--;
}

static void read_value(struct reader *r, const char *name) {
    skip_blanks(r);
    const char c = r->at < r->end ? *r->at : '\0';
    if (c == '{') {
        read_nested(r, name, KG_NODE_OBJECT);
    } else if (c == '[') {
        read_nested(r, name, KG_NODE_LIST);
    } else if (c == '"') {
        r->at++;
        const char *text = read_string(r);
        if (text) add_node(r, KG_NODE_TEXT, name, text);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        read_number(r, name);
    } else if (c == 't') {
        read_word(r, name, "true", KG_NODE_TRUE);
    } else if (c == 'f') {
        read_word(r, name, "false", KG_NODE_FALSE);
    } else {
        read_word(r, name, "null", KG_NODE_NULL);
    }
}

static const char *read_text(struct kg_tape *tape, char *text, size_t len, size_t *at, bool duplicates) {
    struct reader r = { tape, text, text + len, NULL, 0, duplicates };
    const size_t before = tape->n_nodes;
    text[len] = '\0';
    read_value(&r, NULL);
    skip_blanks(&r);
    if (r.at < r.end) fail(&r, "more than one value");
    if (r.wrong) tape->n_nodes = before;
    *at = before;
    return r.wrong;
}

const char *kg_tape_read(struct kg_tape *tape, char *text, size_t len, size_t *at) {
    return read_text(tape, text, len, at, false);
}

const char *kg_tape_read_with_duplicates(struct kg_tape *tape, char *text, size_t len, size_t *at) {
    return read_text(tape, text, len, at, true);
}

void kg_tape_free(struct kg_tape *tape) {
    free(tape->nodes);
    *tape = (struct kg_tape){ NULL, 0, 0 };
}

const struct kg_node *kg_node_first(const struct kg_node *list) {
    return list && (list->kind == KG_NODE_LIST || list->kind == KG_NODE_OBJECT) && list->n_below > 0 ? list + 1 : NULL;
}

const struct kg_node *kg_node_next(const struct kg_node *list, const struct kg_node *child) {
    const struct kg_node *next = child + 1 + child->n_below;
    return next <= list + list->n_below ? next : NULL;
}

const struct kg_node *kg_node_member(const struct kg_node *object, const char *name) {
    if (!object || object->kind != KG_NODE_OBJECT) return NULL;
    for (const struct kg_node *m = kg_node_first(object); m; m = kg_node_next(object, m))
        if (m->name[0] == name[0] && strcmp(m->name, name) == 0) return m;
    return NULL;
}

const char *kg_node_text(const struct kg_node *object, const char *name) {
    const struct kg_node *m = kg_node_member(object, name);
    return m && m->kind == KG_NODE_TEXT ? m->text : NULL;
}

int64_t kg_node_int(const struct kg_node *object, const char *name, int64_t fallback) {
    const struct kg_node *m = kg_node_member(object, name);
    return m && m->kind == KG_NODE_INT ? kg_node_integer(m) : fallback;
}

bool kg_node_is_number(const struct kg_node *node) {
    return node && (node->kind == KG_NODE_INT || node->kind == KG_NODE_REAL);
}

double kg_node_number(const struct kg_node *node) {
    return node->kind == KG_NODE_INT ? (double)kg_node_integer(node) : strtod(node->text, NULL);
}

int64_t kg_node_integer(const struct kg_node *node) {
    return strtoll(node->text, NULL, 10);
}
