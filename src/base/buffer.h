/* A growable byte string. It is NUL-terminated once something was appended.
 *
 * Running out of memory ends the process (kg_memory_exhausted). These buffers hold small text (reports, JSON, decoded
 * tokens), never model data. */
#ifndef KIGO_BASE_BUFFER_H
#define KIGO_BASE_BUFFER_H

#include <kigo/status.h>
#include <stdarg.h>
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

/* Ends the process with a message and the exit code of KG_ERR_NO_MEMORY, at once and as a kill would: a transaction is
 * rolled back, a file is whole or not there, a run stays to be recovered. A program cannot go on without the few bytes
 * of a path, and what it would then leave out could be a wrong answer. */
void kg_memory_exhausted(size_t size_bytes) __attribute__((noreturn));

/* The file that this thread reads: the message names the last one. */
void kg_memory_note_file(const char *path);

/* malloc, calloc, realloc and strdup for small host data: they end the process instead of returning NULL. */
void *kg_xmalloc(size_t size) __attribute__((malloc, alloc_size(1)));
void *kg_xcalloc(size_t n, size_t size) __attribute__((malloc, alloc_size(1, 2)));
void *kg_xrealloc(void *p, size_t size);
char *kg_xstrdup(const char *s);
char *kg_xstrndup(const char *s, size_t n);
char *kg_xasprintf(const char *fmt, ...) KG_PRINTF(1, 2);
char *kg_xvasprintf(const char *fmt, va_list args) KG_PRINTF(1, 0);

#endif
