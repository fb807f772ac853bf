#include "ops/swiglu.h"
#include "ops/check.h"
#include <math.h>

enum { MIN_ELEMS_PER_RANGE = 4096 };

enum kg_status kg_swiglu_check(const struct kg_swiglu_args *args, struct kg_error *err) {
    KG_OP_REQUIRE(args->gate && args->up && args->y, "swiglu: gate, up or y is missing");
    KG_OP_REQUIRE(args->n_cols, "swiglu: rows of 0 columns");
    return KG_OK;
}

static void elements(void *arg, size_t begin, size_t end) {
    const struct kg_swiglu_args *args = arg;
    const float *gate = args->gate, *up = args->up;
    float *y = args->y;
    for (size_t i = begin; i < end; i++) {
        const double g = gate[i];
        y[i] = (float)(g / (1.0 + exp(-g)) * (double)up[i]);
    }
}

enum kg_status kg_cpu_swiglu(struct kg_thread_pool *pool, const struct kg_swiglu_args *args, struct kg_error *err) {
    enum kg_status status = kg_swiglu_check(args, err);
    if (!status) status = kg_cpu_require_f32("swiglu", "activations", args->activations, err);
    if (status) return status;
    kg_parallel_for(pool, (size_t)args->n_rows * args->n_cols, MIN_ELEMS_PER_RANGE, elements, (void *)args);
    return KG_OK;
}
