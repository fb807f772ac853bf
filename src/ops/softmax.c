#include "ops/softmax.h"
#include "ops/check.h"
#include <float.h>
#include <math.h>

enum { MIN_ELEMS_PER_RANGE = 4096 };

enum kg_status kg_softmax_check(const struct kg_softmax_args *args, struct kg_error *err) {
    KG_OP_REQUIRE(args->x && args->y, "softmax: x or y is missing");
    KG_OP_REQUIRE(args->n_cols, "softmax: rows of 0 columns");
    KG_OP_REQUIRE(args->scale > 0 && isfinite(args->scale), "softmax: the scale is %g", (double)args->scale);
    return KG_OK;
}

static double weight_of(const struct kg_softmax_args *args, float x, float largest) {
    return exp(((double)x - (double)largest) * (double)args->scale);
}

static void rows(void *arg, size_t begin, size_t end) {
    const struct kg_softmax_args *args = arg;
    const size_t n = args->n_cols;
    for (size_t r = begin; r < end; r++) {
        const float *x = (const float *)args->x + r * n;
        float *y = (float *)args->y + r * n;
        /* Starting from the smallest finite number keeps -inf from being the largest; its exponential is then 0. */
        float largest = -FLT_MAX;
        double sum = 0;
        for (size_t i = 0; i < n; i++) largest = fmaxf(largest, x[i]);
        for (size_t i = 0; i < n; i++) sum += weight_of(args, x[i], largest);
        const double share =
            sum == 0 ? 0 : 1 / sum; /* the largest element has weight 1, so 0 means a fully masked row */
        for (size_t i = 0; i < n; i++) y[i] = (float)(weight_of(args, x[i], largest) * share);
    }
}

enum kg_status kg_cpu_softmax(struct kg_thread_pool *pool, const struct kg_softmax_args *args, struct kg_error *err) {
    enum kg_status status = kg_softmax_check(args, err);
    if (!status) status = kg_cpu_require_f32("softmax", "activations", args->activations, err);
    if (status) return status;
    kg_parallel_for(pool, args->n_rows, MIN_ELEMS_PER_RANGE / args->n_cols + 1, rows, (void *)args);
    return KG_OK;
}
