#include "model/yarn.h"
#include <math.h>

/* The (fractional) index of the pair that makes beta rotations within the original context. */
static double pair_of(const struct kg_model_config *c, double beta) {
    return c->n_rot * log((double)c->rope_original_ctx / (2 * M_PI * beta)) / (2 * log((double)c->rope_freq_base));
}

void kg_yarn_factors(const struct kg_model_config *c, float *factors) {
    double low = pair_of(c, (double)c->yarn.beta_fast), high = pair_of(c, (double)c->yarn.beta_slow);
    if (c->yarn.rounded) low = floor(low), high = ceil(high);
    low = fmax(low, 0);
    high = fmin(high, (double)c->n_rot - 1);
    if (high == low) high = low + 0.001; /* below low, of a short original context, the ramp runs backwards */
    for (uint32_t i = 0; i < c->n_rot / 2; i++) {
        const double kept = 1 - fmin(fmax((i - low) / (high - low), 0), 1);
        factors[i] = (float)(1 / (kept + (1 - kept) / (double)c->yarn.factor));
    }
}
