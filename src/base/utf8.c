#include "base/utf8.h"
#include <stdio.h>
#include <string.h>

/* What a lead byte says: the bits that mark it, sequence length, and the smallest code point that needs that length. */
struct lead {
    uint8_t mask, mark;
    uint8_t len;
    uint32_t min_code_point;
};

static const struct lead LEADS[] = {
    { 0x80, 0x00, 1, 0x0 },
    { 0xE0, 0xC0, 2, 0x80 },
    { 0xF0, 0xE0, 3, 0x800 },
    { 0xF8, 0xF0, 4, 0x10000 },
};

size_t kg_utf8_sequence(const char *data, size_t len, uint32_t *code_point) {
    if (len == 0) return 0;
    const uint8_t first = (uint8_t)data[0];
    for (size_t k = 0; k < sizeof LEADS / sizeof *LEADS; k++) {
        const struct lead *lead = &LEADS[k];
        if ((first & lead->mask) != lead->mark) continue;
        if (lead->len > len) return 0;
        uint32_t cp = first & (uint8_t)~lead->mask;
        for (size_t i = 1; i < lead->len; i++) {
            const uint8_t next = (uint8_t)data[i];
            if ((next & 0xC0) != 0x80) return 0;
            cp = cp << 6 | (next & 0x3F);
        }
        if (cp < lead->min_code_point || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) return 0;
        *code_point = cp;
        return lead->len;
    }
    return 0;
}

bool kg_utf8_valid(const char *data, size_t len) {
    uint32_t cp;
    for (size_t at = 0, n; at < len; at += n) {
        n = kg_utf8_sequence(data + at, len - at, &cp);
        if (n == 0) return false;
    }
    return true;
}

void kg_utf8_append(struct kg_buffer *out, const char *data, size_t len) {
    uint32_t cp;
    for (size_t at = 0; at < len;) {
        const size_t n = kg_utf8_sequence(data + at, len - at, &cp);
        if (n == 0)
            kg_buffer_puts(out, "\xEF\xBF\xBD");
        else
            kg_buffer_append(out, data + at, n);
        at += n ? n : 1;
    }
}

struct kg_quoted kg_quote(const char *data, size_t len) {
    struct kg_quoted q;
    const size_t room = sizeof q.text - sizeof "\\xNN..."; /* one more piece and the mark of a cut always fit */
    size_t used = 0, at = 0;
    while (at < len && used < room) {
        uint32_t cp = 0;
        const size_t n = kg_utf8_sequence(data + at, len - at, &cp);
        if (n == 0 || cp < 0x20 || (cp >= 0x7F && cp < 0xA0)) {
            used += (size_t)snprintf(q.text + used, sizeof q.text - used, "\\x%02X", (uint8_t)data[at]);
            at++;
        } else {
            memcpy(q.text + used, data + at, n);
            used += n;
            at += n;
        }
    }
    snprintf(q.text + used, sizeof q.text - used, "%s", at < len ? "..." : "");
    return q;
}
