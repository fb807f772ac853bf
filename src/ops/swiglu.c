#include "ops/swiglu.h"
#include "ops/check.h"
#include <math.h>

enum { MIN_ELEMS_PER_RANGE = 4096 };

enum kg_status kg_swiglu_check(const struct kg_swiglu_args *args, struct kg_error *err) {
    KG_OP_REQUIRE(args->gate && args->up && args->y, "swiglu: gate, up or y is missing");
    KG_OP_REQUIRE(args->n_cols, "swiglu: rows of 0 columns");
    KG_OP_REQUIRE(args->limit >= 0 && isfinite(args->limit), "swiglu: the limit is %g", (double)args->limit);
    KG_OP_REQUIRE(args->alpha > 0 && isfinite(args->alpha), "swiglu: alpha is %g", (double)args->alpha);
    KG_OP_REQUIRE(isfinite(args->up_offset), "swiglu: up_offset is %g", (double)args->up_offset);
    KG_OP_REQUIRE(args->cubic >= 0 && isfinite(args->cubic), "swiglu: cubic is %g", (double)args->cubic);
    KG_OP_REQUIRE(args->cubic == 0 || args->limit == 0, "swiglu: cubic %g beside a limit", (double)args->cubic);
    return KG_OK;
}

static void elements(void *arg, size_t begin, size_t end) {
    const struct kg_swiglu_args *args = arg;
    const float *gate = args->gate, *up = args->up;
    float *y = args->y;
    const double limit = args->limit > 0 ? (double)args->limit : INFINITY;
    for (size_t i = begin; i < end; i++) {
        double g = gate[i], u = up[i];
        if (g > limit) g = limit;
        if (u > limit) u = limit;
        if (u < -limit) u = -limit;
        const double z = args->cubic > 0 ? g + (double)args->cubic * g * g * g : g;
        y[i] = (float)(g / (1.0 + exp(-(double)args->alpha * z)) * (u + (double)args->up_offset));
    }
}

enum kg_status kg_cpu_swiglu(struct kg_thread_pool *pool, const struct kg_swiglu_args *args, struct kg_error *err) {
    enum kg_status status = kg_swiglu_check(args, err);
    if (!status) status = kg_cpu_require_f32("swiglu", "activations", args->activations, err);
    if (status) return status;
    kg_parallel_for(pool, (size_t)args->n_rows * args->n_cols, MIN_ELEMS_PER_RANGE, elements, (void *)args);
    return KG_OK;
}
