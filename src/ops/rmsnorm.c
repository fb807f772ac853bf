#include "ops/rmsnorm.h"
#include "ops/check.h"
#include "ops/dot.h"
#include <math.h>

enum { MIN_ELEMS_PER_RANGE = 16384 }; /* smaller ranges finish before a thread wakes up */

enum kg_status kg_rmsnorm_check(const struct kg_rmsnorm_args *args, struct kg_error *err) {
    KG_OP_REQUIRE(args->x && args->weight && args->y, "rmsnorm: x, weight or y is missing");
    KG_OP_REQUIRE(args->n_cols, "rmsnorm: rows of 0 columns");
    KG_OP_REQUIRE(args->eps >= 0 && isfinite(args->eps), "rmsnorm: eps is %g", (double)args->eps);
    return KG_OK;
}

static void rows(void *arg, size_t begin, size_t end) {
    const struct kg_rmsnorm_args *args = arg;
    const size_t n = args->n_cols;
    for (size_t r = begin; r < end; r++) {
        const float *x = (const float *)args->x + r * n;
        float *y = (float *)args->y + r * n;
        const double scale = 1.0 / sqrt(kg_dot(x, x, n) / (double)n + (double)args->eps);
        for (size_t i = 0; i < n; i++) y[i] = (float)((double)x[i] * scale * (double)args->weight[i]);
    }
}

enum kg_status kg_cpu_rmsnorm(struct kg_thread_pool *pool, const struct kg_rmsnorm_args *args, struct kg_error *err) {
    enum kg_status status = kg_rmsnorm_check(args, err);
    if (!status) status = kg_cpu_require_f32("rmsnorm", "activations", args->activations, err);
    if (status) return status;
    kg_parallel_for(pool, args->n_rows, MIN_ELEMS_PER_RANGE / args->n_cols + 1, rows, (void *)args);
    return KG_OK;
}
