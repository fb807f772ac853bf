#include "ops/linear.h"
#include "base/size.h"
#include "ops/check.h"
#include "ops/dot_rows.h"

enum { MIN_PRODUCTS_PER_RANGE = 65536 };

enum kg_status kg_linear_check(const struct kg_linear_args *args, struct kg_error *err) {
    const struct kg_weight *w = &args->weight;
    KG_OP_REQUIRE(args->x && w->data && args->y, "linear: x, weight or y is missing");
    KG_OP_REQUIRE(args->x != args->y, "linear: y is x");
    KG_OP_REQUIRE(w->n_rows && w->n_cols, "linear: the weight is %u x %u", w->n_rows, w->n_cols);
    KG_OP_REQUIRE(w->n_cols % kg_dtype_info(w->dtype)->block_elems == 0, "linear: %u columns are no whole %s blocks",
                  w->n_cols, kg_dtype_info(w->dtype)->name);
    return KG_OK;
}

struct job {
    const struct kg_linear_args *args;
    bool adds;
};

/* y[r][o] for the activation rows [first, first + n) of one block and the outputs [o, o + n_outputs). */
static void few_outputs(const struct job *job, size_t o, size_t n_outputs, size_t first, size_t n) {
    const struct kg_linear_args *args = job->args;
    const struct kg_weight *w = &args->weight;
    const float *x[KG_DOT_ROWS_MAX] = { NULL };
    float *y = (float *)args->y + first * w->n_rows + o;
    double sums[KG_DOT_ROWS_MAX][KG_DOT_WEIGHT_ROWS];
    for (size_t r = 0; r < n; r++) x[r] = (const float *)args->x + (first + r) * w->n_cols;
    kg_dot_rows(w, o, n_outputs, x, n, sums);
    for (size_t r = 0; r < n; r++)
        for (size_t k = 0; k < n_outputs; k++) {
            const double sum = sums[r][k] + (args->bias ? (double)args->bias[o + k] : 0);
            y[r * w->n_rows + k] = (float)(job->adds ? (double)y[r * w->n_rows + k] + sum : sum);
        }
}

static void outputs(void *arg, size_t begin, size_t end) {
    const struct job *job = arg;
    const size_t n_rows = job->args->n_rows;
    for (size_t first = 0; first < n_rows; first += KG_DOT_ROWS_MAX)
        for (size_t o = begin; o < end; o += KG_DOT_WEIGHT_ROWS)
            few_outputs(job, o, kg_min_size(end - o, KG_DOT_WEIGHT_ROWS), first,
                        kg_min_size(n_rows - first, KG_DOT_ROWS_MAX));
}

void kg_linear_on_cpu(struct kg_thread_pool *pool, const struct kg_linear_args *args, bool adds) {
    struct job job = { args, adds };
    if (args->n_rows == 0) return;
    const size_t products_per_output = (size_t)args->n_rows * args->weight.n_cols;
    kg_parallel_for(pool, args->weight.n_rows, MIN_PRODUCTS_PER_RANGE / products_per_output + 1, outputs, &job);
}

enum kg_status kg_cpu_linear(struct kg_thread_pool *pool, const struct kg_linear_args *args, struct kg_error *err) {
    enum kg_status status = kg_linear_check(args, err);
    if (!status) status = kg_cpu_require_f32("linear", "activations", args->activations, err);
    if (!status) status = kg_cpu_require_f32("linear", "outputs", args->output, err);
    if (!status) kg_linear_on_cpu(pool, args, false);
    return status;
}
