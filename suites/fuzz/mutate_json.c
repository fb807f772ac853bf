/* JSON made wrong by values and members, whole documents and those inside of other forms. */
#include "suites/fuzz/mutate.h"
#include "base/size.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct span {
    size_t at, n;
    bool is_key;
};

static size_t string_end(const struct kg_buffer *b, size_t at) {
    for (at++; at < b->len && b->data[at] != '"'; at++)
        if (b->data[at] == '\\') at++;
    return at < b->len ? at + 1 : b->len;
}

/* The value that begins at a place, however wrong: to the bracket that closes it, the quote or the next sign. */
static size_t value_end(const struct kg_buffer *b, size_t at) {
    size_t depth = 0;
    while (at < b->len) {
        const char c = b->data[at];
        if (c == '"') {
            at = string_end(b, at);
        } else if (c == '{' || c == '[') {
            depth++;
            at++;
        } else if (c == '}' || c == ']') {
            if (depth == 0) return at;
            depth--;
            at++;
        } else {
            at++;
            while (at < b->len && !strchr(",:{}[]\" \n", b->data[at])) at++;
        }
        if (depth == 0) return at;
    }
    return b->len;
}

/* The n-th value or member's name; counts them if there are fewer. */
static size_t find_nth(const struct kg_buffer *b, size_t nth, struct span *span) {
    size_t n = 0, at = 0;
    while (at < b->len) {
        const char c = b->data[at];
        if (strchr(",:}] \n\t\r", c)) { /* NUL too */
            at++;
            continue;
        }
        const bool nested = c == '{' || c == '[';
        if (n++ == nth) {
            *span = (struct span){ at, value_end(b, at) - at, false };
            const size_t end = at + span->n;
            span->is_key = c == '"' && end < b->len && b->data[end] == ':';
            return n;
        }
        at = nested ? at + 1 : value_end(b, at);
    }
    return n;
}

static bool pick(const struct kg_buffer *b, struct kg_rng *rng, struct span *span) {
    const size_t n = find_nth(b, SIZE_MAX, span);
    return n > 0 && find_nth(b, (size_t)kg_rng_below(rng, n), span) > 0;
}

static size_t nested(char *text, size_t size, struct kg_rng *rng) {
    const size_t depth = 1 + (size_t)kg_rng_below(rng, kg_rng_below(rng, 8) ? 80 : size / 8);
    const bool objects = kg_rng_below(rng, 4) == 0, closed = kg_rng_below(rng, 4) != 0;
    size_t n = 0;
    for (size_t i = 0; i < depth; i++) {
        memcpy(text + n, objects ? "{\"a\":" : "[", objects ? 5 : 1);
        n += objects ? 5 : 1;
    }
    text[n++] = '0';
    for (size_t i = 0; i < depth && closed; i++) text[n++] = objects ? '}' : ']';
    return n;
}

/* A value that readers trip over. */
static size_t odd_value(char *text, size_t size, struct kg_rng *rng) {
    static const char *const VALUES[] = { "0",
                                          "-1",
                                          "-0",
                                          "1",
                                          "0.5",
                                          "1e999",
                                          "-1e999",
                                          "1e-400",
                                          "1e308",
                                          "2147483648",
                                          "4294967296",
                                          "16777215",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "9223372036854775808",
                                          "18446744073709551616",
                                          "NaN",
                                          "\"\"",
                                          "null",
                                          "true",
                                          "false",
                                          "[]",
                                          "{}",
                                          "[[]]",
                                          "[null]",
                                          "\"\\u0000\"",
                                          "\"\\ud800\"",
                                          "\"\\u202e\\u001b[31m\"",
                                          "\"../../x\"",
                                          "\"/etc/passwd\"",
                                          "\"*\"",
                                          "\"%s%n\"",
                                          "\"2026-13-45T99:99:99Z\"" };
    const uint64_t way = kg_rng_below(rng, 8);
    if (way == 0) return nested(text, size, rng);
    if (way == 1) return (size_t)snprintf(text, size, "%" PRId64, (int64_t)kg_mutate_edge(rng));
    if (way > 2) return (size_t)snprintf(text, size, "%s", VALUES[kg_rng_below(rng, KG_COUNT_OF(VALUES))]);
    const bool digits = kg_rng_below(rng, 2);
    const size_t n = 1 + (size_t)kg_rng_below(rng, kg_rng_below(rng, 8) ? 400 : size - 2);
    memset(text, digits ? '1' : 'a', n + 1);
    if (!digits) text[0] = text[n] = '"';
    return n + 1;
}

void kg_mutate_json(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    enum { ODD_BYTES = 1 << 14 };
    char odd[ODD_BYTES];
    struct span to, from;
    if (!pick(image, rng, &to)) return;
    const uint64_t way = kg_rng_below(rng, 8);
    const struct kg_buffer *source = way == 4 ? other : image;
    if (way < 3) {
        kg_mutate_replace(image, to.at, to.n, odd, odd_value(odd, sizeof odd, rng));
    } else if (way == 3) { /* gone, with a comma or colon behind it */
        size_t n = to.n;
        if (to.is_key) n = value_end(image, to.at + to.n + 1) - to.at;
        if (to.at + n < image->len && image->data[to.at + n] == ',') n++;
        kg_mutate_replace(image, to.at, n, "", 0);
    } else if (way < 7) { /* another one in its place, or before it */
        if (!pick(source, rng, &from) || from.n >= sizeof odd) return;
        memcpy(odd, source->data + from.at, from.n);
        kg_mutate_replace(image, to.at, way == 6 ? 0 : to.n, odd, from.n);
        if (way == 6) kg_mutate_replace(image, to.at + from.n, 0, to.is_key ? ":0," : ",", to.is_key ? 3 : 1);
    } else if (to.is_key) { /* the member twice */
        const size_t n = value_end(image, to.at + to.n + 1) - to.at;
        if (n >= sizeof odd) return;
        memcpy(odd, image->data + to.at, n);
        odd[n] = ',';
        kg_mutate_replace(image, to.at, 0, odd, n + 1);
    } else {
        kg_mutate_replace(image, to.at, 0, "[", 1);
        kg_mutate_replace(image, to.at + 1 + to.n, 0, "]", 1);
    }
}

void kg_mutate_safetensors(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    uint64_t len = 0;
    if (image->len >= sizeof len) memcpy(&len, image->data, sizeof len);
    if (image->len < sizeof len || len > image->len - sizeof len || kg_rng_below(rng, 4) == 0) {
        kg_mutate_bytes(image, other, rng);
        return;
    }
    struct kg_buffer header = KG_BUFFER_INIT;
    kg_buffer_append(&header, image->data + sizeof len, (size_t)len);
    kg_mutate_json(&header, image, rng);
    kg_mutate_replace(image, sizeof len, (size_t)len, kg_buffer_text(&header), header.len);
    len = header.len;
    if (kg_rng_below(rng, 8)) memcpy(image->data, &len, sizeof len);
    kg_buffer_free(&header);
}
