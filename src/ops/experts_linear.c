#include "ops/experts_linear.h"
#include "base/buffer.h"
#include "base/size.h"
#include "ops/check.h"
#include "ops/dot_rows.h"
#include <stdlib.h>

enum { MIN_PRODUCTS_PER_RANGE = 65536 };

enum kg_status kg_experts_linear_check(const struct kg_experts_linear_args *args, struct kg_error *err) {
    const struct kg_weight *w = &args->weight;
    KG_OP_REQUIRE(args->x && w->data && args->ids && args->y, "experts_linear: x, weight, ids or y is missing");
    KG_OP_REQUIRE(args->x != args->y, "experts_linear: y is x");
    KG_OP_REQUIRE(w->n_rows && w->n_cols && args->n_experts && w->n_rows % args->n_experts == 0,
                  "experts_linear: %u rows of %u columns are no whole matrices of %u experts", w->n_rows, w->n_cols,
                  args->n_experts);
    KG_OP_REQUIRE(w->n_cols % kg_dtype_info(w->dtype)->block_elems == 0,
                  "experts_linear: %u columns are no whole %s blocks", w->n_cols, kg_dtype_info(w->dtype)->name);
    KG_OP_REQUIRE(args->n_sharing && args->n_rows % args->n_sharing == 0,
                  "experts_linear: %u rows, of which %u share a row of x", args->n_rows, args->n_sharing);
    return KG_OK;
}

/* The rows of each expert, in order: expert e has row[first[e] .. first[e + 1]). */
struct grouping {
    const struct kg_experts_linear_args *args;
    uint32_t *first; /* (n_experts + 1) */
    uint32_t *row;   /* (n_rows) */
};

static struct grouping group_rows(const struct kg_experts_linear_args *args) {
    const struct grouping g = { .args = args,
                                .first = kg_xcalloc((size_t)args->n_experts + 2, sizeof *g.first),
                                .row = kg_xmalloc(args->n_rows * sizeof *g.row) };
    /* Counts are stored one place further: during the scatter, first[e + 1] is where the next row of e goes. */
    for (uint32_t r = 0; r < args->n_rows; r++) g.first[args->ids[r] + 2]++;
    for (uint32_t e = 1; e <= args->n_experts; e++) g.first[e + 1] += g.first[e];
    for (uint32_t r = 0; r < args->n_rows; r++) g.row[g.first[args->ids[r] + 1]++] = r;
    return g;
}

/* The outputs [o, o + n_outputs) of an expert for up to KG_DOT_ROWS_MAX of its input rows. */
static void few_outputs(const struct kg_experts_linear_args *args, uint32_t expert, size_t o, size_t n_outputs,
                        const uint32_t *row, size_t n) {
    const struct kg_weight *w = &args->weight;
    const size_t n_out = w->n_rows / args->n_experts, weight_row = expert * n_out + o;
    const float *x[KG_DOT_ROWS_MAX] = { NULL };
    double sums[KG_DOT_ROWS_MAX][KG_DOT_WEIGHT_ROWS];
    for (size_t i = 0; i < n; i++) x[i] = (const float *)args->x + (size_t)(row[i] / args->n_sharing) * w->n_cols;
    kg_dot_rows(w, weight_row, n_outputs, x, n, sums);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n_outputs; k++)
            ((float *)args->y)[row[i] * n_out + o + k] =
                (float)(sums[i][k] + (args->bias ? (double)args->bias[weight_row + k] : 0));
}

static void outputs(void *arg, size_t begin, size_t end) {
    const struct grouping *g = arg;
    for (uint32_t e = 0; e < g->args->n_experts; e++)
        for (uint32_t at = g->first[e]; at < g->first[e + 1]; at += KG_DOT_ROWS_MAX)
            for (size_t o = begin; o < end; o += KG_DOT_WEIGHT_ROWS)
                few_outputs(g->args, e, o, kg_min_size(end - o, KG_DOT_WEIGHT_ROWS), g->row + at,
                            kg_min_size(g->first[e + 1] - at, KG_DOT_ROWS_MAX));
}

enum kg_status kg_cpu_experts_linear(struct kg_thread_pool *pool, const struct kg_experts_linear_args *args,
                                     struct kg_error *err) {
    enum kg_status status = kg_experts_linear_check(args, err);
    if (!status) status = kg_cpu_require_f32("experts_linear", "activations", args->activations, err);
    if (status || args->n_rows == 0) return status;
    for (uint32_t r = 0; r < args->n_rows; r++)
        if (args->ids[r] < 0 || (uint32_t)args->ids[r] >= args->n_experts)
            return kg_fail(err, KG_ERR_RANGE, "experts_linear: id %d of row %u is outside [0, %u)", args->ids[r], r,
                           args->n_experts);
    struct grouping g = group_rows(args);
    const size_t products_per_output = (size_t)args->n_rows * args->weight.n_cols;
    kg_parallel_for(pool, args->weight.n_rows / args->n_experts, MIN_PRODUCTS_PER_RANGE / products_per_output + 1,
                    outputs, &g);
    free(g.row);
    free(g.first);
    return KG_OK;
}
