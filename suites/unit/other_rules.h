/* Two published rules for the same question, on the noise that kigo is simulated with. */
#ifndef KIGO_SUITES_OTHER_RULES_H
#define KIGO_SUITES_OTHER_RULES_H

#include "suites/unit/noise_kinds.h"
#include <stdbool.h>

/* nvbench_compare (NVIDIA/nvbench, scripts/): two runs differ if their relative difference is more than the smaller of
 * their relative standard deviations, which are of the samples within a run. */
bool kg_nvbench_is_slower(double before, double after, double noise);

/* Apache Otava 0.8.0 (before: Hunter. M. Fleming et al., ICPE 2023), with its usual options. A part of the series
 * splits at the largest E-divisive statistic (D. S. Matteson and N. A. James, J. Am. Stat. Assoc. 109 (2014) 334) of
 * what lies before and behind, as far as the end that makes it largest, m n / (m + n) (2 mean |x - y| - mean |x - x'| -
 * mean |y - y'|). The part with the largest of all splits first, until Student's t-test of its two sides has p > 0.01.
 * Then the split with the largest p goes, and its neighbours are tested anew, until all have p < 0.001. Deviations
 * divide by n. Whether a split is left that goes up. values: oldest first; n at most KG_OTAVA_MOST. */
enum { KG_OTAVA_MOST = 50 };
bool kg_otava_finds_slower(const double *values, size_t n);

enum { KG_OTHER_BEFORE = 20, KG_OTHER_AFTER = 5, KG_OTHER_RUNS = KG_OTHER_BEFORE + KG_OTHER_AFTER };

/* The runs of made figure i, oldest first; the last 5 are slower by `change`. */
void kg_other_series(const struct kg_made_times *times, size_t i, double change, double values[KG_OTHER_RUNS]);

struct kg_other_rates {
    size_t n, n_false, n_found; /* cases; of unchanged ones, and of those that are slower by `change` */
};

/* nvbench_compare: one run before, one after, samples as noisy as runs. Otava: 20 runs before, 5 after. */
void kg_other_rules_simulate(const struct kg_noise_kind *kind, size_t n_figures, double change, uint64_t seed,
                             struct kg_other_rates *nvbench, struct kg_other_rates *otava);

#endif
