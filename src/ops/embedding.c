#include "ops/embedding.h"
#include "ops/check.h"
#include <math.h>

enum kg_status kg_embedding_check(const struct kg_embedding_args *args, struct kg_error *err) {
    const struct kg_weight *w = &args->weight;
    KG_OP_REQUIRE(w->data && args->ids && args->y, "embedding: weight, ids or y is missing");
    KG_OP_REQUIRE(w->n_rows && w->n_cols, "embedding: the weight is %u x %u", w->n_rows, w->n_cols);
    KG_OP_REQUIRE(w->n_cols % kg_dtype_info(w->dtype)->block_elems == 0, "embedding: %u columns are no whole %s blocks",
                  w->n_cols, kg_dtype_info(w->dtype)->name);
    KG_OP_REQUIRE(args->scale >= 0 && isfinite(args->scale), "embedding: the scale is %g", (double)args->scale);
    const struct kg_weight *p = &args->positions;
    if (!p->data) return KG_OK;
    KG_OP_REQUIRE(p->n_cols == w->n_cols && p->n_cols % kg_dtype_info(p->dtype)->block_elems == 0,
                  "embedding: positions of %u columns in %s for %u", p->n_cols, kg_dtype_info(p->dtype)->name,
                  w->n_cols);
    KG_OP_REQUIRE((uint64_t)args->position + args->n_rows <= p->n_rows, "embedding: %u rows at %u, but %u positions",
                  args->n_rows, args->position, p->n_rows);
    return KG_OK;
}

static void decode_row(const struct kg_weight *w, size_t row, float *y) {
    kg_dtype_info(w->dtype)->decode((const char *)w->data + row * kg_weight_row_bytes(w), y, w->n_cols);
}

/* y += P[row] in pieces. A float32 sum of two float32 values is rounded once. */
static void add_row(const struct kg_weight *p, size_t row, float *y) {
    enum { PIECE = 1024 };
    const struct kg_dtype_info *info = kg_dtype_info(p->dtype);
    const char *data = (const char *)p->data + row * kg_weight_row_bytes(p);
    float piece[PIECE];
    _Static_assert(PIECE % 256 == 0, "a piece is whole blocks");
    for (size_t i = 0; i < p->n_cols; i += PIECE) {
        const size_t len = p->n_cols - i < PIECE ? p->n_cols - i : PIECE;
        info->decode(data + i / info->block_elems * info->block_bytes, piece, len);
        for (size_t j = 0; j < len; j++) y[i + j] += piece[j];
    }
}

enum kg_status kg_cpu_embedding(struct kg_thread_pool *pool, const struct kg_embedding_args *args,
                                struct kg_error *err) {
    (void)pool; /* decoding a row is too short to wake threads for */
    enum kg_status status = kg_embedding_check(args, err);
    if (!status) status = kg_cpu_require_f32("embedding", "activations", args->activations, err);
    if (status) return status;

    const struct kg_weight *w = &args->weight;
    float *y = args->y;
    for (uint32_t r = 0; r < args->n_rows; r++)
        if (args->ids[r] < 0 || (uint32_t)args->ids[r] >= w->n_rows)
            return kg_fail(err, KG_ERR_RANGE, "embedding: id %d of row %u is outside [0, %u)", args->ids[r], r,
                           w->n_rows);
    for (uint32_t r = 0; r < args->n_rows; r++) {
        decode_row(w, (size_t)args->ids[r], y + (size_t)r * w->n_cols);
        if (args->scale > 0)
            for (size_t i = 0; i < w->n_cols; i++) y[(size_t)r * w->n_cols + i] *= args->scale;
        if (args->positions.data) add_row(&args->positions, (size_t)args->position + r, y + (size_t)r * w->n_cols);
    }
    return KG_OK;
}
