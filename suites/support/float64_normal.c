/* Inputs of the float64 loops: a vocabulary's weights are 136 million values, so a value costs two look-ups.
 *
 * Box-Muller, z = sqrt(-2 ln u) cos(pi v), of a 16-bit u and a 16-bit v (midpoints of 2^-16, so no logarithm of 0 and
 * no cosine of pi/2), each function a table. Half the circle is enough: the cosine takes both signs there. |z| <= 4.86.
 */
#include "base/buffer.h"
#include "base/rng.h"
#include "suites/support/float64_loops.h"
#include <math.h>

enum { N_STEPS = 1 << 16, PER_BLOCK = 4 /* 32-bit numbers of Philox */ };
static float radius[N_STEPS], cosine[N_STEPS];

/* Cases run one after another, and this before any thread. */
static void fill_tables(void) {
    const double pi = 3.14159265358979323846;
    if (radius[0] > 0) return;
    for (size_t i = 0; i < N_STEPS; i++) {
        const double middle = ((double)i + 0.5) / N_STEPS;
        cosine[i] = (float)cos(pi * middle);
        radius[i] = (float)sqrt(-2 * log(middle));
    }
}

struct normal_job {
    float *x;
    size_t n;
    uint64_t seed;
    float mean, deviation;
    enum kg_precision precision;
};

/* Of a block's number alone, so that the values do not depend on how the work was split. */
static void normal_blocks(void *arg, size_t begin, size_t end) {
    const struct normal_job *job = arg;
    for (size_t block = begin; block < end; block++) {
        const size_t first = block * PER_BLOCK, left = job->n - first;
        uint32_t bits[PER_BLOCK];
        kg_philox4x32(job->seed, 0, block, bits);
        for (size_t i = 0; i < PER_BLOCK && i < left; i++)
            job->x[first + i] = job->mean + job->deviation * radius[bits[i] >> 16] * cosine[bits[i] & (N_STEPS - 1)];
    }
    const size_t first = begin * PER_BLOCK, last = end * PER_BLOCK < job->n ? end * PER_BLOCK : job->n;
    kg_loops_round(job->x + first, last - first, job->precision);
}

float *kg_loops_normal(size_t n, uint64_t seed, double mean, double deviation, enum kg_precision precision) {
    float *x = kg_xcalloc(n + 1, sizeof *x);
    struct normal_job job = { x, n, seed, (float)mean, (float)deviation, precision };
    fill_tables();
    kg_loops_on_all_processors((n + PER_BLOCK - 1) / PER_BLOCK, (double)n, normal_blocks, &job);
    return x;
}
