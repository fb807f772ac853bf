#include "base/buffer.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *p, size_t size) {
    if (p || size == 0) return p;
    fprintf(stderr, "kigo: out of memory (%zu bytes)\n", size);
    abort();
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

char *kg_xasprintf(const char *fmt, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    const int len = vasprintf(&text, fmt, args);
    va_end(args);
    return checked(len < 0 ? NULL : text, 1);
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
