/* Normal values from 16 random bits each: the bits choose one of 65536 quantiles, the middles of equally likely slices
 * of the normal distribution, cut at 4.3 deviations. A table lookup an element is what makes gigabytes in seconds; that
 * an F32 tensor holds 65536 distinct values only is of no matter to speed and memory.
 *
 * Philox block c of (seed, hash of the name) gives eight 16-bit numbers: elements 8 c to 8 c + 7 of an F32 or F16
 * tensor. An MXFP4 block of 32 takes two Philox blocks: a byte an element, which chooses one of 256 quantiles, rounded
 * to the nearest E2M1 value; block scales are 2^e or 2^(e-1) by the exclusive or of two of those bits. */
#include "convert/synth_values.h"
#include "base/buffer.h"
#include "base/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_QUANTILES = 1 << 16,
    LANES = 8, /* 16-bit numbers of a Philox block */
    N_NIBBLE_QUANTILES = 256,
    MXFP4_ELEMS = 32,
    MXFP4_BYTES = 17,
    MXFP4_BIAS = 127,
    MIN_UNITS_PER_RANGE = 4096,
};

struct kg_synth_values {
    const struct kg_synth_tensor *tensor; /* whose tables these are */
    double normal[N_QUANTILES];           /* mean 0, deviation 1 */
    float f32[N_QUANTILES];
    uint16_t f16[N_QUANTILES];
    uint8_t nibble[N_NIBBLE_QUANTILES];
    uint8_t scale; /* the larger of a block's two, as its byte */
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

static uint8_t nearest_e2m1(double x) {
    static const double VALUES[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
    uint8_t best = 0;
    for (uint8_t i = 1; i < 8; i++)
        if (fabs(fabs(x) - VALUES[i]) < fabs(fabs(x) - VALUES[best])) best = i;
    return (uint8_t)(x < 0 ? best | 8 : best);
}

/* The deviation of all blocks together is d if that of the larger scale's is d / sqrt(5/8): half have it, half have
 * half. */
static void make_mxfp4_tables(struct kg_synth_values *v, double deviation) {
    const double larger = deviation / sqrt(0.625);
    const int e = (int)floor(log2(larger / 1.5)); /* 2^e is a unit: the deviation is 1.5 to 3 of it, 6 is the largest */
    const double units = larger / ldexp(1, e);
    for (size_t i = 0; i < N_NIBBLE_QUANTILES; i++) {
        const size_t middle = i * (N_QUANTILES / N_NIBBLE_QUANTILES) + N_QUANTILES / N_NIBBLE_QUANTILES / 2;
        v->nibble[i] = nearest_e2m1(units * v->normal[middle]);
    }
    v->scale = (uint8_t)(e + MXFP4_BIAS);
}

static void make_tables(struct kg_synth_values *v, const struct kg_synth_tensor *t) {
    v->tensor = t;
    if (t->dtype == KG_DTYPE_MXFP4) {
        make_mxfp4_tables(v, t->deviation);
        return;
    }
    for (size_t i = 0; i < N_QUANTILES; i++) {
        v->f32[i] = (float)(t->mean + t->deviation * v->normal[i]);
        v->f16[i] = kg_f32_to_f16(v->f32[i]);
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
static void fill_f16(void *arg, size_t begin, size_t end) {
    const struct job *job = arg;
    for (size_t u = begin; u < end; u++) {
        uint16_t lanes[LANES];
        random_bytes(job, job->first + u, lanes);
        for (size_t i = 0; i < LANES; i++) lanes[i] = job->v->f16[lanes[i]];
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
static void fill_mxfp4(void *arg, size_t begin, size_t end) {
    const struct job *job = arg;
    for (size_t u = begin; u < end; u++) {
        uint8_t bits[MXFP4_ELEMS], *block = job->to + u * MXFP4_BYTES;
        random_bytes(job, 2 * (job->first + u), bits);
        random_bytes(job, 2 * (job->first + u) + 1, bits + MXFP4_ELEMS / 2);
        block[0] = (uint8_t)(job->v->scale - ((bits[0] ^ bits[1]) & 1));
        for (size_t i = 0; i < MXFP4_ELEMS / 2; i++)
            block[1 + i] = (uint8_t)(job->v->nibble[bits[i]] | job->v->nibble[bits[MXFP4_ELEMS / 2 + i]] << 4);
    }
}

/* FNV-1a (Fowler, Noll, Vo): a stream a tensor, the same whatever other tensors the file has. */
static uint64_t hash_name(const char *name) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001B3u;
    return hash;
}

void kg_synth_values_fill(struct kg_synth_values *v, const struct kg_synth_tensor *tensor, uint64_t seed,
                          struct kg_thread_pool *pool, uint64_t offset_bytes, void *to, size_t n_bytes) {
    const size_t unit_bytes = tensor->dtype == KG_DTYPE_MXFP4 ? MXFP4_BYTES
                              : tensor->dtype == KG_DTYPE_F16 ? LANES * sizeof(uint16_t)
                                                              : LANES * sizeof(float);
    if (v->tensor != tensor) make_tables(v, tensor);
    struct job job = { v, seed, hash_name(tensor->name), offset_bytes / unit_bytes, to, n_bytes };
    kg_parallel_for(pool, (n_bytes + unit_bytes - 1) / unit_bytes, MIN_UNITS_PER_RANGE,
                    tensor->dtype == KG_DTYPE_MXFP4 ? fill_mxfp4
                    : tensor->dtype == KG_DTYPE_F16 ? fill_f16
                                                    : fill_f32,
                    &job);
}
