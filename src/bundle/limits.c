#include "bundle/limits.h"
#include <stdbool.h>

struct weighing {
    uint64_t n_values;
    const char *wrong;
    int depth;
    bool in_object[KG_MAX_NESTING + 1];
    size_t n_members[KG_MAX_NESTING + 1];
};

/* Most characters are none of these. */
static const bool COUNTS[256] = { ['"'] = true, ['{'] = true, ['['] = true, ['}'] = true, [']'] = true, [','] = true };
static const bool ENDS_OR_ESCAPES[256] = { ['"'] = true, ['\\'] = true };

static const char *next_of(const bool wanted[256], const char *at, const char *end) {
    while (at < end && !wanted[(unsigned char)*at]) at++;
    return at;
}

/* The quote that ends a string. */
static const char *after_string(const char *at, const char *end) {
    while ((at = next_of(ENDS_OR_ESCAPES, at, end)) < end && *at != '"') at += 2;
    return at;
}

static void open_level(struct weighing *w, bool is_object) {
    if (w->depth == KG_MAX_NESTING) {
        w->wrong = "objects and lists nest deeper than 64";
        return;
    }
    w->n_values += 3;
    w->depth++;
    w->in_object[w->depth] = is_object;
    w->n_members[w->depth] = 1;
}

/* One pass, before anything is allocated. Text that is no JSON is the parser's to refuse. */
static void weigh(struct weighing *w, const char *at, const char *end, size_t max_members) {
    while ((at = next_of(COUNTS, at, end)) < end && !w->wrong) {
        if (*at == '"') at = after_string(at + 1, end);
        else if (*at == '{' || *at == '[') open_level(w, *at == '{');
        else if ((*at == '}' || *at == ']') && w->depth > 0) w->depth--;
        else if (*at == ',') {
            w->n_values++;
            if (++w->n_members[w->depth] > max_members && w->in_object[w->depth])
                w->wrong = "an object has more than 1,024 members";
        }
        at++;
    }
}

const char *kg_limit_line(const char *text, size_t len, uint64_t *values_left) {
    struct weighing w = { .n_values = 1 };
    if (len > KG_MAX_LINE_BYTES) return "is longer than 1 MiB";
    weigh(&w, text, text + len, KG_MAX_MEMBERS);
    if (!w.wrong && w.n_values > *values_left) w.wrong = "past the 2,000,000 values that a bundle's records may hold";
    if (!w.wrong) *values_left -= w.n_values;
    return w.wrong;
}

const char *kg_limit_document(const char *text, size_t len) {
    struct weighing w = { .n_values = 1 };
    weigh(&w, text, text + len, SIZE_MAX);
    if (!w.wrong && w.n_values > KG_MAX_DOCUMENT_VALUES) w.wrong = "holds more than 500,000 values";
    return w.wrong;
}

uint64_t kg_limit_expanded(uint64_t compressed_bytes) {
    if (compressed_bytes > KG_MAX_EXPANDED_BYTES / KG_MAX_RATIO) return KG_MAX_EXPANDED_BYTES;
    return KG_RATIO_FREE_BYTES + compressed_bytes * KG_MAX_RATIO;
}
