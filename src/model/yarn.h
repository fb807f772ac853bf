/* YaRN's ramp as divisors of the rope frequencies: the freq_factors of ops/rope.h. (Peng et al., YaRN, 2023.) */
#ifndef KIGO_MODEL_YARN_H
#define KIGO_MODEL_YARN_H

#include <kigo/model.h>

/* factors[i] = 1 / (e_i + (1 - e_i) / factor), i < n_rot / 2, e_i = 1 - clamp((i - low) / (high - low), 0, 1),
 *
 *     low, high = n_rot ln(original_ctx / (2 pi beta)) / (2 ln freq_base), beta = beta_fast, beta_slow,
 *
 * First low and high are rounded outwards if yarn.rounded; then low is at least 0 and high at most n_rot - 1; if they
 * are equal, high is increased by 0.001. Computed in double, rounded once. Source: transformers'
 * _compute_yarn_parameters. */
void kg_yarn_factors(const struct kg_model_config *config, float *factors);

#endif
