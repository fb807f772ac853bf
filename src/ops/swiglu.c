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

double kg_swiglu_of(const struct kg_swiglu_args *form, double gate, double up) {
    const double limit = form->limit > 0 ? (double)form->limit : INFINITY;
    double g = gate, u = up;
    if (g > limit) g = limit;
    if (u > limit) u = limit;
    if (u < -limit) u = -limit;
    const double z = form->cubic > 0 ? g + (double)form->cubic * g * g * g : g;
    return g / (1.0 + exp(-(double)form->alpha * z)) * (u + (double)form->up_offset);
}

static void elements(void *arg, size_t begin, size_t end) {
    const struct kg_swiglu_args *args = arg;
    const float *gate = args->gate, *up = args->up;
    float *y = args->y;
    for (size_t i = begin; i < end; i++) y[i] = (float)kg_swiglu_of(args, (double)gate[i], (double)up[i]);
}

enum kg_status kg_cpu_swiglu(struct kg_thread_pool *pool, const struct kg_swiglu_args *args, struct kg_error *err) {
    enum kg_status status = kg_swiglu_check(args, err);
    if (!status) status = kg_cpu_require_f32("swiglu", "activations", args->activations, err);
    if (status) return status;
    kg_parallel_for(pool, (size_t)args->n_rows * args->n_cols, MIN_ELEMS_PER_RANGE, elements, (void *)args);
    return KG_OK;
}
