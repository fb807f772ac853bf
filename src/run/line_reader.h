/* Lines from a descriptor that may hold anything: bounded in length, never blocking. */
#ifndef KIGO_RUN_LINE_READER_H
#define KIGO_RUN_LINE_READER_H

#include "base/buffer.h"
#include <stdbool.h>

enum { KG_LINE_MAX_BYTES = 16 << 20 };

struct kg_line_reader {
    struct kg_buffer pending; /* read, not yet handed out */
    size_t taken;             /* bytes at its beginning that were handed out */
    bool at_end;              /* the other end was closed */
    bool too_long;            /* a line went past KG_LINE_MAX_BYTES: nothing more is read */
};

/* Reads what is there now, up to about a MiB; false if there was nothing. */
bool kg_line_reader_fill(struct kg_line_reader *reader, int fd);

/* The next whole line, NUL-terminated without its newline, valid until the next call of either function; NULL if none
 * is complete. *len counts bytes, so that a NUL inside can be seen. */
char *kg_line_reader_next(struct kg_line_reader *reader, size_t *len);

/* Bytes of an unfinished last line. */
size_t kg_line_reader_left(const struct kg_line_reader *reader);

void kg_line_reader_free(struct kg_line_reader *reader);

#endif
