#include "ops/norm_swiglu.h"
#include "base/buffer.h"
#include "base/size.h"
#include "ops/check.h"
#include "ops/normed.h"
#include "ops/scratch.h"
#include "ops/swiglu.h"
#include <stdlib.h>

enum { MIN_PRODUCTS_PER_RANGE = 65536 };

static struct kg_normed normed_of(const struct kg_norm_swiglu_args *args) {
    return (struct kg_normed){ args->x, args->norm_weight, args->n_cols, args->eps };
}

uint64_t kg_norm_swiglu_scratch_bytes(const struct kg_norm_swiglu_args *args) {
    return kg_scratch_bytes(args->n_rows, args->n_cols, args->activations) +
           KG_NORM_SWIGLU_PRODUCTS * kg_scratch_bytes(args->n_rows, args->weight[0].n_rows, args->activations);
}

/* As if gate and up were y: what is checked is the form. */
static struct kg_swiglu_args form_of(const struct kg_norm_swiglu_args *args) {
    return (struct kg_swiglu_args){ .activations = args->activations,
                                    .gate = args->y,
                                    .up = args->y,
                                    .y = args->y,
                                    .n_rows = args->n_rows,
                                    .n_cols = args->weight[0].n_rows,
                                    .limit = args->limit,
                                    .alpha = args->alpha,
                                    .up_offset = args->up_offset,
                                    .cubic = args->cubic };
}

enum kg_status kg_norm_swiglu_check(const struct kg_norm_swiglu_args *args, struct kg_error *err) {
    const struct kg_normed of = normed_of(args);
    const struct kg_normed_matrix matrices[KG_NORM_SWIGLU_PRODUCTS] = { { "gate", &args->weight[0] },
                                                                        { "up", &args->weight[1] } };
    enum kg_status status = kg_normed_check("norm_swiglu", &of, matrices, KG_NORM_SWIGLU_PRODUCTS, err);
    if (status) return status;
    KG_OP_REQUIRE(args->weight[0].n_rows == args->weight[1].n_rows, "norm_swiglu: %u gates and %u ups",
                  args->weight[0].n_rows, args->weight[1].n_rows);
    KG_OP_REQUIRE(args->y, "norm_swiglu: y is missing");
    KG_OP_REQUIRE(args->y != args->x, "norm_swiglu: y is x");
    const struct kg_swiglu_args form = form_of(args);
    status = kg_swiglu_check(&form, err);
    return status ? kg_error_context(err, status, "norm_swiglu") : KG_OK;
}

/* A few rows, normalised. */
struct rows {
    const struct kg_norm_swiglu_args *args;
    const double *n;
    size_t first, n_rows;
};

static void outputs(void *arg, size_t begin, size_t end) {
    const struct rows *rows = arg;
    const struct kg_norm_swiglu_args *args = rows->args;
    const struct kg_swiglu_args form = form_of(args);
    const size_t n_out = args->weight[0].n_rows;
    double sums[KG_NORM_SWIGLU_PRODUCTS][KG_NORMED_ROWS], bias[KG_NORM_SWIGLU_PRODUCTS];
    for (size_t o = begin; o < end; o++) {
        for (size_t p = 0; p < KG_NORM_SWIGLU_PRODUCTS; p++) {
            kg_normed_products(&args->weight[p], o, rows->n, rows->n_rows, sums[p]);
            bias[p] = args->bias[p] ? (double)args->bias[p][o] : 0;
        }
        float *y = (float *)args->y + rows->first * n_out + o;
        for (size_t r = 0; r < rows->n_rows; r++)
            y[r * n_out] = (float)kg_swiglu_of(&form, sums[0][r] + bias[0], sums[1][r] + bias[1]);
    }
}

enum kg_status kg_cpu_norm_swiglu(struct kg_thread_pool *pool, const struct kg_norm_swiglu_args *args,
                                  struct kg_error *err) {
    enum kg_status status = kg_norm_swiglu_check(args, err);
    if (!status) status = kg_cpu_require_f32("norm_swiglu", "activations", args->activations, err);
    if (status) return status;
    const struct kg_normed of = normed_of(args);
    double *n = kg_xcalloc((size_t)KG_NORMED_ROWS * args->n_cols, sizeof *n);
    for (size_t first = 0; first < args->n_rows; first += KG_NORMED_ROWS) {
        struct rows rows = { args, n, first, kg_min_size(args->n_rows - first, KG_NORMED_ROWS) };
        kg_normed_rows(&of, first, rows.n_rows, n);
        kg_parallel_for(pool, args->weight[0].n_rows, MIN_PRODUCTS_PER_RANGE / (rows.n_rows * args->n_cols) + 1,
                        outputs, &rows);
    }
    free(n);
    return KG_OK;
}
