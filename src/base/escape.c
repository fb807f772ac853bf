#include "base/escape.h"
#include "base/size.h"
#include "base/utf8.h"
#include "base/visible.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* What a medium reads as markup, and what says the character itself there. */
struct markup {
    char c;
    const char *instead;
};

static const struct markup TEXT[] = { { 0, NULL } };
static const struct markup MARKDOWN[] = { { '<', "&lt;" }, { '&', "&amp;" }, { '|', "\\|" }, { '\\', "\\\\" },
                                          { '`', "\\`" },  { '*', "\\*" },   { '_', "\\_" }, { '[', "\\[" },
                                          { ']', "\\]" },  { '~', "\\~" },   { 0, NULL } };
static const struct markup HTML[] = { { '<', "&lt;" },   { '>', "&gt;" },   { '&', "&amp;" }, { '"', "&quot;" },
                                      { '\'', "&#39;" }, { '\n', "&#10;" }, { '\t', "&#9;" }, { 0, NULL } };
static const struct markup TAP[] = { { '#', "\\#" }, { '\\', "\\\\" }, { 0, NULL } };

static const struct markup *const MEDIA[KG_MEDIUM_COUNT] = {
    [KG_MEDIUM_TEXT] = TEXT, [KG_MEDIUM_MARKDOWN] = MARKDOWN, [KG_MEDIUM_HTML] = HTML, [KG_MEDIUM_TAP] = TAP
};

/* Visible text without the markup. */
static void put_plain(struct kg_buffer *out, const struct markup *markup, const struct kg_buffer *visible) {
    for (size_t i = 0; i < visible->len; i++) {
        const struct markup *m = markup;
        while (m->c && m->c != visible->data[i]) m++;
        if (m->c) kg_buffer_puts(out, m->instead);
        else kg_buffer_append(out, visible->data + i, 1);
    }
}

static void put(struct kg_buffer *out, const struct markup *markup, const char *text, size_t len,
                enum kg_breaks breaks) {
    struct kg_buffer visible = KG_BUFFER_INIT;
    kg_visible_put(&visible, text, len, breaks);
    put_plain(out, markup, &visible);
    kg_buffer_free(&visible);
}

void kg_escape(struct kg_buffer *out, enum kg_medium medium, const char *text, size_t len) {
    put(out, MEDIA[medium], text, len, KG_BREAKS_BLANK);
}

void kg_xml_put(struct kg_buffer *out, const char *text) {
    put(out, HTML, text, strlen(text), KG_BREAKS_KEPT);
}

/* Beginnings of what a spreadsheet computes; the last four are the signs' wide forms. */
static bool is_formula(const char *text, size_t len) {
    static const char *const BEGINNINGS[] = {
        "=", "+", "-", "@", "\t", "\xEF\xBC\x9D", "\xEF\xBC\x8B", "\xEF\xBC\x8D", "\xEF\xBC\xA0"
    };
    bool begins = false;
    char *end;
    for (size_t i = 0; i < KG_COUNT_OF(BEGINNINGS); i++)
        begins = begins || (len >= strlen(BEGINNINGS[i]) && memcmp(text, BEGINNINGS[i], strlen(BEGINNINGS[i])) == 0);
    if (!begins || (len == 1 && text[0] == '-')) return false; /* a dash stands for what is not there */
    strtod(text, &end);
    return text[0] == '\t' || end != text + len;
}

void kg_csv_put(struct kg_buffer *out, const char *text, size_t len, const char *end) {
    struct kg_buffer cell = KG_BUFFER_INIT;
    kg_buffer_puts(&cell, is_formula(text, len) ? "'" : "");
    kg_visible_put(&cell, text, len, KG_BREAKS_KEPT);
    bool quoted = cell.len > 0 && (cell.data[0] == ' ' || cell.data[cell.len - 1] == ' ');
    quoted = quoted || strpbrk(kg_buffer_text(&cell), ",\"\n\t");
    if (quoted) kg_buffer_puts(out, "\"");
    for (size_t i = 0; i < cell.len; i++) {
        if (cell.data[i] == '"') kg_buffer_puts(out, "\"");
        kg_buffer_append(out, cell.data + i, 1);
    }
    kg_buffer_printf(out, "%s%s", quoted ? "\"" : "", end);
    kg_buffer_free(&cell);
}

/* Whether the first character of text cannot stand in a command that is shown. */
static bool needs_number(const char *text, size_t len, size_t *n) {
    uint32_t c = 0;
    *n = kg_utf8_sequence(text, len, &c);
    if (*n > 0) return c != '\n' && kg_is_hidden(c);
    *n = 1;
    return true;
}

void kg_shell_quote(struct kg_buffer *out, const char *text) {
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._=,+-";
    const size_t len = strlen(text);
    if (len > 0 && strspn(text, PLAIN) == len) {
        kg_buffer_puts(out, text);
        return;
    }
    kg_buffer_puts(out, "'");
    for (size_t at = 0, n; at < len; at += n) {
        if (needs_number(text + at, len - at, &n)) {
            kg_buffer_puts(out, "'\"$(printf '");
            for (size_t i = 0; i < n; i++) kg_buffer_printf(out, "\\%03o", (unsigned char)text[at + i]);
            kg_buffer_puts(out, "')\"'");
        } else if (text[at] == '\'') {
            kg_buffer_puts(out, "'\\''");
        } else {
            kg_buffer_append(out, text + at, n);
        }
    }
    kg_buffer_puts(out, "'");
}
