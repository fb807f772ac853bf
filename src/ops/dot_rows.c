#include "ops/dot_rows.h"
#include "base/clones.h"
#include "ops/dot.h"

/* A multiple of every format's block and of KG_DOT_LANES: pieces then add in the order of one whole dot product. */
enum { PIECE = 1024 };
_Static_assert(PIECE % 256 == 0 && PIECE % KG_DOT_LANES == 0, "a piece is whole blocks and whole lanes");

/* KG_DOT_WEIGHT_ROWS calls of kg_dot_accumulate at once: x is converted once for all, and the additions of one row wait
 * for none of another. */
static inline void accumulate_rows(double lanes[KG_DOT_WEIGHT_ROWS][KG_DOT_LANES],
                                   const float weights[KG_DOT_WEIGHT_ROWS][PIECE], const float *x, size_t n) {
    double sum[KG_DOT_WEIGHT_ROWS][KG_DOT_LANES];
    size_t i = 0;
    memcpy(sum, lanes, sizeof sum);
    for (; i + KG_DOT_LANES <= n; i += KG_DOT_LANES) {
        double wide[KG_DOT_LANES];
        for (size_t lane = 0; lane < KG_DOT_LANES; lane++) wide[lane] = (double)x[i + lane];
        for (size_t row = 0; row < KG_DOT_WEIGHT_ROWS; row++)
            for (size_t lane = 0; lane < KG_DOT_LANES; lane++)
                sum[row][lane] += (double)weights[row][i + lane] * wide[lane];
    }
    for (size_t lane = 0; i < n; i++, lane++)
        for (size_t row = 0; row < KG_DOT_WEIGHT_ROWS; row++) sum[row][lane] += (double)weights[row][i] * (double)x[i];
    memcpy(lanes, sum, sizeof sum);
}

KG_VECTOR_CLONES void kg_dot_rows(const struct kg_weight *w, size_t first, size_t n_weight_rows, const float *const *x,
                                  size_t n, double (*sums)[KG_DOT_WEIGHT_ROWS]) {
    const struct kg_dtype_info *info = kg_dtype_info(w->dtype);
    const size_t row_bytes = kg_weight_row_bytes(w);
    const char *data = (const char *)w->data + first * row_bytes;
    double lanes[KG_DOT_ROWS_MAX][KG_DOT_WEIGHT_ROWS][KG_DOT_LANES];
    float pieces[KG_DOT_WEIGHT_ROWS][PIECE];

    memset(lanes, 0, n * sizeof *lanes);
    for (size_t i = 0; i < w->n_cols; i += PIECE) {
        const size_t len = w->n_cols - i < PIECE ? w->n_cols - i : PIECE;
        for (size_t row = 0; row < n_weight_rows; row++)
            info->decode(data + row * row_bytes + i / info->block_elems * info->block_bytes, pieces[row], len);
        for (size_t r = 0; r < n && n_weight_rows == KG_DOT_WEIGHT_ROWS; r++)
            accumulate_rows(lanes[r], pieces, x[r] + i, len);
        for (size_t row = 0; row < n_weight_rows && n_weight_rows < KG_DOT_WEIGHT_ROWS; row++)
            for (size_t r = 0; r < n; r++) kg_dot_accumulate(lanes[r][row], x[r] + i, pieces[row], len);
    }
    for (size_t r = 0; r < n; r++)
        for (size_t row = 0; row < n_weight_rows; row++) sums[r][row] = kg_dot_finish(lanes[r][row]);
}
