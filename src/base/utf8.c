#include "base/utf8.h"
#include "base/visible.h"
#include <stdio.h>
#include <string.h>

/* Length of a character by its first byte (0: never a first byte), and the range its second byte must lie in. */
static size_t sequence(unsigned char first, unsigned char *low, unsigned char *high) {
    *low = 0x80;
    *high = 0xbf;
    if (first < 0x80) return 1;
    if (first < 0xc2) return 0;
    if (first < 0xe0) return 2;
    if (first < 0xf0) {
        if (first == 0xe0) *low = 0xa0;
        if (first == 0xed) *high = 0x9f;
        return 3;
    }
    if (first > 0xf4) return 0;
    if (first == 0xf0) *low = 0x90;
    if (first == 0xf4) *high = 0x8f;
    return 4;
}

enum kg_utf8_kind kg_utf8_look(const char *data, size_t len, size_t *n) {
    const unsigned char *bytes = (const unsigned char *)data;
    unsigned char low, high;
    const size_t want = sequence(bytes[0], &low, &high);
    *n = 1;
    if (want == 0) return KG_UTF8_BROKEN;
    while (*n < want) {
        if (*n == len) return KG_UTF8_CUT;
        if (bytes[*n] < low || bytes[*n] > high) return KG_UTF8_BROKEN;
        low = 0x80;
        high = 0xbf;
        ++*n;
    }
    return KG_UTF8_WHOLE;
}

size_t kg_utf8_sequence(const char *data, size_t len, uint32_t *code_point) {
    size_t n;
    if (len == 0 || kg_utf8_look(data, len, &n) != KG_UTF8_WHOLE) return 0;
    return kg_utf8_get(data, code_point);
}

size_t kg_utf8_first_error(const char *data, size_t len) {
    size_t at = 0;
    while (at < len) {
        uint64_t word;
        if (len - at >= sizeof word) {
            memcpy(&word, data + at, sizeof word);
            if (!(word & 0x8080808080808080u)) {
                at += sizeof word;
                continue;
            }
        }
        size_t n;
        if (kg_utf8_look(data + at, len - at, &n) != KG_UTF8_WHOLE) return at;
        at += n;
    }
    return len;
}

bool kg_utf8_valid(const char *data, size_t len) {
    return kg_utf8_first_error(data, len) == len;
}

size_t kg_utf8_get(const char *text, uint32_t *code_point) {
    const unsigned char *b = (const unsigned char *)text;
    switch (kg_utf8_length(text[0])) {
    case 1: *code_point = b[0]; return 1;
    case 2: *code_point = (uint32_t)(b[0] & 0x1f) << 6 | (b[1] & 0x3f); return 2;
    case 3: *code_point = (uint32_t)(b[0] & 0x0f) << 12 | (uint32_t)(b[1] & 0x3f) << 6 | (b[2] & 0x3f); return 3;
    default:
        *code_point = (uint32_t)(b[0] & 0x07) << 18 | (uint32_t)(b[1] & 0x3f) << 12 | (uint32_t)(b[2] & 0x3f) << 6 |
                      (b[3] & 0x3f);
        return 4;
    }
}

size_t kg_utf8_put(uint32_t c, char out[KG_UTF8_MAX_BYTES]) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char MARK[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(MARK[n] | c);
    return n;
}

void kg_utf8_append(struct kg_buffer *out, const char *data, size_t len) {
    uint32_t cp;
    for (size_t at = 0; at < len;) {
        const size_t n = kg_utf8_sequence(data + at, len - at, &cp);
        if (n == 0) kg_buffer_puts(out, "\xEF\xBF\xBD");
        else kg_buffer_append(out, data + at, n);
        at += n ? n : 1;
    }
}

struct kg_quoted kg_quote(const char *data, size_t len) {
    struct kg_quoted q;
    const size_t room = sizeof q.text - KG_VISIBLE_BYTES - sizeof "..."; /* leaves room for one more character */
    size_t used = 0, at = 0;
    while (at < len && used < room) {
        size_t n_shown;
        at += kg_visible_next(data + at, len - at, q.text + used, &n_shown);
        used += n_shown;
    }
    snprintf(q.text + used, sizeof q.text - used, "%s", at < len ? "..." : "");
    return q;
}
