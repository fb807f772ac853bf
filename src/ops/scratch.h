/* Memory in which an operation of several steps keeps what one step leaves to the next. */
#ifndef KIGO_OPS_SCRATCH_H
#define KIGO_OPS_SCRATCH_H

#include <kigo/ops.h>
#include <stdint.h>

enum { KG_SCRATCH_ALIGN_BYTES = 256 };

/* The bytes of a matrix in it; the next one follows. */
static inline uint64_t kg_scratch_bytes(uint64_t n_rows, uint64_t n_cols, enum kg_precision precision) {
    const uint64_t n_bytes = n_rows * n_cols * kg_precision_bytes(precision);
    return (n_bytes + KG_SCRATCH_ALIGN_BYTES - 1) / KG_SCRATCH_ALIGN_BYTES * KG_SCRATCH_ALIGN_BYTES;
}

#endif
