/* YaRN's ramp as divisors of the frequencies, the form in which ops/rope.h takes them. (Peng et al., YaRN, 2023.) */
#ifndef KIGO_MODEL_YARN_H
#define KIGO_MODEL_YARN_H

#include <kigo/model.h>

/* factors[i] = 1 / (e_i + (1 - e_i) / factor), i < n_rot / 2, e_i = 1 - clamp((i - low) / (high - low), 0, 1),
 *
 *     low, high = n_rot ln(original_ctx / (2 pi beta)) / (2 ln freq_base), beta = beta_fast, beta_slow,
 *
 * low not below 0 and high not above n_rot - 1; both rounded outwards first if the configuration says so, and high a
 * thousandth above low where they meet. In double, rounded once. All of it is transformers'. */
void kg_yarn_factors(const struct kg_model_config *config, float *factors);

#endif
