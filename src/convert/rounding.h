/* Rounding of tensor data to a dtype by all threads, and what it loses. */
#ifndef KIGO_CONVERT_ROUNDING_H
#define KIGO_CONVERT_ROUNDING_H

#include "base/threads.h"
#include "format/dtype.h"
#include <stdatomic.h>
#include <stdbool.h>

/* x: the numbers; y: what they became. */
struct kg_rounding {
    double squares, error_squares; /* sum x^2, sum (x - y)^2 */
    double worst;                  /* max |x - y| */
};

/* sqrt(sum (x - y)^2 / sum x^2); 0 of zeros alone. */
double kg_rounding_relative_rms(const struct kg_rounding *rounding);

/* values[n] = the elements of the source from `at` on, n at most KG_ROUNDING_CHUNK_ELEMS; called by all threads at
 * once. */
enum { KG_ROUNDING_CHUNK_ELEMS = 8192 }; /* whole blocks of every format */
typedef void (*kg_rounding_read_fn)(const void *source, uint64_t at, size_t n, float *values);

/* to[n_bytes] = the bytes at offset_bytes of a tensor of this dtype; offsets are those of kg_gguf_fill_fn. Adds what
 * formats of blocks lose to *rounding; the sums do not depend on the number of threads. Returns the first element that
 * is NaN, infinite or out of the dtype's range, UINT64_MAX if there is none. */
KG_WARN_UNUSED uint64_t kg_rounding_fill(enum kg_dtype dtype, kg_rounding_read_fn read, const void *source,
                                         struct kg_thread_pool *pool, uint64_t offset_bytes, void *to, size_t n_bytes,
                                         struct kg_rounding *rounding);

/* *least = the smaller of both; by all threads at once. */
static inline void kg_note_least(_Atomic uint64_t *least, uint64_t at) {
    uint64_t known = atomic_load(least);
    while (at < known && !atomic_compare_exchange_weak(least, &known, at)) {}
}

/* A tensor of a file that was written. */
enum { KG_WRITTEN_NAME_BYTES = 64 };
struct kg_written_tensor {
    char name[KG_WRITTEN_NAME_BYTES];
    enum kg_dtype from, dtype;
    enum kg_dtype by_rules; /* differs from dtype where the rows are no whole blocks of it */
    uint64_t n_elems;
    struct kg_rounding rounding; /* zeros if the dtype is one of floats, or that of the source */
};

/* Whether its blocks were made of other numbers, so that `rounding` says something. */
static inline bool kg_written_is_rounded(const struct kg_written_tensor *t) {
    return t->dtype != t->from && kg_dtype_info(t->dtype)->block_elems > 1;
}

#endif
