#include "ops/embedding.h"
#include "ops/check.h"

enum kg_status kg_embedding_check(const struct kg_embedding_args *args, struct kg_error *err) {
    const struct kg_weight *w = &args->weight;
    KG_OP_REQUIRE(w->data && args->ids && args->y, "embedding: weight, ids or y is missing");
    KG_OP_REQUIRE(w->n_rows && w->n_cols, "embedding: the weight is %u x %u", w->n_rows, w->n_cols);
    KG_OP_REQUIRE(w->n_cols % kg_dtype_info(w->dtype)->block_elems == 0, "embedding: %u columns are no whole %s blocks",
                  w->n_cols, kg_dtype_info(w->dtype)->name);
    return KG_OK;
}

enum kg_status kg_cpu_embedding(struct kg_thread_pool *pool, const struct kg_embedding_args *args,
                                struct kg_error *err) {
    (void)pool; /* a row is one decode: not worth waking threads for */
    enum kg_status status = kg_embedding_check(args, err);
    if (!status) status = kg_cpu_require_f32("embedding", "activations", args->activations, err);
    if (status) return status;

    const struct kg_weight *w = &args->weight;
    const size_t row_bytes = kg_weight_row_bytes(w);
    float *y = args->y;
    for (uint32_t r = 0; r < args->n_rows; r++)
        if (args->ids[r] < 0 || (uint32_t)args->ids[r] >= w->n_rows)
            return kg_fail(err, KG_ERR_RANGE, "embedding: id %d of row %u is outside [0, %u)", args->ids[r], r,
                           w->n_rows);
    for (uint32_t r = 0; r < args->n_rows; r++)
        kg_dtype_info(w->dtype)->decode((const char *)w->data + (size_t)args->ids[r] * row_bytes,
                                        y + (size_t)r * w->n_cols, w->n_cols);
    return KG_OK;
}
