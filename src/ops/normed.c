#include "ops/normed.h"
#include "base/clones.h"
#include "base/size.h"
#include "ops/check.h"
#include "ops/dot_rows.h"
#include <math.h>

enum kg_status kg_normed_check(const char *op, const struct kg_normed *of, const struct kg_normed_matrix *matrices,
                               size_t n_matrices, struct kg_error *err) {
    KG_OP_REQUIRE(of->x && of->norm_weight, "%s: x or norm_weight is missing", op);
    KG_OP_REQUIRE(of->n_cols, "%s: rows of 0 columns", op);
    KG_OP_REQUIRE(of->eps >= 0 && isfinite(of->eps), "%s: eps is %g", op, (double)of->eps);
    for (size_t i = 0; i < n_matrices; i++) {
        const struct kg_weight *w = matrices[i].weight;
        const struct kg_dtype_info *info = kg_dtype_info(w->dtype);
        KG_OP_REQUIRE(w->data, "%s: the weight of %s is missing", op, matrices[i].name);
        KG_OP_REQUIRE(w->n_rows && w->n_cols == of->n_cols, "%s: the weight of %s is %u x %u; rows have %u columns", op,
                      matrices[i].name, w->n_rows, w->n_cols, of->n_cols);
        KG_OP_REQUIRE(w->n_cols % info->block_elems == 0, "%s: %u columns of %s are no whole %s blocks", op, w->n_cols,
                      matrices[i].name, info->name);
    }
    return KG_OK;
}

void kg_normed_rows(const struct kg_normed *of, size_t first, size_t n_rows, double *n) {
    const size_t n_cols = of->n_cols;
    for (size_t r = 0; r < n_rows; r++) {
        const float *x = (const float *)of->x + (first + r) * n_cols;
        const double scale = 1.0 / sqrt(kg_dot(x, x, n_cols) / (double)n_cols + (double)of->eps);
        for (size_t i = 0; i < n_cols; i++) n[r * n_cols + i] = (double)x[i] * scale * (double)of->norm_weight[i];
    }
}

/* kg_dot_accumulate's order, of doubles by floats. */
static inline void accumulate(double lanes[KG_DOT_LANES], const double *n, const float *w, size_t len) {
    double sum[KG_DOT_LANES];
    size_t i = 0;
    memcpy(sum, lanes, sizeof sum);
    for (; i + KG_DOT_LANES <= len; i += KG_DOT_LANES)
        for (size_t lane = 0; lane < KG_DOT_LANES; lane++) sum[lane] += n[i + lane] * (double)w[i + lane];
    for (size_t lane = 0; i < len; i++, lane++) sum[lane] += n[i] * (double)w[i];
    memcpy(lanes, sum, sizeof sum);
}

KG_VECTOR_CLONES void kg_normed_products(const struct kg_weight *w, size_t o, const double *n, size_t n_rows,
                                         double *sums) {
    const struct kg_dtype_info *info = kg_dtype_info(w->dtype);
    const char *row = (const char *)w->data + o * kg_weight_row_bytes(w);
    double lanes[KG_NORMED_ROWS][KG_DOT_LANES];
    float piece[KG_DOT_PIECE];
    memset(lanes, 0, n_rows * sizeof *lanes);
    for (size_t i = 0; i < w->n_cols; i += KG_DOT_PIECE) {
        const size_t len = kg_min_size(w->n_cols - i, KG_DOT_PIECE);
        info->decode(row + i / info->block_elems * info->block_bytes, piece, len);
        for (size_t r = 0; r < n_rows; r++) accumulate(lanes[r], n + r * w->n_cols + i, piece, len);
    }
    for (size_t r = 0; r < n_rows; r++) sums[r] = kg_dot_finish(lanes[r]);
}
