#include "ops/experts_combine.h"
#include "ops/check.h"

enum { MIN_ELEMS_PER_RANGE = 16384 };

enum kg_status kg_experts_combine_check(const struct kg_experts_combine_args *args, struct kg_error *err) {
    KG_OP_REQUIRE(args->x && args->weights && args->y, "experts_combine: x, weights or y is missing");
    KG_OP_REQUIRE(args->x != args->y, "experts_combine: y is x");
    KG_OP_REQUIRE(args->n_used && args->n_cols, "experts_combine: %u results of %u columns", args->n_used,
                  args->n_cols);
    return KG_OK;
}

static void rows(void *arg, size_t begin, size_t end) {
    const struct kg_experts_combine_args *args = arg;
    const size_t n = args->n_cols;
    for (size_t r = begin; r < end; r++) {
        const float *x = (const float *)args->x + r * args->n_used * n, *weights = args->weights + r * args->n_used;
        const float *residual = args->residual ? (const float *)args->residual + r * n : NULL;
        float *y = (float *)args->y + r * n;
        for (size_t i = 0; i < n; i++) {
            double sum = residual ? (double)residual[i] : 0;
            for (size_t j = 0; j < args->n_used; j++) sum += (double)weights[j] * (double)x[j * n + i];
            y[i] = (float)sum;
        }
    }
}

enum kg_status kg_cpu_experts_combine(struct kg_thread_pool *pool, const struct kg_experts_combine_args *args,
                                      struct kg_error *err) {
    enum kg_status status = kg_experts_combine_check(args, err);
    if (!status) status = kg_cpu_require_f32("experts_combine", "activations", args->activations, err);
    if (status) return status;
    kg_parallel_for(pool, args->n_rows, MIN_ELEMS_PER_RANGE / ((size_t)args->n_used * args->n_cols) + 1, rows,
                    (void *)args);
    return KG_OK;
}
