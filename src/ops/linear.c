#include "ops/linear.h"
#include "base/clones.h"
#include "ops/check.h"
#include "ops/dot.h"

/* A weight row is decoded in pieces that stay in the first-level cache and is used for ROW_BLOCK activation rows before
 * it is decoded again. PIECE is a multiple of every format's block and of KG_DOT_LANES, so that the order of additions
 * is that of one whole dot product. */
enum { PIECE = 1024, ROW_BLOCK = 32, MIN_PRODUCTS_PER_RANGE = 65536 };
_Static_assert(PIECE % 256 == 0 && PIECE % KG_DOT_LANES == 0, "a piece is whole blocks and whole lanes");

enum kg_status kg_linear_check(const struct kg_linear_args *args, struct kg_error *err) {
    const struct kg_weight *w = &args->weight;
    KG_OP_REQUIRE(args->x && w->data && args->y, "linear: x, weight or y is missing");
    KG_OP_REQUIRE(args->x != args->y, "linear: y is x");
    KG_OP_REQUIRE(w->n_rows && w->n_cols, "linear: the weight is %u x %u", w->n_rows, w->n_cols);
    KG_OP_REQUIRE(w->n_cols % kg_dtype_info(w->dtype)->block_elems == 0, "linear: %u columns are no whole %s blocks",
                  w->n_cols, kg_dtype_info(w->dtype)->name);
    return KG_OK;
}

/* y[r][o] for the activation rows [first, first + n) of one block. */
KG_VECTOR_CLONES static void one_output(const struct kg_linear_args *args, size_t o, size_t first, size_t n) {
    const struct kg_weight *w = &args->weight;
    const struct kg_dtype_info *info = kg_dtype_info(w->dtype);
    const char *row = (const char *)w->data + o * kg_weight_row_bytes(w);
    const float *x = (const float *)args->x + first * w->n_cols;
    float *y = (float *)args->y + first * w->n_rows;
    double lanes[ROW_BLOCK][KG_DOT_LANES];
    float piece[PIECE];

    memset(lanes, 0, n * sizeof *lanes);
    for (size_t i = 0; i < w->n_cols; i += PIECE) {
        const size_t len = w->n_cols - i < PIECE ? w->n_cols - i : PIECE;
        info->decode(row + i / info->block_elems * info->block_bytes, piece, len);
        for (size_t r = 0; r < n; r++) kg_dot_accumulate(lanes[r], x + r * w->n_cols + i, piece, len);
    }
    const double bias = args->bias ? (double)args->bias[o] : 0;
    for (size_t r = 0; r < n; r++) y[r * w->n_rows + o] = (float)(kg_dot_finish(lanes[r]) + bias);
}

static void outputs(void *arg, size_t begin, size_t end) {
    const struct kg_linear_args *args = arg;
    for (size_t first = 0; first < args->n_rows; first += ROW_BLOCK) {
        const size_t left = args->n_rows - first;
        for (size_t o = begin; o < end; o++) one_output(args, o, first, left < ROW_BLOCK ? left : ROW_BLOCK);
    }
}

enum kg_status kg_cpu_linear(struct kg_thread_pool *pool, const struct kg_linear_args *args, struct kg_error *err) {
    enum kg_status status = kg_linear_check(args, err);
    if (!status) status = kg_cpu_require_f32("linear", "activations", args->activations, err);
    if (!status) status = kg_cpu_require_f32("linear", "outputs", args->output, err);
    if (status || args->n_rows == 0) return status;
    const size_t products_per_output = (size_t)args->n_rows * args->weight.n_cols;
    kg_parallel_for(pool, args->weight.n_rows, MIN_PRODUCTS_PER_RANGE / products_per_output + 1, outputs, (void *)args);
    return KG_OK;
}
