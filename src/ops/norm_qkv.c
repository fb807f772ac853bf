#include "ops/norm_qkv.h"
#include "base/buffer.h"
#include "base/size.h"
#include "ops/check.h"
#include "ops/normed.h"
#include "ops/scratch.h"
#include <stdlib.h>

enum { MIN_PRODUCTS_PER_RANGE = 65536 };

static const char *const NAMES[KG_NORM_QKV_PRODUCTS] = { "q", "k", "v" };

static struct kg_normed normed_of(const struct kg_norm_qkv_args *args) {
    return (struct kg_normed){ args->x, args->norm_weight, args->n_cols, args->eps };
}

uint64_t kg_norm_qkv_scratch_bytes(const struct kg_norm_qkv_args *args) {
    return kg_scratch_bytes(args->n_rows, args->n_cols, args->activations);
}

enum kg_status kg_norm_qkv_check(const struct kg_norm_qkv_args *args, struct kg_error *err) {
    const struct kg_normed of = normed_of(args);
    struct kg_normed_matrix matrices[KG_NORM_QKV_PRODUCTS];
    for (size_t p = 0; p < KG_NORM_QKV_PRODUCTS; p++)
        matrices[p] = (struct kg_normed_matrix){ NAMES[p], &args->weight[p] };
    const enum kg_status status = kg_normed_check("norm_qkv", &of, matrices, KG_NORM_QKV_PRODUCTS, err);
    if (status) return status;
    for (size_t p = 0; p < KG_NORM_QKV_PRODUCTS; p++) {
        KG_OP_REQUIRE(args->y[p], "norm_qkv: y of %s is missing", NAMES[p]);
        KG_OP_REQUIRE(args->y[p] != args->x, "norm_qkv: y of %s is x", NAMES[p]);
        for (size_t other = 0; other < p; other++)
            KG_OP_REQUIRE(args->y[p] != args->y[other], "norm_qkv: y of %s is that of %s", NAMES[p], NAMES[other]);
    }
    return KG_OK;
}

/* A few rows, normalised. */
struct rows {
    const struct kg_norm_qkv_args *args;
    const double *n;
    size_t first, n_rows;
};

/* Outputs are counted through q, k and v. */
static void outputs(void *arg, size_t begin, size_t end) {
    const struct rows *rows = arg;
    const struct kg_norm_qkv_args *args = rows->args;
    double sums[KG_NORMED_ROWS];
    for (size_t i = begin; i < end; i++) {
        size_t p = 0, o = i;
        while (o >= args->weight[p].n_rows) o -= args->weight[p++].n_rows;
        const struct kg_weight *w = &args->weight[p];
        float *y = (float *)args->y[p] + rows->first * w->n_rows + o;
        kg_normed_products(w, o, rows->n, rows->n_rows, sums);
        for (size_t r = 0; r < rows->n_rows; r++)
            y[r * w->n_rows] = (float)(sums[r] + (args->bias[p] ? (double)args->bias[p][o] : 0));
    }
}

enum kg_status kg_cpu_norm_qkv(struct kg_thread_pool *pool, const struct kg_norm_qkv_args *args, struct kg_error *err) {
    enum kg_status status = kg_norm_qkv_check(args, err);
    if (!status) status = kg_cpu_require_f32("norm_qkv", "activations", args->activations, err);
    if (status) return status;
    const struct kg_normed of = normed_of(args);
    double *n = kg_xcalloc((size_t)KG_NORMED_ROWS * args->n_cols, sizeof *n);
    size_t n_outputs = 0;
    for (size_t p = 0; p < KG_NORM_QKV_PRODUCTS; p++) n_outputs += args->weight[p].n_rows;
    for (size_t first = 0; first < args->n_rows; first += KG_NORMED_ROWS) {
        struct rows rows = { args, n, first, kg_min_size(args->n_rows - first, KG_NORMED_ROWS) };
        kg_normed_rows(&of, first, rows.n_rows, n);
        kg_parallel_for(pool, n_outputs, MIN_PRODUCTS_PER_RANGE / (rows.n_rows * args->n_cols) + 1, outputs, &rows);
    }
    free(n);
    return KG_OK;
}
