/* Dot products of one weight row, in any block format, with several float32 rows, accumulated in double. */
#ifndef KIGO_OPS_DOT_ROWS_H
#define KIGO_OPS_DOT_ROWS_H

#include "ops/weight.h"

enum { KG_DOT_ROWS_MAX = 32 };

/* sums[r] = sum_i x[r][i] * W[row][i], r < n <= KG_DOT_ROWS_MAX. The weight row is decoded once, in pieces that stay in
 * L1. The order of additions is kg_dot's over the whole row, for every n. */
void kg_dot_rows(const struct kg_weight *weight, size_t row, const float *const *x, size_t n, double *sums);

#endif
