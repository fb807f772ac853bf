#include "run/bounded_log.h"
#include <inttypes.h>
#include <string.h>

void kg_bounded_log_append(struct kg_bounded_log *log, const char *data, size_t len) {
    const size_t room = KG_LOG_HEAD_BYTES - log->head.len;
    const size_t to_head = len < room ? len : room;
    if (to_head > 0) kg_buffer_append(&log->head, data, to_head);
    if (len == to_head) return;
    kg_buffer_append(&log->tail, data + to_head, len - to_head);
    if (log->tail.len <= 2 * KG_LOG_TAIL_BYTES) return;
    const size_t drop = log->tail.len - KG_LOG_TAIL_BYTES;
    memmove(log->tail.data, log->tail.data + drop, KG_LOG_TAIL_BYTES);
    log->tail.len = KG_LOG_TAIL_BYTES;
    log->tail.data[log->tail.len] = '\0';
    log->n_dropped += drop;
}

void kg_bounded_log_text(const struct kg_bounded_log *log, struct kg_buffer *out) {
    if (log->head.len > 0) kg_buffer_append(out, log->head.data, log->head.len);
    if (log->n_dropped > 0) kg_buffer_printf(out, "\n[%" PRIu64 " bytes left out here]\n", log->n_dropped);
    if (log->tail.len > 0) kg_buffer_append(out, log->tail.data, log->tail.len);
}

void kg_bounded_log_last(const struct kg_bounded_log *log, size_t max_bytes, struct kg_buffer *out) {
    const struct kg_buffer *from = log->tail.len > 0 ? &log->tail : &log->head;
    size_t end = from->len;
    while (end > 0 && (from->data[end - 1] == '\n' || from->data[end - 1] == '\r')) end--;
    size_t begin = end > max_bytes ? end - max_bytes : 0;
    if (begin > 0) { /* from the start of a line, if one starts in reach */
        const char *newline = memchr(from->data + begin, '\n', end - begin);
        if (newline) begin = (size_t)(newline - from->data) + 1;
    }
    for (size_t i = begin; i < end; i++) {
        const char c = from->data[i];
        const char shown = (c >= ' ' && c <= '~') || c == '\n' ? c : '?';
        kg_buffer_append(out, &shown, 1);
    }
}

void kg_bounded_log_free(struct kg_bounded_log *log) {
    kg_buffer_free(&log->head);
    kg_buffer_free(&log->tail);
}
