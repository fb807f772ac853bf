#include "base/buffer.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_NAME_SIZE = 512 };
static __thread char last_file[FILE_NAME_SIZE];

void kg_memory_note_file(const char *path) {
    snprintf(last_file, sizeof last_file, "%s", path);
}

/* Nothing here may allocate. */
void kg_memory_exhausted(size_t size_bytes) {
    char text[FILE_NAME_SIZE + 128];
    const int len = snprintf(text, sizeof text, "kigo: out of memory (%zu bytes)%s%s\n", size_bytes,
                             *last_file ? "; the last file it read was " : "", last_file);
    (void)!write(STDERR_FILENO, text, (size_t)len);
    _exit(kg_status_exit_code(KG_ERR_NO_MEMORY));
}

static void *checked(void *p, size_t size) {
    if (!p) kg_memory_exhausted(size);
    return p;
}

void *kg_xmalloc(size_t size) {
    return checked(malloc(size ? size : 1), size);
}

void *kg_xcalloc(size_t n, size_t size) {
    return checked(calloc(n ? n : 1, size ? size : 1), size);
}

void *kg_xrealloc(void *p, size_t size) {
    return checked(realloc(p, size ? size : 1), size);
}

char *kg_xstrdup(const char *s) {
    return kg_xstrndup(s, strlen(s));
}

char *kg_xstrndup(const char *s, size_t n) {
    char *copy = kg_xmalloc(n + 1);
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

char *kg_xvasprintf(const char *fmt, va_list args) {
    char *text = NULL;
    const int len = vasprintf(&text, fmt, args);
    return checked(len < 0 ? NULL : text, 1);
}

char *kg_xasprintf(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    char *text = kg_xvasprintf(fmt, args);
    va_end(args);
    return text;
}

void kg_buffer_free(struct kg_buffer *b) {
    free(b->data);
    *b = (struct kg_buffer)KG_BUFFER_INIT;
}

void kg_buffer_clear(struct kg_buffer *b) {
    b->len = 0;
    if (b->data) b->data[0] = '\0';
}

void kg_buffer_reserve(struct kg_buffer *b, size_t extra) {
    const size_t needed = b->len + extra + 1;
    if (needed <= b->capacity) return;
    size_t capacity = b->capacity ? b->capacity : 64;
    while (capacity < needed) capacity *= 2;
    b->data = kg_xrealloc(b->data, capacity);
    b->capacity = capacity;
}

void kg_buffer_append(struct kg_buffer *b, const void *data, size_t len) {
    kg_buffer_reserve(b, len);
    if (len) memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void kg_buffer_puts(struct kg_buffer *b, const char *text) {
    kg_buffer_append(b, text, strlen(text));
}

void kg_buffer_printf(struct kg_buffer *b, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len > 0) {
        kg_buffer_reserve(b, (size_t)len);
        vsnprintf(b->data + b->len, (size_t)len + 1, fmt, again);
        b->len += (size_t)len;
    }
    va_end(again);
}

const char *kg_buffer_text(const struct kg_buffer *b) {
    return b->data ? b->data : "";
}
