#include "ops/gelu.h"
#include "ops/check.h"
#include <math.h>

enum { MIN_ELEMS_PER_RANGE = 4096 };

enum kg_status kg_gelu_check(const struct kg_gelu_args *args, struct kg_error *err) {
    KG_OP_REQUIRE(args->x && args->y, "gelu: x or y is missing");
    KG_OP_REQUIRE(args->n_cols, "gelu: rows of 0 columns");
    KG_OP_REQUIRE(args->form == KG_GELU_TANH || args->form == KG_GELU_ERF, "gelu: the form %d is neither tanh nor erf",
                  (int)args->form);
    return KG_OK;
}

static void tanh_elements(void *arg, size_t begin, size_t end) {
    const struct kg_gelu_args *args = arg;
    const float *from = args->x;
    float *y = args->y;
    const double twice = 2 * M_2_SQRTPI * M_SQRT1_2; /* 2 sqrt(2 / pi) */
    for (size_t i = begin; i < end; i++) {
        const double x = from[i];
        y[i] = (float)(x / (1 + exp(-twice * (x + 0.044715 * x * x * x))));
    }
}

static void erf_elements(void *arg, size_t begin, size_t end) {
    const struct kg_gelu_args *args = arg;
    const float *from = args->x;
    float *y = args->y;
    for (size_t i = begin; i < end; i++) {
        const double x = from[i];
        y[i] = (float)(x / 2 * erfc(-x * M_SQRT1_2));
    }
}

enum kg_status kg_cpu_gelu(struct kg_thread_pool *pool, const struct kg_gelu_args *args, struct kg_error *err) {
    enum kg_status status = kg_gelu_check(args, err);
    if (!status) status = kg_cpu_require_f32("gelu", "activations", args->activations, err);
    if (status) return status;
    kg_parallel_for(pool, (size_t)args->n_rows * args->n_cols, MIN_ELEMS_PER_RANGE,
                    args->form == KG_GELU_TANH ? tanh_elements : erf_elements, (void *)args);
    return KG_OK;
}
