/* Two published rules for the same question, on the noise that kigo is simulated with. */
#ifndef KIGO_SUITES_OTHER_RULES_H
#define KIGO_SUITES_OTHER_RULES_H

#include "suites/unit/noise_kinds.h"
#include <stdbool.h>

/* nvbench_compare (NVIDIA/nvbench, scripts/): two runs differ if their relative difference is more than the smaller of
 * their relative standard deviations, which are of the samples within a run. */
bool kg_nvbench_is_slower(double before, double after, double noise);

/* Apache Otava (before: Hunter. M. Fleming et al., ICPE 2023): splits of the series at the largest E-divisive statistic
 * (D. S. Matteson and N. A. James, J. Am. Stat. Assoc. 109 (2014) 334),
 *   m n / (m + n) (2 mean |x - y| - mean |x - x'| - mean |y - y'|),
 * as long as Student's t-test calls the two parts different at p = 0.001; each part is split on. Whether the series
 * has a step up. values: oldest first, at most 64. */
bool kg_otava_finds_slower(const double *values, size_t n);

struct kg_other_rates {
    size_t n, n_false, n_found; /* cases; of unchanged ones, and of those that are slower by `change` */
};

/* nvbench_compare: one run before, one after, samples as noisy as runs. Otava: 20 runs before, 5 after. */
void kg_other_rules_simulate(const struct kg_noise_kind *kind, size_t n_figures, double change, uint64_t seed,
                             struct kg_other_rates *nvbench, struct kg_other_rates *otava);

#endif
