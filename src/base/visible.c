#include "base/visible.h"
#include "base/size.h"
#include "base/utf8.h"
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

bool kg_is_hidden(uint32_t c) {
    static const struct {
        uint32_t first, last;
    } RANGES[] = { { 0x00, 0x1F },       { 0x7F, 0x9F },      { 0xAD, 0xAD },     { 0x061C, 0x061C },
                   { 0x180E, 0x180E },   { 0x200B, 0x200B },  { 0x200E, 0x200F }, { 0x2028, 0x202E },
                   { 0x2060, 0x206F },   { 0xFDD0, 0xFDEF },  { 0xFEFF, 0xFEFF }, { 0xFFF9, 0xFFFB },
                   { 0x1D173, 0x1D17A }, { 0xE0000, 0xE007F } };
    if (c >= 0x20 && c < 0x7F) return false;
    for (size_t i = 0; i < KG_COUNT_OF(RANGES); i++)
        if (c >= RANGES[i].first && c <= RANGES[i].last) return true;
    return (c & 0xFFFE) == 0xFFFE; /* the last two of each plane are no characters */
}

size_t kg_visible_next(const char *data, size_t len, char shown[KG_VISIBLE_BYTES], size_t *n_shown) {
    uint32_t c = 0;
    const size_t n = kg_utf8_sequence(data, len, &c);
    if (n > 0 && !kg_is_hidden(c)) {
        memcpy(shown, data, n);
        *n_shown = n;
        return n;
    }
    const char *form = n == 0 || c < 0x20 ? "\\x%02X" : c <= 0xFFFF ? "\\u%04X" : "\\U%08X";
    *n_shown = (size_t)snprintf(shown, KG_VISIBLE_BYTES, form, n == 0 ? (unsigned char)data[0] : (unsigned)c);
    return n > 0 ? n : 1;
}

/* The length of what stands as it is at the start of data, a line break or tab, or 0. */
static size_t kept(const char *data, size_t len, enum kg_breaks breaks) {
    if (breaks == KG_BREAKS_BLANK) return 0;
    if (breaks == KG_BREAKS_CRLF && len >= 2 && data[0] == '\r' && data[1] == '\n') return 2;
    return data[0] == '\n' || data[0] == '\t';
}

void kg_visible_put(struct kg_buffer *out, const char *data, size_t len, enum kg_breaks breaks) {
    char shown[KG_VISIBLE_BYTES];
    for (size_t at = 0, n; at < len; at += n) {
        size_t n_shown;
        n = 0;
        while (at + n < len && data[at + n] >= 0x20 && data[at + n] < 0x7F) n++;
        if (n == 0) n = kept(data + at, len - at, breaks);
        if (n > 0) {
            kg_buffer_append(out, data + at, n);
        } else if (data[at] == '\n' || data[at] == '\t') {
            kg_buffer_puts(out, " ");
            n = 1;
        } else {
            n = kg_visible_next(data + at, len - at, shown, &n_shown);
            kg_buffer_append(out, shown, n_shown);
        }
    }
}

/* The C library's table of widths, whatever the caller's locale; without it a character is one column. */
static size_t width_of(uint32_t c) {
    static locale_t utf8;
    if (!utf8) utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!utf8) return 1;
    const locale_t before = uselocale(utf8);
    const int width = wcwidth((wchar_t)c);
    uselocale(before);
    return width < 0 ? 1 : (size_t)width;
}

size_t kg_visible_width(const char *text) {
    const size_t len = strlen(text);
    size_t columns = 0;
    for (size_t at = 0, n; at < len; at += n) {
        uint32_t c = 0;
        n = kg_utf8_sequence(text + at, len - at, &c);
        columns += c < 0x80 || n == 0 ? 1 : width_of(c);
        n += n == 0;
    }
    return columns;
}
