/* Draws against the distribution that they should follow. */
#ifndef KIGO_SUITES_CHI_SQUARE_H
#define KIGO_SUITES_CHI_SQUARE_H

#include <stddef.h>

/* Pearson's statistic; ids that must not be drawn have probability 0 and fail the case if they are. */
double kg_chi_square(const size_t *counts, const double *probabilities, size_t n, size_t n_draws, size_t *freedom);

/* Quantiles at 1 - 1e-4, freedom < 10: a right sampler fails one seed in ten thousand, and the seeds are fixed. */
double kg_chi_square_limit(size_t freedom);

#endif
