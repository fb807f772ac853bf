#include "suites/tolerance/mxfp4_noise.h"
#include "base/rng.h"
#include "format/dtype.h"
#include <math.h>
#include <stdlib.h>

enum { BLOCK = 32, E2M1_LARGEST_EXPONENT = 2 };
static const double E2M1_LARGEST = 6;

static double scale_of(const float *block, const struct kg_mxfp4_quantiser *q) {
    double largest = 0;
    for (int i = 0; i < BLOCK; i++) largest = fmax(largest, fabs((double)block[i]));
    if (!(largest > 0)) return 1;
    const double exponent = q->scale_up ? ceil(log2(largest)) : floor(log2(largest));
    return ldexp(1, (int)exponent - E2M1_LARGEST_EXPONENT + q->scale_steps);
}

/* Between neighbours where |x| lies: .5 up to 2, 1 up to 4, 2 up to 6. */
static double step_at(double magnitude) {
    return magnitude < 2 ? 0.5 : magnitude < 4 ? 1 : 2;
}

static double rounded(double x, bool toward_zero) {
    const double magnitude = fmin(fabs(x), E2M1_LARGEST), step = step_at(magnitude);
    return copysign(step * (toward_zero ? floor(magnitude / step) : nearbyint(magnitude / step)), x);
}

void kg_mxfp4_quantise(const struct kg_mxfp4_quantiser *q, float *values, uint64_t n) {
    for (uint64_t at = 0; at < n; at += BLOCK) {
        double block[BLOCK];
        const double scale = scale_of(values + at, q), read = ldexp(scale, q->read_steps);
        for (int i = 0; i < BLOCK; i++) block[i] = read * rounded((double)values[at + i] / scale, q->toward_zero);
        for (int i = 0; i < BLOCK; i++) values[at + i] = (float)block[q->swap_nibbles ? (i + BLOCK / 2) % BLOCK : i];
    }
}

void kg_mxfp4_quantised(struct kg_edited_tensor *t, const void *user) {
    if (t->n_dims < 2) return;
    float *values = kg_edited_values(t);
    kg_mxfp4_quantise(user, values, kg_edited_n_elems(t));
    kg_edited_set_values(t, KG_DTYPE_F32, values);
    free(values);
}

void kg_mxfp4_noise(struct kg_edited_tensor *t, const void *user) {
    static const struct kg_mxfp4_quantiser right = { 0 };
    const uint64_t *seed = user;
    uint64_t stream = 0; /* of the tensor's name, so that tensors do not share their noise */
    struct kg_rng rng;
    if (t->n_dims < 2) return;
    for (const char *c = t->name; *c; c++) stream = stream * 131 + (unsigned char)*c;
    kg_rng_init(&rng, *seed, stream);
    const uint64_t n = kg_edited_n_elems(t);
    float *values = kg_edited_values(t);
    for (uint64_t at = 0; at < n; at += BLOCK) {
        const double scale = scale_of(values + at, &right);
        for (int i = 0; i < BLOCK; i++) {
            const double magnitude = fabs((double)values[at + i]) / scale, beyond = magnitude - E2M1_LARGEST;
            const double draw = kg_rng_uniform(&rng) - 0.5;
            values[at + i] += (float)(scale * (beyond > 0 ? copysign(beyond, draw) : step_at(magnitude) * draw));
        }
    }
    kg_edited_set_values(t, KG_DTYPE_F32, values);
    free(values);
}
