/* Tests that assume nothing about how timings are distributed, and what to do about asking many at once. */
#ifndef KIGO_MEASURE_RANK_TEST_H
#define KIGO_MEASURE_RANK_TEST_H

#include <stddef.h>

enum { KG_RANK_TEST_MOST = 128 }; /* samples of both sides together */

/* The exact one-sided Mann-Whitney test: the probability, if both sides came from one distribution, that the ranks of y
 * sum to at least what they do. Small: y tends to be greater than x. Ties get their mean rank, and the distribution is
 * that of the ranks at hand (all C(n_x + n_y, n_y) ways to label them count the same), so that it is exact with ties
 * too. H. B. Mann and D. R. Whitney, Ann. Math. Statist. 18 (1947) 50; with ties: E. L. Lehmann, Nonparametrics
 * (1975), 1.4.
 *
 * 1 if a side is empty; NaN above KG_RANK_TEST_MOST samples, or if one is NaN. */
double kg_mann_whitney_greater(const double *x, size_t n_x, const double *y, size_t n_y);

/* The Benjamini-Hochberg step-up: adjusted[i] <= q exactly if test i is rejected when, of all rejected, an expected
 * share of at most q may be false. adjusted[i] = min over p_j >= p_i of p_j * n / rank(p_j), at most 1. n may be 0. Y.
 * Benjamini and Y. Hochberg, J. R. Statist. Soc. B 57 (1995) 289. */
void kg_benjamini_hochberg(const double *p, size_t n, double *adjusted);

#endif
