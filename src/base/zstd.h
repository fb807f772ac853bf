/* Zstandard frames (RFC 8878) by libzstd. */
#ifndef KIGO_BASE_ZSTD_H
#define KIGO_BASE_ZSTD_H

#include "base/buffer.h"
#include <kigo/status.h>
#include <stddef.h>
#include <stdint.h>

/* Appends one frame that holds the data, its size and its checksum. The same bytes for the same data and libzstd. */
KG_WARN_UNUSED enum kg_status kg_zstd_compress(const void *data, size_t size_bytes, struct kg_buffer *out,
                                               struct kg_error *err);

/* Appends what one frame holds. KG_ERR_FORMAT: not a frame, cut short, damaged (its checksum counts), followed by more,
 * or more than max_bytes inside, which is found without expanding further. *out is unchanged in length on an error. */
KG_WARN_UNUSED enum kg_status kg_zstd_expand(const void *data, size_t size_bytes, uint64_t max_bytes,
                                             struct kg_buffer *out, struct kg_error *err);

#endif
