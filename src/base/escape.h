/* Text from outside (records, files, arguments, what other programs said) in the place where it is read, one function a
 * medium: it shows what it holds (base/visible.h), stays where it was put, and is not taken for markup or a formula.
 * JSON: base/json_put.h. */
#ifndef KIGO_BASE_ESCAPE_H
#define KIGO_BASE_ESCAPE_H

#include "base/buffer.h"
#include <stddef.h>

enum kg_medium {
    KG_MEDIUM_TEXT,     /* a terminal, or a page of plain text */
    KG_MEDIUM_MARKDOWN, /* with the HTML that Markdown lets through */
    KG_MEDIUM_HTML,     /* an element's text, or a quoted attribute */
    KG_MEDIUM_TAP,      /* a description: '#' would begin a directive */
    KG_MEDIUM_COUNT,
};

/* One line: line breaks and tabs become blanks. */
void kg_escape(struct kg_buffer *out, enum kg_medium medium, const char *text, size_t len);

/* An attribute of XML: line breaks stand, as references. */
void kg_xml_put(struct kg_buffer *out, const char *text);

/* One field of a CSV line (RFC 4180), and the text that ends it ("," or a line break). Line breaks stand, in quotes. A
 * field that a spreadsheet would compute (it begins with = + - @ or tab) and that is no number gets a ' in front, with
 * which spreadsheets mark text. */
void kg_csv_put(struct kg_buffer *out, const char *text, size_t len, const char *end);

/* One argument of a shell command, quoted where it must be. Bytes of hidden characters but line breaks are octal
 * numbers of a printf in it. */
void kg_shell_quote(struct kg_buffer *out, const char *text);

#endif
