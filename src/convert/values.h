/* Generates the data of a converted tensor piece by piece: gathers values from the source and rounds them to the
 * dtype. */
#ifndef KIGO_CONVERT_VALUES_H
#define KIGO_CONVERT_VALUES_H

#include "convert/plan.h"
#include "convert/rounding.h"

/* to[n_bytes] = the bytes at offset_bytes of the tensor; offsets are those of kg_gguf_fill_fn. head_dim is for
 * KG_ROWS_PAIRED. MXFP4 from the source keeps every scale and code; only the nibbles move: byte i of OpenAI's layout
 * holds elements 2i (low nibble) and 2i + 1, byte i of GGUF's holds elements i and i + 16. *rounding: as
 * kg_rounding_fill. KG_ERR_NUMERIC names the source tensor and the first value, in written order, that is NaN,
 * infinite, or out of the dtype's range. */
KG_WARN_UNUSED enum kg_status kg_convert_values_fill(const struct kg_convert_tensor *tensor, uint32_t head_dim,
                                                     struct kg_thread_pool *pool, uint64_t offset_bytes, void *to,
                                                     size_t n_bytes, struct kg_rounding *rounding,
                                                     struct kg_error *err);

/* The dtype of the source's values; F32 of those computed from config.json. */
enum kg_dtype kg_convert_source_dtype(const struct kg_convert_tensor *tensor);

#endif
