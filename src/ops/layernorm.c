#include "ops/layernorm.h"
#include "ops/check.h"
#include <math.h>

enum { MIN_ELEMS_PER_RANGE = 16384 }; /* smaller ranges finish before a thread wakes up */

enum kg_status kg_layernorm_check(const struct kg_layernorm_args *args, struct kg_error *err) {
    KG_OP_REQUIRE(args->x && args->weight && args->y, "layernorm: x, weight or y is missing");
    KG_OP_REQUIRE(args->n_cols, "layernorm: rows of 0 columns");
    KG_OP_REQUIRE(args->eps >= 0 && isfinite(args->eps), "layernorm: eps is %g", (double)args->eps);
    return KG_OK;
}

static void rows(void *arg, size_t begin, size_t end) {
    const struct kg_layernorm_args *args = arg;
    const size_t n = args->n_cols;
    for (size_t r = begin; r < end; r++) {
        const float *x = (const float *)args->x + r * n;
        float *y = (float *)args->y + r * n;
        double sum = 0, squares = 0;
        for (size_t i = 0; i < n; i++) sum += (double)x[i];
        const double mean = sum / (double)n;
        for (size_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        const double scale = 1.0 / sqrt(squares / (double)n + (double)args->eps);
        for (size_t i = 0; i < n; i++) {
            const double bias = args->bias ? (double)args->bias[i] : 0;
            y[i] = (float)(((double)x[i] - mean) * scale * (double)args->weight[i] + bias);
        }
    }
}

enum kg_status kg_cpu_layernorm(struct kg_thread_pool *pool, const struct kg_layernorm_args *args,
                                struct kg_error *err) {
    enum kg_status status = kg_layernorm_check(args, err);
    if (!status) status = kg_cpu_require_f32("layernorm", "activations", args->activations, err);
    if (status) return status;
    kg_parallel_for(pool, args->n_rows, MIN_ELEMS_PER_RANGE / args->n_cols + 1, rows, (void *)args);
    return KG_OK;
}
