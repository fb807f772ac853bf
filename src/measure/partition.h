/* The best split of a series into levels. */
#ifndef KIGO_MEASURE_PARTITION_H
#define KIGO_MEASURE_PARTITION_H

#include <stddef.h>

/* Exactly minimises over all splits into levels of `shortest` and more values
 *   sum over levels of sum |x - median| / b  +  4 ln(n) * (levels - 1),
 * where b is the Laplace scale that the differences of neighbours give: absolute instead of squared distances, so that
 * a wild value makes no level of one value. from[e], for every e that a level may end before: where the last level of
 * the best split of the first e values begins; the levels of all are [from[n], n), [from[from[n]], from[n]) ... n >=
 * shortest; from has room for n + 1. O(n^2 log n). B. Jackson et al., IEEE Signal Processing Letters 12 (2005) 105. */
void kg_partition(const double *values, size_t n, size_t shortest, size_t *from);

#endif
