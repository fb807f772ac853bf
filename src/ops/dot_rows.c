#include "ops/dot_rows.h"
#include "base/clones.h"
#include "ops/dot.h"

/* A multiple of every format's block and of KG_DOT_LANES: pieces then add in the order of one whole dot product. */
enum { PIECE = 1024 };
_Static_assert(PIECE % 256 == 0 && PIECE % KG_DOT_LANES == 0, "a piece is whole blocks and whole lanes");

KG_VECTOR_CLONES void kg_dot_rows(const struct kg_weight *w, size_t row, const float *const *x, size_t n,
                                  double *sums) {
    const struct kg_dtype_info *info = kg_dtype_info(w->dtype);
    const char *data = (const char *)w->data + row * kg_weight_row_bytes(w);
    double lanes[KG_DOT_ROWS_MAX][KG_DOT_LANES];
    float piece[PIECE];

    memset(lanes, 0, n * sizeof *lanes);
    for (size_t i = 0; i < w->n_cols; i += PIECE) {
        const size_t len = w->n_cols - i < PIECE ? w->n_cols - i : PIECE;
        info->decode(data + i / info->block_elems * info->block_bytes, piece, len);
        for (size_t r = 0; r < n; r++) kg_dot_accumulate(lanes[r], x[r] + i, piece, len);
    }
    for (size_t r = 0; r < n; r++) sums[r] = kg_dot_finish(lanes[r]);
}
