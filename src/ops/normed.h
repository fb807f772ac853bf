/* Products of rows that RMSNorm has normalised, in double throughout: what norm_qkv and norm_swiglu share.
 *
 *     n[r][i] = x[r][i] / sqrt(mean_j x[r][j]^2 + eps) * norm_weight[i]
 */
#ifndef KIGO_OPS_NORMED_H
#define KIGO_OPS_NORMED_H

#include "ops/weight.h"
#include <kigo/ops.h>
#include <kigo/status.h>

/* What is normalised, of an operation's arguments. */
struct kg_normed {
    const void *x;            /* (n_rows, n_cols) */
    const float *norm_weight; /* (n_cols) */
    uint32_t n_cols;
    float eps;
};

/* A matrix that normalised rows are multiplied with, and what messages call it. */
struct kg_normed_matrix {
    const char *name; /* "gate" */
    const struct kg_weight *weight;
};

/* KG_ERR_USAGE, naming the operation and the argument, unless rows can be normalised and multiplied so. */
KG_WARN_UNUSED enum kg_status kg_normed_check(const char *op, const struct kg_normed *of,
                                              const struct kg_normed_matrix *matrices, size_t n_matrices,
                                              struct kg_error *err);

enum { KG_NORMED_ROWS = 32 }; /* at once */

/* n = rows [first, first + n_rows), n_rows <= KG_NORMED_ROWS. */
void kg_normed_rows(const struct kg_normed *of, size_t first, size_t n_rows, double *n);

/* sums[r] = sum_i n[r][i] * W[o][i], r < n_rows <= KG_NORMED_ROWS. The order of additions depends on W's columns only.
 */
void kg_normed_products(const struct kg_weight *w, size_t o, const double *n, size_t n_rows, double *sums);

#endif
