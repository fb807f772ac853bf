#include "backend/backend.h"
#include "suites/support/plain_f16_style.h"

/* Row by row through the matrix of its expert. */
enum kg_status kg_plain_f16_experts_linear(const struct style *s, const struct kg_experts_linear_args *args,
                                           enum kg_status (*linear)(const struct style *, const struct kg_linear_args *,
                                                                    struct kg_error *),
                                           struct kg_error *err) {
    const size_t n_out = args->weight.n_rows / args->n_experts;
    const enum kg_precision output = args->wide_output ? KG_PRECISION_F32 : KG_PRECISION_F16;
    enum kg_status status = KG_OK;
    for (size_t r = 0; r < args->n_rows && status == KG_OK; r++) {
        const size_t first = (size_t)args->ids[r] * n_out;
        struct kg_weight own = args->weight;
        own.data = (const char *)own.data + first * kg_weight_row_bytes(&own);
        own.n_rows = (uint32_t)n_out;
        const struct kg_linear_args one = {
            .activations = KG_PRECISION_F16,
            .output = output,
            .x = (const uint16_t *)args->x + r / args->n_sharing * own.n_cols,
            .weight = own,
            .bias = args->bias ? args->bias + first : NULL,
            .y = (char *)args->y + r * n_out * kg_precision_bytes(output),
            .n_rows = 1,
        };
        status = linear(s, &one, err);
    }
    return status;
}

enum kg_status kg_plain_f16_experts_combine(const struct style *s, const struct kg_experts_combine_args *args) {
    const size_t n = args->n_cols;
    float *x = widened(args->x, (size_t)args->n_rows * args->n_used * n),
          *y = kg_xcalloc(args->n_rows * n + 1, sizeof *y);
    float *residual = args->residual ? widened(args->residual, args->n_rows * n) : NULL;
    for (size_t i = 0; i < args->n_rows * n; i++) {
        const size_t first = i / n * args->n_used;
        for (size_t j = first; j < first + args->n_used; j++) y[i] += step(s, args->weights[j] * x[j * n + i % n]);
        if (residual) y[i] = residual[i] + step(s, y[i]);
    }
    give(y, args->n_rows * n, args->y);
    free(residual);
    free(x);
    return KG_OK;
}
