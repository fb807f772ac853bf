/* Text of records on a page: every character either stands for itself or is named. */
#include "base/markdown.h"
#include "base/utf8.h"
#include "bundle/export.h"
#include "report/page.h"
#include <string.h>

/* Characters that have no glyph, or that change the order in which those around them are shown: C0 and
 * C1 controls, line and paragraph separators, marks, embeddings, overrides and isolates of direction (Unicode Standard
 * Annex 9, table 4), the byte order mark and what is no character at all. */
static bool is_named(uint32_t c) {
    static const struct {
        uint32_t first, last;
    } RANGES[] = {
        { 0x00, 0x1F },     { 0x7F, 0x9F },     { 0x061C, 0x061C }, { 0x200E, 0x200F }, { 0x2028, 0x202E },
        { 0x2060, 0x206F }, { 0xFEFF, 0xFEFF }, { 0xFFF9, 0xFFFB }, { 0xFFFE, 0xFFFF }, { 0xE0000, 0xE0FFF }
    };
    for (size_t i = 0; i < sizeof RANGES / sizeof *RANGES; i++)
        if (c >= RANGES[i].first && c <= RANGES[i].last) return true;
    return false;
}

/* The text with such characters as U+XXXX in brackets and malformed bytes as U+FFFD; a line break becomes a blank. */
static void put_visible(struct kg_buffer *out, const char *text) {
    const size_t len = strlen(text);
    for (size_t at = 0; at < len;) {
        uint32_t c;
        const size_t n = kg_utf8_sequence(text + at, len - at, &c);
        if (n == 0) kg_utf8_append(out, text + at, 1);
        else if (c == '\n' || c == '\t') kg_buffer_puts(out, " ");
        else if (is_named(c)) kg_buffer_printf(out, "[U+%04X]", (unsigned)c);
        else kg_buffer_append(out, text + at, n);
        at += n > 0 ? n : 1;
    }
}

void kg_html_put(struct kg_buffer *out, const char *text) {
    struct kg_buffer visible = KG_BUFFER_INIT;
    put_visible(&visible, text);
    for (const char *s = kg_buffer_text(&visible); *s; s++) {
        if (*s == '\'') kg_buffer_puts(out, "&#39;");
        else kg_xml_put(out, (const char[]){ *s, '\0' });
    }
    kg_buffer_free(&visible);
}

void kg_page_markdown_put(struct kg_buffer *out, const char *text) {
    struct kg_buffer visible = KG_BUFFER_INIT;
    put_visible(&visible, text);
    kg_markdown_put(out, kg_buffer_text(&visible));
    kg_buffer_free(&visible);
}
