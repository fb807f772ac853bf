/* Text that shows what it holds: characters that have no glyph, end a line or change the order in which others are
 * shown are written by number, so that a stored string can neither drive a terminal nor look like another.
 *
 *   a control character below U+0020, a byte outside UTF-8    \x1B
 *   any other hidden character                                \u202E, \U000E0041
 *
 * A backslash stands for itself: the form is for reading. JSON is the exact one. */
#ifndef KIGO_BASE_VISIBLE_H
#define KIGO_BASE_VISIBLE_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* C0 and C1 controls, DEL, soft hyphen, line and paragraph separators, marks, embeddings, overrides and isolates of
 * direction (Unicode Standard Annex 9, table 4), characters of no width but U+200C and U+200D, which scripts and emoji
 * are spelled with, the byte order mark, tags, and what is no character. */
bool kg_is_hidden(uint32_t code_point);

/* The visible form of the first character, or malformed byte, of data[0..len), len > 0: *n_shown bytes of it in shown.
 * Returns how many bytes of data that were. */
enum { KG_VISIBLE_BYTES = 12 };
size_t kg_visible_next(const char *data, size_t len, char shown[KG_VISIBLE_BYTES], size_t *n_shown);

/* What becomes of line breaks and tabs. */
enum kg_breaks {
    KG_BREAKS_BLANK, /* a blank each: the text stays in its line */
    KG_BREAKS_KEPT,  /* newline and tab stand */
    KG_BREAKS_CRLF,  /* these, and the carriage return of CR LF: what was laid out already */
};
void kg_visible_put(struct kg_buffer *out, const char *data, size_t len, enum kg_breaks breaks);

/* How many columns of a terminal a text without hidden characters takes: none for combining characters, two for wide
 * ones. */
size_t kg_visible_width(const char *text);

#endif
