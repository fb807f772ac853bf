/* Dot products of a few weight rows, in any block format, with several float32 rows, accumulated in double. */
#ifndef KIGO_OPS_DOT_ROWS_H
#define KIGO_OPS_DOT_ROWS_H

#include "ops/dot.h"
#include "ops/weight.h"

enum { KG_DOT_ROWS_MAX = 32, KG_DOT_WEIGHT_ROWS = 4, KG_DOT_PIECE = 1024 };

/* sums[r][k] = sum_i x[r][i] * W[first + k][i] for r < n <= KG_DOT_ROWS_MAX and k < n_weight_rows <=
 * KG_DOT_WEIGHT_ROWS. A weight row is decoded once, in pieces that stay in L1. The order of additions is kg_dot's over
 * the whole row, for every n and n_weight_rows. */
void kg_dot_rows(const struct kg_weight *weight, size_t first, size_t n_weight_rows, const float *const *x, size_t n,
                 double (*sums)[KG_DOT_WEIGHT_ROWS]);

/* kg_dot_accumulate of KG_DOT_WEIGHT_ROWS weight rows with x at once: x is converted once for all, and the additions of
 * one row wait for none of another. n: whole lanes, at most a piece. */
typedef void kg_dot_rows_fn(double lanes[KG_DOT_WEIGHT_ROWS][KG_DOT_LANES],
                            const float weights[KG_DOT_WEIGHT_ROWS][KG_DOT_PIECE], const float *x, size_t n);

/* The ways of doing so that this processor has, fastest first; all give the same bits. NULL past the last. */
kg_dot_rows_fn *kg_dot_rows_way(size_t i);

#endif
