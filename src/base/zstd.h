/* Zstandard frames (RFC 8878) by libzstd. */
#ifndef KIGO_BASE_ZSTD_H
#define KIGO_BASE_ZSTD_H

#include "base/buffer.h"
#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Appends one frame with the data, its size and its checksum. The same data and libzstd version give the same bytes. */
KG_WARN_UNUSED enum kg_status kg_zstd_compress(const void *data, size_t size_bytes, struct kg_buffer *out,
                                               struct kg_error *err);

/* One frame with a checksum, written to a descriptor as its data comes. */
struct kg_zstd_writer;
KG_WARN_UNUSED enum kg_status kg_zstd_writer_open(int fd, struct kg_zstd_writer **writer, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_zstd_writer_put(struct kg_zstd_writer *writer, const void *data, size_t size_bytes,
                                                 struct kg_error *err);
/* Writes the frame's end. */
KG_WARN_UNUSED enum kg_status kg_zstd_writer_end(struct kg_zstd_writer *writer, struct kg_error *err);
void kg_zstd_writer_free(struct kg_zstd_writer *writer); /* NULL is allowed; the descriptor stays open */

/* The size that a frame's first bytes claim; false if they claim none. KG_ZSTD_HEAD_BYTES of them are enough. */
enum { KG_ZSTD_HEAD_BYTES = 18 };
bool kg_zstd_claimed_bytes(const void *data, size_t size_bytes, uint64_t *claimed_bytes);

/* Decompresses one frame and appends its content. KG_ERR_FORMAT if the data is not a frame, is truncated or damaged
 * (checksum), has trailing bytes, or expands to more than max_bytes or than it claims; it stops expanding there. On an
 * error, out->len is unchanged. */
KG_WARN_UNUSED enum kg_status kg_zstd_expand(const void *data, size_t size_bytes, uint64_t max_bytes,
                                             struct kg_buffer *out, struct kg_error *err);

#endif
