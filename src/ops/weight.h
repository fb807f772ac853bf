/* A weight matrix in back-end memory, in any block format. */
#ifndef KIGO_OPS_WEIGHT_H
#define KIGO_OPS_WEIGHT_H

#include "format/dtype.h"
#include <stddef.h>
#include <stdint.h>

/* Row-major (n_rows, n_cols), without padding. A row is n_cols elements of dtype; n_cols is a multiple of its block.
 * GGUF writes this shape as dims = {n_cols, n_rows}. */
struct kg_weight {
    const void *data;
    enum kg_dtype dtype;
    uint32_t n_rows;
    uint32_t n_cols;
};

static inline size_t kg_weight_row_bytes(const struct kg_weight *w) {
    const struct kg_dtype_info *info = kg_dtype_info(w->dtype);
    return (size_t)(w->n_cols / info->block_elems) * info->block_bytes;
}

#endif
