#include "convert/rounding.h"
#include "base/buffer.h"
#include <math.h>
#include <stdlib.h>

enum { CHUNK_ELEMS = KG_ROUNDING_CHUNK_ELEMS }; /* a thread's two buffers of float32 take 64 KiB */

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
    const struct kg_dtype_info *info;
    kg_rounding_read_fn read;
    const void *source;
    float end_of_range;
    uint64_t first, n; /* elements of the tensor that `to` holds */
    uint8_t *to;
    struct kg_rounding *chunks; /* of formats of blocks: one a chunk; otherwise NULL */
    _Atomic uint64_t bad;
};

static struct kg_rounding compare(const float *x, const float *y, size_t n) {
    struct kg_rounding r = { 0 };
    for (size_t i = 0; i < n; i++) {
        const double error = fabs((double)x[i] - (double)y[i]);
        r.squares += (double)x[i] * (double)x[i];
        r.error_squares += error * error;
        if (error > r.worst) r.worst = error;
    }
    return r;
}

static void add(struct kg_rounding *sum, const struct kg_rounding *more) {
    sum->squares += more->squares;
    sum->error_squares += more->error_squares;
    sum->worst = fmax(sum->worst, more->worst);
}

static void round_chunks(void *arg, size_t begin, size_t end) {
    struct job *job = arg;
    float values[CHUNK_ELEMS], back[CHUNK_ELEMS];
    for (size_t chunk = begin; chunk < end; chunk++) {
        const uint64_t from = (uint64_t)chunk * CHUNK_ELEMS, left = job->n - from;
        const size_t n = left < CHUNK_ELEMS ? (size_t)left : CHUNK_ELEMS;
        uint8_t *to = job->to + from / job->info->block_elems * job->info->block_bytes;
        job->read(job->source, job->first + from, n, values);
        for (size_t i = 0; i < n; i++)
            if (!(fabsf(values[i]) < job->end_of_range)) kg_note_least(&job->bad, job->first + from + i);
        job->info->encode(values, to, n);
        if (!job->chunks) continue;
        job->info->decode(to, back, n);
        job->chunks[chunk] = compare(values, back, n);
    }
}

uint64_t kg_rounding_fill(enum kg_dtype dtype, kg_rounding_read_fn read, const void *source,
                          struct kg_thread_pool *pool, uint64_t offset_bytes, void *to, size_t n_bytes,
                          struct kg_rounding *rounding) {
    const struct kg_dtype_info *info = kg_dtype_info(dtype);
    struct job job = { .info = info, .read = read, .source = source, .to = to, .bad = UINT64_MAX };
    job.end_of_range = range_end(dtype);
    job.first = offset_bytes / info->block_bytes * info->block_elems;
    job.n = n_bytes / info->block_bytes * info->block_elems;
    const size_t n_chunks = (size_t)((job.n + CHUNK_ELEMS - 1) / CHUNK_ELEMS);
    if (info->block_elems > 1) job.chunks = kg_xcalloc(n_chunks, sizeof *job.chunks);
    kg_parallel_for(pool, n_chunks, 1, round_chunks, &job);
    for (size_t i = 0; job.chunks && i < n_chunks; i++) add(rounding, &job.chunks[i]);
    free(job.chunks);
    return atomic_load(&job.bad);
}

double kg_rounding_relative_rms(const struct kg_rounding *rounding) {
    return rounding->squares > 0 ? sqrt(rounding->error_squares / rounding->squares) : 0;
}
