/* What a program printed, within bounds: its beginning and its end are kept, the middle is counted and dropped. */
#ifndef KIGO_RUN_BOUNDED_LOG_H
#define KIGO_RUN_BOUNDED_LOG_H

#include "base/buffer.h"
#include <stdint.h>

enum { KG_LOG_HEAD_BYTES = 256 * 1024, KG_LOG_TAIL_BYTES = 64 * 1024 };

struct kg_bounded_log {
    struct kg_buffer head; /* the first KG_LOG_HEAD_BYTES */
    struct kg_buffer tail; /* the latest bytes after the head, up to twice KG_LOG_TAIL_BYTES */
    uint64_t n_dropped;
};

void kg_bounded_log_append(struct kg_bounded_log *log, const char *data, size_t len);

/* Everything kept, with a line that says how much is missing. */
void kg_bounded_log_text(const struct kg_bounded_log *log, struct kg_buffer *out);

/* The last lines within max_bytes, control characters other than newline as '?', bytes that are not ASCII too: fit for
 * a record's reason whatever the program printed. */
void kg_bounded_log_last(const struct kg_bounded_log *log, size_t max_bytes, struct kg_buffer *out);

void kg_bounded_log_free(struct kg_bounded_log *log);

#endif
