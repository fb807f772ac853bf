/* A growable byte string. It is NUL-terminated once something was appended.
 *
 * Running out of memory aborts the process with a message. These buffers hold small text (reports, JSON, decoded
 * tokens), never model data. */
#ifndef KIGO_BASE_BUFFER_H
#define KIGO_BASE_BUFFER_H

#include <kigo/status.h>
#include <stddef.h>

struct kg_buffer {
    char *data; /* NULL while empty */
    size_t len; /* in bytes, without the NUL */
    size_t capacity;
};

#define KG_BUFFER_INIT                                                                                                 \
    { NULL, 0, 0 }

void kg_buffer_free(struct kg_buffer *b);
void kg_buffer_clear(struct kg_buffer *b); /* len = 0, keeps the memory */
void kg_buffer_reserve(struct kg_buffer *b, size_t extra);
void kg_buffer_append(struct kg_buffer *b, const void *data, size_t len);
void kg_buffer_puts(struct kg_buffer *b, const char *text);
void kg_buffer_printf(struct kg_buffer *b, const char *fmt, ...) KG_PRINTF(2, 3);

/* The text, "" while empty; valid until the next change. */
const char *kg_buffer_text(const struct kg_buffer *b);

/* malloc, calloc, realloc and strdup for small host data: they abort with a message instead of returning NULL. */
void *kg_xmalloc(size_t size) __attribute__((malloc, alloc_size(1)));
void *kg_xcalloc(size_t n, size_t size) __attribute__((malloc, alloc_size(1, 2)));
void *kg_xrealloc(void *p, size_t size);
char *kg_xstrdup(const char *s);
char *kg_xstrndup(const char *s, size_t n);
char *kg_xasprintf(const char *fmt, ...) KG_PRINTF(1, 2);

#endif
