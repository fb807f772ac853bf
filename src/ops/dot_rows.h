/* A row of a weight in any block format times several rows of float32, in double. */
#ifndef KIGO_OPS_DOT_ROWS_H
#define KIGO_OPS_DOT_ROWS_H

#include "ops/weight.h"

enum { KG_DOT_ROWS_MAX = 32 };

/* sums[r] = sum_i x[r][i] * W[row][i], r < n <= KG_DOT_ROWS_MAX: the row is decoded once, in pieces that stay in the
 * first-level cache. The order of additions is that of kg_dot over the whole row, whatever n is. */
void kg_dot_rows(const struct kg_weight *weight, size_t row, const float *const *x, size_t n, double *sums);

#endif
