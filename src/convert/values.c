#include "convert/values.h"
#include "base/size.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    CHUNK_ELEMS = 8192, /* whole blocks of every type that is written; a thread's buffer of float32 takes 32 KiB */
    MXFP4_ELEMS = 32,
    MXFP4_BYTES = 17,
    MXFP4_NIBBLE_BYTES = 16,
    E8M0_NAN = 255,
    BLOCKS_PER_RANGE = 1024,
};

/* Finite values from this magnitude on would become infinite, or have the scale saturate. */
static float range_end(enum kg_dtype dtype) {
    switch (dtype) {
    case KG_DTYPE_F16: return 65520;
    case KG_DTYPE_BF16: return 0x1.FFp127f;
    case KG_DTYPE_Q8_0: return 127 * 65520.0f;
    default: return INFINITY;
    }
}

struct job {
    const struct kg_convert_tensor *tensor;
    uint32_t head_dim;
    uint64_t first; /* element (packed: block) of the tensor that to[0] begins */
    uint64_t n;     /* elements or blocks to make */
    uint8_t *to;
    _Atomic uint64_t bad; /* the least of the tensor's elements (or blocks) that cannot be written; UINT64_MAX: none */
};

static void note_bad(struct job *job, uint64_t at) {
    uint64_t least = atomic_load(&job->bad);
    while (at < least && !atomic_compare_exchange_weak(&job->bad, &least, at)) {}
}

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

static enum kg_dtype source_dtype(const struct kg_convert_tensor *t) {
    return t->source->dtype == KG_SAFETENSORS_F32   ? KG_DTYPE_F32
           : t->source->dtype == KG_SAFETENSORS_F16 ? KG_DTYPE_F16
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
static void read_row_part(const struct job *job, uint64_t row, uint64_t col, float *out, size_t n) {
    const struct kg_convert_tensor *t = job->tensor;
    const struct kg_dtype_info *info = kg_dtype_info(source_dtype(t));
    const uint64_t expert = row / t->rows, from_row = source_row(t, job->head_dim, row % t->rows);
    const uint64_t rows = n_source_rows(t), stride = t->transposed ? rows : 1;
    const uint64_t at = expert * rows * t->cols + (t->transposed ? col * rows + from_row : from_row * t->cols + col);
    const uint8_t *from = (const uint8_t *)t->source->data + at * info->block_bytes;
    uint8_t raw[CHUNK_ELEMS * sizeof(float)];
    if (stride > 1) {
        gather(from, stride, info->block_bytes, raw, n);
        from = raw;
    }
    info->decode(from, out, n);
    if (t->plus_one)
        for (size_t i = 0; i < n; i++) out[i] += 1;
}

/* Chunks of the piece, each through a buffer of float32. */
static void make_chunks(void *arg, size_t begin, size_t end) {
    struct job *job = arg;
    const struct kg_convert_tensor *t = job->tensor;
    const struct kg_dtype_info *info = kg_dtype_info(t->dtype);
    const float end_of_range = range_end(t->dtype);
    float values[CHUNK_ELEMS];
    for (size_t chunk = begin; chunk < end; chunk++) {
        const uint64_t from = (uint64_t)chunk * CHUNK_ELEMS, left = job->n - from;
        const size_t n = left < CHUNK_ELEMS ? (size_t)left : CHUNK_ELEMS;
        for (size_t done = 0, step; done < n; done += step) {
            const uint64_t at = job->first + from + done, col = at % t->cols;
            step = t->cols - col < n - done ? (size_t)(t->cols - col) : n - done;
            read_row_part(job, at / t->cols, col, values + done, step);
        }
        for (size_t i = 0; i < n; i++)
            if (!(fabsf(values[i]) < end_of_range)) note_bad(job, job->first + from + i);
        info->encode(values, job->to + from / info->block_elems * info->block_bytes, n);
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
    const struct kg_convert_tensor *t = job->tensor;
    const uint64_t row_blocks = t->cols / MXFP4_ELEMS;
    for (size_t b = begin; b < end; b++) {
        const uint64_t at = job->first + b, row = at / row_blocks, expert = row / t->rows;
        const uint64_t from_row = expert * n_source_rows(t) + source_row(t, job->head_dim, row % t->rows);
        const uint64_t from = from_row * row_blocks + at % row_blocks;
        uint8_t *block = job->to + b * MXFP4_BYTES;
        block[0] = ((const uint8_t *)t->scales->data)[from];
        if (block[0] == E8M0_NAN) note_bad(job, at);
        repack((const uint8_t *)t->source->data + from * MXFP4_NIBBLE_BYTES, block + 1);
    }
}

static enum kg_status fail_value(const struct job *job, uint64_t at, struct kg_error *err) {
    const struct kg_convert_tensor *t = job->tensor;
    const char *name = kg_quote(t->source->name, strlen(t->source->name)).text;
    const uint64_t cols = t->scales ? t->cols / MXFP4_ELEMS : t->cols, row = at / cols;
    if (t->scales)
        return kg_fail(err, KG_ERR_NUMERIC,
                       "'%s': block %" PRIu64 " of row %" PRIu64 " of expert %" PRIu64 " has the scale NaN (255)", name,
                       at % cols, row % t->rows, row / t->rows);
    float value;
    read_row_part(job, row, at % cols, &value, 1);
    return kg_fail(err, KG_ERR_NUMERIC, "'%s': element %" PRIu64 " of row %" PRIu64 " is %g, which %s cannot hold",
                   name, at % cols, row, (double)value, kg_dtype_info(t->dtype)->name);
}

enum kg_status kg_convert_values_fill(const struct kg_convert_tensor *tensor, uint32_t head_dim,
                                      struct kg_thread_pool *pool, uint64_t offset_bytes, void *to, size_t n_bytes,
                                      struct kg_error *err) {
    const struct kg_dtype_info *info = kg_dtype_info(tensor->dtype);
    struct job job = { .tensor = tensor, .head_dim = head_dim, .to = to, .bad = UINT64_MAX };
    job.first = offset_bytes / info->block_bytes;
    job.n = n_bytes / info->block_bytes;
    if (tensor->scales) {
        kg_parallel_for(pool, (size_t)job.n, BLOCKS_PER_RANGE, take_blocks, &job);
    } else {
        job.first *= info->block_elems;
        job.n *= info->block_elems;
        kg_parallel_for(pool, (size_t)((job.n + CHUNK_ELEMS - 1) / CHUNK_ELEMS), 1, make_chunks, &job);
    }
    const uint64_t bad = atomic_load(&job.bad);
    return bad == UINT64_MAX ? KG_OK : fail_value(&job, bad, err);
}
