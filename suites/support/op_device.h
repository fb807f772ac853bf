/* Arrays in a back end's memory, for running one operation of its table on host data. Every failure fails the case. */
#ifndef KIGO_SUITES_OP_DEVICE_H
#define KIGO_SUITES_OP_DEVICE_H

#include "backend/backend.h"
#include "suites/harness/compare.h"
#include <stdbool.h>
#include <string.h>

enum { KG_OP_DEVICE_MAX_BLOCKS = 32 };

struct kg_op_device {
    struct kg_backend *backend;
    struct kg_block blocks[KG_OP_DEVICE_MAX_BLOCKS];
    size_t n_blocks;
    void *owned[KG_OP_DEVICE_MAX_BLOCKS]; /* host memory, malloc'ed */
    size_t n_owned;
    void *workspace, *workspace_end;
};

/* True if the back end opens; else the case is marked as skipped with the reason. "cpu" is everywhere: without it the
 * case fails. */
bool kg_backend_or_skip(struct kg_record *rec, const char *backend);

/* Opens the back end, with `ops` in place of its table unless NULL; false, and the case is skipped, if it is not
 * available. */
bool kg_op_device_open(struct kg_record *rec, const char *backend, const struct kg_backend_ops *ops,
                       struct kg_op_device *d);
void kg_op_device_close(struct kg_op_device *d);
/* Frees the arrays and the workspace, for the next operation on the same back end. */
void kg_op_device_clear(struct kg_op_device *d);

/* Reserves d->workspace of so many bytes, as nobody has written them. What lies behind it must not change until the
 * arrays are freed. */
void kg_op_device_reserve(struct kg_op_device *d, uint64_t size_bytes);
/* The same for operations with matrices up to n_rows x n_cols and attention of these heads over n_ctx.
 */
void kg_op_device_workspace(struct kg_op_device *d, uint32_t n_rows, uint32_t n_cols, uint32_t n_heads,
                            uint32_t n_kv_heads, uint32_t head_dim, uint32_t n_ctx);

/* A copy of host memory in the back end's, valid until closed. */
void *kg_op_device_put(struct kg_op_device *d, const void *host, size_t size_bytes);

/* A copy of x[n] in the back end's memory, rounded to a precision (f32 or f16). */
void *kg_op_device_put_as(struct kg_op_device *d, const float *x, size_t n, enum kg_precision precision);

/* x[n] itself for f32; for f16 a copy in host memory, valid until closed, of the values that float16 holds. */
const float *kg_op_device_rounded(struct kg_op_device *d, const float *x, size_t n, enum kg_precision precision);

/* Takes over malloc'ed host memory until closed, and returns it. */
void *kg_op_device_own(struct kg_op_device *d, void *memory);

/* An output of n elements (f32 or f16) in the back end's memory, poisoned with NaN between sentinels. */
struct kg_op_output {
    struct kg_guarded host; /* host.data after kg_op_output_read, as float32 */
    enum kg_precision precision;
    void *block;
    void *y; /* in the back end's memory */
};
void kg_op_output_init(struct kg_op_device *d, struct kg_op_output *out, size_t n, enum kg_precision precision);
/* The same holding x[n] already, for operations that work in place. */
void kg_op_output_init_from(struct kg_op_device *d, struct kg_op_output *out, const float *x, size_t n,
                            enum kg_precision precision);
/* Fetches it; fails the case if a sentinel changed. Whether an element was written is for the caller to judge. */
void kg_op_output_read(struct kg_op_device *d, struct kg_op_output *out);
/* Fetches it; fails the case if a sentinel changed or an element was never written or is not finite. */
void kg_op_output_read_all(struct kg_op_device *d, struct kg_op_output *out, const char *name);
void kg_op_output_free(struct kg_op_output *out);

/* NaN is the same as NaN of the same bits, 0 is not -0. */
static inline bool kg_same_bits(float a, float b) {
    uint32_t a_bits, b_bits;
    memcpy(&a_bits, &a, sizeof a);
    memcpy(&b_bits, &b, sizeof b);
    return a_bits == b_bits;
}

/* Fails the case with the error unless status is KG_OK. */
void kg_op_expect_ok(enum kg_status status, const struct kg_error *err);

#endif
