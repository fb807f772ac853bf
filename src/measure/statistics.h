/* Statistics of timing samples: robust centre and spread, and how sure the centre is.
 *
 * All values in the unit of the samples. Samples are never assumed normal: timings have a floor and a long tail. */
#ifndef KIGO_MEASURE_STATISTICS_H
#define KIGO_MEASURE_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

struct kg_statistics {
    size_t n;
    double min, max;
    double median;
    double mad;          /* median |x - median|, not scaled */
    double ci_lo, ci_hi; /* bootstrap 95% interval of the median (percentile method); equal to the median for n = 1 */
};

/* n > 0 finite samples; with n = 0 every field is 0. The same samples give the same interval: the resampling is seeded
 * with a constant. */
void kg_statistics_compute(const double *samples, size_t n, struct kg_statistics *out);

/* The k-th smallest of n > k values, from 0. values is reordered: none before it is greater, none behind it less. */
double kg_nth(double *values, size_t n, size_t k);

/* Median of n > 0 values: the middle one, or the mean of the two middle ones. values is reordered. */
double kg_median(double *values, size_t n);

/* The p-th percentile, 0 <= p <= 100, of n > 0 ascending values, linear between ranks (R type 7). */
double kg_percentile_sorted(const double *ascending, size_t n, double p);

#endif
