/* Text with values in it, for people: what printf would write, but each %s is escaped for where it is read
 * (base/escape.h), stays in its line, and its width is counted in columns. The format itself is the program's own and
 * stands. All that kigo prints goes through here, or through kg_out_put. */
#ifndef KIGO_BASE_SAY_H
#define KIGO_BASE_SAY_H

#include "base/escape.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

void kg_escape_printf(struct kg_buffer *out, enum kg_medium medium, const char *fmt, ...) KG_PRINTF(3, 4);
void kg_escape_vprintf(struct kg_buffer *out, enum kg_medium medium, const char *fmt, va_list args);

/* The medium is text. */
void kg_text_printf(struct kg_buffer *out, const char *fmt, ...) KG_PRINTF(2, 3);

/* The same to a stream: a message to stderr, a line of stdout. */
void kg_say(FILE *stream, const char *fmt, ...) KG_PRINTF(2, 3);

/* A line of JSON to stdout; json_dumps's flags. */
struct json_t;
void kg_say_json(const struct json_t *json, size_t flags);

/* Writes laid out text: newline, tab and CR LF stand, whatever else is hidden and was escaped by nobody becomes
 * visible. False if stream does not take it. */
bool kg_out_put(FILE *stream, const char *text, size_t len);

/* Writes text that is the answer itself (what a model wrote, decoded ids): its bytes into a file or a pipe, as
 * kg_out_put on a terminal. False if stream does not take it. */
bool kg_out_exact(FILE *stream, const char *data, size_t len);

#endif
