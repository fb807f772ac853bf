/* Steps in a series: where a noisy figure changed its level for good. */
#ifndef KIGO_MEASURE_STEPS_H
#define KIGO_MEASURE_STEPS_H

#include <stddef.h>

struct kg_step {
    size_t at;            /* the first value after the step */
    double before, after; /* medians of the levels on both sides */
    size_t n_before, n_after;
    double
        p; /* two-sided exact Mann-Whitney of the values next to it (of 64 together, or of more if one side is short) */
};

/* Splits the values into levels by optimal partitioning, exactly minimising over all splits
 *   sum over levels of sum |x - median| / b  +  4 ln(n) * (levels - 1),   each level at least 3 values long,
 * where b is the Laplace scale that the differences of neighbours give: absolute instead of squared distances, so that
 * a wild value makes no level of one value. B. Jackson et al., IEEE Signal Processing Letters 12 (2005) 105. Then takes
 * back, the weakest first, steps that do not hold. With sigma and phi of what the levels leave (deviation, correlation
 * of neighbours) and e = 1.25 sigma sqrt((1/n_before + 1/n_after) (1 + phi) / (1 - phi)), a step holds if
 *   |after - before| + 1.96 e >= least        it may be of interest
 *   |after - before| >= 5 (1 + phi) e         values that hang together do not go so far
 *   p <= 0.01 / n                             nor does chance at any of n places
 * Last, each edge moves by up to 4 values to where the squares, clipped at 3 sigma, are least. Returns how many steps
 * there are, in order, in steps (room for n). O(n^2 log n). */
size_t kg_steps_find(const double *values, size_t n, double least, struct kg_step *steps);

#endif
