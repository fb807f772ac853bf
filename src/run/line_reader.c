#include "run/line_reader.h"
#include <errno.h>
#include <kigo/status.h>
#include <string.h>
#include <unistd.h>

static void drop_taken(struct kg_line_reader *r) {
    if (r->taken == 0) return;
    memmove(r->pending.data, r->pending.data + r->taken, r->pending.len - r->taken);
    r->pending.len -= r->taken;
    r->taken = 0;
}

bool kg_line_reader_fill(struct kg_line_reader *r, int fd) {
    enum { CHUNK_BYTES = 64 * 1024, MAX_CHUNKS = 16 };
    if (r->at_end || r->too_long) return false;
    drop_taken(r);
    bool any = false;
    for (int i = 0; i < MAX_CHUNKS; i++) {
        kg_buffer_reserve(&r->pending, CHUNK_BYTES);
        ssize_t n;
        do n = read(fd, r->pending.data + r->pending.len, CHUNK_BYTES);
        while (n < 0 && errno == EINTR);
        const bool failed = n < 0 && errno != EAGAIN;
        if (failed) kg_error_set(NULL, KG_ERR_IO, "cannot read what a program of cases writes: %s", strerror(errno));
        if (n == 0 || failed) r->at_end = true;
        if (n <= 0) break;
        r->pending.len += (size_t)n;
        any = true;
    }
    return any;
}

char *kg_line_reader_next(struct kg_line_reader *r, size_t *len) {
    const size_t left = r->pending.len - r->taken;
    if (left == 0 || r->too_long) return NULL;
    char *line = r->pending.data + r->taken;
    char *newline = memchr(line, '\n', left);
    if (!newline) {
        r->too_long = left > KG_LINE_MAX_BYTES;
        return NULL;
    }
    *newline = '\0';
    *len = (size_t)(newline - line);
    r->taken += *len + 1;
    return line;
}

size_t kg_line_reader_left(const struct kg_line_reader *r) {
    return r->pending.len - r->taken;
}

void kg_line_reader_free(struct kg_line_reader *r) {
    kg_buffer_free(&r->pending);
}
