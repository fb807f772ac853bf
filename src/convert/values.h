/* The values of a converted tensor, made piece by piece: taken from their places in the source, rounded to the type. */
#ifndef KIGO_CONVERT_VALUES_H
#define KIGO_CONVERT_VALUES_H

#include "base/threads.h"
#include "convert/plan.h"

/* to[n_bytes] = the bytes at offset_bytes of the tensor (kg_gguf_fill_fn says which offsets are asked for). head_dim is
 * for KG_ROWS_PAIRED. MXFP4 that is taken over keeps each scale and code, only their places change: OpenAI's byte i
 * holds elements 2i (low nibble) and 2i + 1, GGUF's elements i and i + 16. KG_ERR_NUMERIC names the source tensor and
 * the first value, in the written order, that is NaN, infinite, or beyond the type's range. */
KG_WARN_UNUSED enum kg_status kg_convert_values_fill(const struct kg_convert_tensor *tensor, uint32_t head_dim,
                                                     struct kg_thread_pool *pool, uint64_t offset_bytes, void *to,
                                                     size_t n_bytes, struct kg_error *err);

#endif
