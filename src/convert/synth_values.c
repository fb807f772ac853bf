/* Normal values from 16 random bits each: the bits choose one of 65536 quantiles, the middles of equally likely slices
 * of the normal distribution, cut at 4.3 deviations. A table lookup an element is what makes gigabytes in seconds; that
 * an F32 tensor holds 65536 distinct values only is of no matter to speed and memory.
 *
 * Philox block c of (seed, hash of the name) gives eight 16-bit numbers: elements 8 c to 8 c + 7 of an F32 or F16
 * tensor. Blocks of quantised formats: synth_blocks.h. */
#include "convert/synth_values.h"
#include "base/buffer.h"
#include "base/rng.h"
#include "convert/synth_blocks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_QUANTILES = 1 << 16,
    LANES = 8, /* 16-bit numbers of a Philox block */
    MIN_ELEMS_PER_RANGE = 32768,
};

struct kg_synth_values {
    const struct kg_synth_tensor *tensor; /* whose tables these are */
    double normal[N_QUANTILES];           /* mean 0, deviation 1 */
    float f32[N_QUANTILES];
    uint16_t half[N_QUANTILES]; /* F16 or BF16 */
    struct kg_synth_blocks blocks;
};

/* x with Phi(x) = p for p < 1/2, by Newton's method from below, where Phi is convex and no step overshoots far. */
static double normal_quantile(double p, double start) {
    double x = start;
    for (int step = 0; step < 50; step++) {
        const double density = exp(-0.5 * x * x) / sqrt(2 * M_PI);
        const double change = (0.5 * erfc(-x / M_SQRT2) - p) / density;
        x -= change;
        if (fabs(change) < 1e-12) break;
    }
    return x;
}

struct kg_synth_values *kg_synth_values_new(void) {
    struct kg_synth_values *v = kg_xcalloc(1, sizeof *v);
    double x = -4.4;
    for (size_t i = 0; i < N_QUANTILES / 2; i++) {
        x = normal_quantile(((double)i + 0.5) / N_QUANTILES, x);
        v->normal[i] = x;
        v->normal[N_QUANTILES - 1 - i] = -x;
    }
    return v;
}

void kg_synth_values_free(struct kg_synth_values *v) {
    free(v);
}

static void make_block_tables(struct kg_synth_values *v, const struct kg_synth_tensor *t) {
    enum { SLICE = N_QUANTILES / KG_SYNTH_QUANTILES };
    double normal[KG_SYNTH_QUANTILES];
    for (size_t i = 0; i < KG_SYNTH_QUANTILES; i++) normal[i] = v->normal[i * SLICE + SLICE / 2];
    kg_synth_blocks_make(&v->blocks, t->dtype, t->deviation, normal);
}

static void make_tables(struct kg_synth_values *v, const struct kg_synth_tensor *t) {
    v->tensor = t;
    if (kg_dtype_info(t->dtype)->block_elems > 1) {
        make_block_tables(v, t);
        return;
    }
    for (size_t i = 0; i < N_QUANTILES; i++) {
        v->f32[i] = (float)(t->mean + t->deviation * v->normal[i]);
        v->half[i] = t->dtype == KG_DTYPE_BF16 ? kg_f32_to_bf16(v->f32[i]) : kg_f32_to_f16(v->f32[i]);
    }
}

struct job {
    const struct kg_synth_values *v;
    uint64_t seed, stream;
    uint64_t first; /* unit of the tensor that to[0] begins */
    uint8_t *to;
    size_t n_bytes;
};

/* to[16] = Philox block `counter` of the tensor. */
static void random_bytes(const struct job *job, uint64_t counter, void *to) {
    uint32_t block[4];
    kg_philox4x32(job->seed, job->stream, counter, block);
    memcpy(to, block, sizeof block);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* A unit is LANES elements; the tensor may end inside the last. */
static void fill_half(void *arg, size_t begin, size_t end) {
    const struct job *job = arg;
    for (size_t u = begin; u < end; u++) {
        uint16_t lanes[LANES];
        random_bytes(job, job->first + u, lanes);
        for (size_t i = 0; i < LANES; i++) lanes[i] = job->v->half[lanes[i]];
        memcpy(job->to + u * sizeof lanes, lanes, least(sizeof lanes, job->n_bytes - u * sizeof lanes));
    }
}

static void fill_f32(void *arg, size_t begin, size_t end) {
    const struct job *job = arg;
    for (size_t u = begin; u < end; u++) {
        uint16_t lanes[LANES];
        float values[LANES];
        random_bytes(job, job->first + u, lanes);
        for (size_t i = 0; i < LANES; i++) values[i] = job->v->f32[lanes[i]];
        memcpy(job->to + u * sizeof values, values, least(sizeof values, job->n_bytes - u * sizeof values));
    }
}

/* A unit is a block. */
static void fill_blocks(void *arg, size_t begin, size_t end) {
    const struct job *job = arg;
    const struct kg_synth_blocks *tables = &job->v->blocks;
    const size_t block_bytes = kg_dtype_info(job->v->tensor->dtype)->block_bytes;
    for (size_t u = begin; u < end; u++)
        tables->make(tables, (struct kg_synth_source){ job->seed, job->stream, job->first + u },
                     job->to + u * block_bytes);
}

/* FNV-1a (Fowler, Noll, Vo): a stream a tensor, the same whatever other tensors the file has. */
static uint64_t hash_name(const char *name) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001B3u;
    return hash;
}

void kg_synth_values_fill(struct kg_synth_values *v, const struct kg_synth_tensor *tensor, uint64_t seed,
                          struct kg_thread_pool *pool, uint64_t offset_bytes, void *to, size_t n_bytes) {
    const struct kg_dtype_info *info = kg_dtype_info(tensor->dtype);
    const bool blocks = info->block_elems > 1;
    const size_t unit_elems = blocks ? info->block_elems : LANES;
    const size_t unit_bytes = unit_elems / info->block_elems * info->block_bytes;
    if (v->tensor != tensor) make_tables(v, tensor);
    struct job job = { v, seed, hash_name(tensor->name), offset_bytes / unit_bytes, to, n_bytes };
    kg_parallel_for(pool, (n_bytes + unit_bytes - 1) / unit_bytes, MIN_ELEMS_PER_RANGE / unit_elems,
                    blocks                          ? fill_blocks
                    : tensor->dtype == KG_DTYPE_F32 ? fill_f32
                                                    : fill_half,
                    &job);
}
