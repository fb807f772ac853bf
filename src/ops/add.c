#include "ops/add.h"
#include "ops/check.h"

enum kg_status kg_add_check(const struct kg_add_args *args, struct kg_error *err) {
    KG_OP_REQUIRE(args->a && args->b && args->y, "add: a, b or y is missing");
    KG_OP_REQUIRE(args->n_cols, "add: rows of 0 columns");
    return KG_OK;
}

enum kg_status kg_cpu_add(struct kg_thread_pool *pool, const struct kg_add_args *args, struct kg_error *err) {
    (void)pool; /* bound by memory */
    enum kg_status status = kg_add_check(args, err);
    if (!status) status = kg_cpu_require_f32("add", "activations", args->activations, err);
    if (status) return status;
    const float *a = args->a, *b = args->b;
    float *y = args->y;
    for (size_t i = 0; i < (size_t)args->n_rows * args->n_cols; i++) y[i] = a[i] + b[i];
    return KG_OK;
}
