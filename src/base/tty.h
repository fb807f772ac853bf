/* What standard output is when it is a terminal: how wide, and whether words that judge have colours. One table of
 * words for all verbs: what passed is green, what failed red, what is neither yellow.
 *
 * Colours are on where the stream is a terminal, $NO_COLOR is unset or empty and TERM is not "dumb", unless
 * kg_colours_choose says otherwise. In a buffer a coloured word stands between marks, which are control characters: all
 * text that comes from elsewhere is escaped before it gets there (base/escape.h), so that none of it can be a mark. */
#ifndef KIGO_BASE_TTY_H
#define KIGO_BASE_TTY_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stdio.h>

/* Columns of the stream's terminal, 80 if it does not say; 0 if it is none. */
size_t kg_tty_columns(FILE *stream);

/* "auto", "always" or "never"; false: it is none of them. */
bool kg_colours_choose(const char *when);

/* Appends the word, escaped as text and, if standard output has colours and the word judges, between marks. Only what
 * kg_coloured_put writes may be in such a buffer. */
void kg_colour_word(struct kg_buffer *out, const char *word);
/* kg_out_put, which writes marks as colours if stream has them. */
bool kg_coloured_put(FILE *stream, const char *text, size_t len);

/* The word to a stream at once. */
void kg_colour_say(FILE *stream, const char *word);

#endif
