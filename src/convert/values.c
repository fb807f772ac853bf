#include "convert/values.h"
#include "base/size.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    MXFP4_ELEMS = 32,
    MXFP4_BYTES = 17,
    MXFP4_NIBBLE_BYTES = 16,
    E8M0_NAN = 255,
    BLOCKS_PER_RANGE = 1024,
};

struct source {
    const struct kg_convert_tensor *tensor;
    uint32_t head_dim;
};

/* Of packed tensors: blocks to move. */
struct job {
    struct source source;
    uint64_t first; /* block of the tensor that to[0] begins */
    uint8_t *to;
    _Atomic uint64_t bad; /* the least of the tensor's blocks that cannot be written; UINT64_MAX: none */
};

static uint64_t source_row(const struct kg_convert_tensor *t, uint32_t head_dim, uint64_t row) {
    const uint64_t head = row / head_dim * head_dim, within = row % head_dim;
    switch (t->row_map) {
    case KG_ROWS_SAME: return row;
    case KG_ROWS_PAIRED: return head + within % 2 * (head_dim / 2) + within / 2;
    case KG_ROWS_EVEN: return 2 * row;
    case KG_ROWS_ODD: return 2 * row + 1;
    }
    return row;
}

static uint64_t n_source_rows(const struct kg_convert_tensor *t) {
    return t->row_map == KG_ROWS_EVEN || t->row_map == KG_ROWS_ODD ? 2 * t->rows : t->rows;
}

enum kg_dtype kg_convert_source_dtype(const struct kg_convert_tensor *t) {
    if (t->scales) return KG_DTYPE_MXFP4;
    return !t->source || t->source->dtype == KG_SAFETENSORS_F32 ? KG_DTYPE_F32
           : t->source->dtype == KG_SAFETENSORS_F16             ? KG_DTYPE_F16
                                                                : KG_DTYPE_BF16;
}

/* raw[n] = elements of elem_bytes (2 or 4) that lie `stride` elements apart. */
static void gather(const uint8_t *from, uint64_t stride, size_t elem_bytes, uint8_t *raw, size_t n) {
    if (elem_bytes == 2)
        for (size_t i = 0; i < n; i++) memcpy(raw + 2 * i, from + 2 * stride * i, 2);
    else
        for (size_t i = 0; i < n; i++) memcpy(raw + 4 * i, from + 4 * stride * i, 4);
}

/* out[n] = columns col to col + n of the tensor's row (experts and rows counted together). */
static void read_row_part(const struct source *source, uint64_t row, uint64_t col, float *out, size_t n) {
    const struct kg_convert_tensor *t = source->tensor;
    const struct kg_dtype_info *info = kg_dtype_info(kg_convert_source_dtype(t));
    const uint64_t expert = row / t->rows, from_row = source_row(t, source->head_dim, row % t->rows);
    const uint64_t rows = n_source_rows(t), stride = t->transposed ? rows : 1;
    const uint64_t at = expert * rows * t->cols + (t->transposed ? col * rows + from_row : from_row * t->cols + col);
    const uint8_t *from = (const uint8_t *)t->source->data + at * info->block_bytes;
    uint8_t raw[KG_ROUNDING_CHUNK_ELEMS * sizeof(float)];
    if (stride > 1) {
        gather(from, stride, info->block_bytes, raw, n);
        from = raw;
    }
    info->decode(from, out, n);
    if (t->plus_one)
        for (size_t i = 0; i < n; i++) out[i] += 1;
}

/* A kg_rounding_read_fn: by parts of rows. */
static void read_elements(const void *arg, uint64_t at, size_t n, float *values) {
    const struct source *source = arg;
    const uint64_t cols = source->tensor->cols;
    for (size_t done = 0, step; done < n; done += step) {
        const uint64_t row = (at + done) / cols, col = (at + done) % cols;
        step = cols - col < n - done ? (size_t)(cols - col) : n - done;
        read_row_part(source, row, col, values + done, step);
    }
}

/* One block: element i is nibble i % 2 of byte i / 2 in `from`, nibble i / 16 of byte i % 16 in `to`. */
static void repack(const uint8_t *from, uint8_t *to) {
    enum { HALF = MXFP4_NIBBLE_BYTES };
    for (int i = 0; i < HALF; i++) {
        const int shift = i % 2 * 4;
        to[i] = (uint8_t)((from[i / 2] >> shift & 0xF) | (from[i / 2 + HALF / 2] >> shift & 0xF) << 4);
    }
}

static void take_blocks(void *arg, size_t begin, size_t end) {
    struct job *job = arg;
    const struct kg_convert_tensor *t = job->source.tensor;
    const uint64_t row_blocks = t->cols / MXFP4_ELEMS;
    for (size_t b = begin; b < end; b++) {
        const uint64_t at = job->first + b, row = at / row_blocks, expert = row / t->rows;
        const uint64_t from_row = expert * n_source_rows(t) + source_row(t, job->source.head_dim, row % t->rows);
        const uint64_t from = from_row * row_blocks + at % row_blocks;
        uint8_t *block = job->to + b * MXFP4_BYTES;
        block[0] = ((const uint8_t *)t->scales->data)[from];
        if (block[0] == E8M0_NAN) kg_note_least(&job->bad, at);
        repack((const uint8_t *)t->source->data + from * MXFP4_NIBBLE_BYTES, block + 1);
    }
}

static enum kg_status fail_value(const struct source *source, uint64_t at, struct kg_error *err) {
    const struct kg_convert_tensor *t = source->tensor;
    const char *name = kg_quote(t->source->name, strlen(t->source->name)).text;
    const uint64_t cols = t->scales ? t->cols / MXFP4_ELEMS : t->cols, row = at / cols;
    if (t->scales)
        return kg_fail(err, KG_ERR_NUMERIC,
                       "'%s': block %" PRIu64 " of row %" PRIu64 " of expert %" PRIu64 " has the scale NaN (255)", name,
                       at % cols, row % t->rows, row / t->rows);
    float value;
    read_row_part(source, row, at % cols, &value, 1);
    return kg_fail(err, KG_ERR_NUMERIC, "'%s': element %" PRIu64 " of row %" PRIu64 " is %g, which %s cannot hold",
                   name, at % cols, row, (double)value, kg_dtype_info(t->dtype)->name);
}

static uint64_t move_blocks(const struct source *source, struct kg_thread_pool *pool, uint64_t offset_bytes, void *to,
                            size_t n_bytes) {
    struct job job = { .source = *source, .first = offset_bytes / MXFP4_BYTES, .to = to, .bad = UINT64_MAX };
    kg_parallel_for(pool, n_bytes / MXFP4_BYTES, BLOCKS_PER_RANGE, take_blocks, &job);
    return atomic_load(&job.bad);
}

enum kg_status kg_convert_values_fill(const struct kg_convert_tensor *tensor, uint32_t head_dim,
                                      struct kg_thread_pool *pool, uint64_t offset_bytes, void *to, size_t n_bytes,
                                      struct kg_rounding *rounding, struct kg_error *err) {
    const struct source source = { tensor, head_dim };
    const uint64_t bad = tensor->scales ? move_blocks(&source, pool, offset_bytes, to, n_bytes)
                                        : kg_rounding_fill(tensor->dtype, read_elements, &source, pool, offset_bytes,
                                                           to, n_bytes, rounding);
    return bad == UINT64_MAX ? KG_OK : fail_value(&source, bad, err);
}
