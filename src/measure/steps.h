/* Steps in a series: where a noisy figure changed its level for good. */
#ifndef KIGO_MEASURE_STEPS_H
#define KIGO_MEASURE_STEPS_H

#include <stddef.h>

struct kg_step {
    size_t at;            /* the first value after the step */
    double before, after; /* medians of the levels on both sides */
    size_t n_before, n_after;
    double p; /* two-sided Mann-Whitney of the (at most 64) values next to it on each side, doubled one-sided */
};

/* Splits the values into levels by optimal partitioning, exactly minimising over all splits
 *   sum over levels of sum |x - median| / b  +  4 ln(n) * (levels - 1),   each level at least 3 values long,
 * where b is the Laplace scale that the differences of neighbours tell: absolute instead of squared distances, so that
 * a wild value makes no level of its own. Then takes back, the weakest first, steps smaller than `least` and steps
 * whose p is above 1%. Returns how many are left, in order, in steps (room for n). B. Jackson et al., IEEE Signal
 * Processing Letters 12 (2005) 105. O(n^2 log n). */
size_t kg_steps_find(const double *values, size_t n, double least, struct kg_step *steps);

#endif
