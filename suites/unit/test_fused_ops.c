/* norm_qkv, norm_swiglu and linear_add: calls that are refused, rows by themselves and on any number of threads. Their
 * values are tolerance/fused_ops. */
#include "ops/ops.h"
#include "suites/support/op_device.h"
#include "suites/unit/ops_shared.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_IN = 4, N_ROWS = 70, N_COLS = 65, N_OUT = 9 };

static float memory[64], other[64], more[64];
static const struct kg_weight MATRIX = { memory, KG_DTYPE_F32, 2, N_IN }, MISSING = { NULL, KG_DTYPE_F32, 2, N_IN },
                              NARROW = { memory, KG_DTYPE_F32, 2, 3 }, EMPTY = { memory, KG_DTYPE_F32, 0, N_IN },
                              BLOCKS = { memory, KG_DTYPE_Q4_0, 2, N_IN }, TALL = { memory, KG_DTYPE_F32, 3, N_IN };

static struct kg_norm_qkv_args good_qkv(void) {
    return (struct kg_norm_qkv_args){ .x = memory,
                                      .norm_weight = memory,
                                      .weight = { MATRIX, MATRIX, TALL },
                                      .y = { other, more, more + 8 },
                                      .n_rows = 1,
                                      .n_cols = N_IN,
                                      .eps = 1e-6f };
}

static void refused_norm_qkv(struct kg_record *rec, const void *arg) {
    struct kg_norm_qkv_args bad[13], good = good_qkv();
    struct kg_error err;
    const char *const says[] = {
        "x or norm_weight", "x or norm_weight", "0 columns", "eps is -1",   "eps is inf",
        "weight of q is",   "of k is 2 x 3",    "of v is 0", "Q4_0 blocks", "y of v is missing",
        "y of q is x",      "y of k is that",   "f16"
    };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(bad); i++) bad[i] = good;
    bad[0].x = NULL, bad[1].norm_weight = NULL;
    bad[2].n_cols = 0;
    bad[3].eps = -1, bad[4].eps = INFINITY;
    bad[5].weight[0] = MISSING, bad[6].weight[1] = NARROW, bad[7].weight[2] = EMPTY, bad[8].weight[0] = BLOCKS;
    bad[9].y[2] = NULL, bad[10].y[0] = memory, bad[11].y[1] = other;
    bad[12].activations = KG_PRECISION_F16;
    kg_must(kg_norm_qkv_check(&good, &err), &err);
    for (size_t i = 0; i < KG_COUNT_OF(bad); i++) {
        ck_assert_int_eq(kg_cpu_norm_qkv(NULL, &bad[i], &err), i == 12 ? KG_ERR_UNSUPPORTED : KG_ERR_USAGE);
        ck_assert_msg(strstr(err.message, says[i]) && strstr(err.message, "norm_qkv"), "'%s' does not say '%s'",
                      err.message, says[i]);
    }
    good.n_rows = 0;
    kg_must(kg_cpu_norm_qkv(NULL, &good, &err), &err);
}

static struct kg_norm_swiglu_args good_swiglu(void) {
    return (struct kg_norm_swiglu_args){ .x = memory,
                                         .norm_weight = memory,
                                         .weight = { MATRIX, MATRIX },
                                         .y = other,
                                         .n_rows = 1,
                                         .n_cols = N_IN,
                                         .alpha = 1 };
}

static void refused_norm_swiglu(struct kg_record *rec, const void *arg) {
    struct kg_norm_swiglu_args bad[14], good = good_swiglu();
    struct kg_error err;
    const char *const says[] = {
        "x or norm_weight", "x or norm_weight", "0 columns",    "eps is nan", "weight of gate is",
        "of up is 2 x 3",   "2 gates and 3",    "y is missing", "y is x",     "limit is -1",
        "alpha is 0",       "up_offset is inf", "cubic 1",      "f16"
    };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(bad); i++) bad[i] = good;
    bad[0].x = NULL, bad[1].norm_weight = NULL;
    bad[2].n_cols = 0;
    bad[3].eps = NAN;
    bad[4].weight[0] = MISSING, bad[5].weight[1] = NARROW, bad[6].weight[1] = TALL;
    bad[7].y = NULL, bad[8].y = memory;
    bad[9].limit = -1, bad[10].alpha = 0, bad[11].up_offset = INFINITY, bad[12].cubic = bad[12].limit = 1;
    bad[13].activations = KG_PRECISION_F16;
    kg_must(kg_norm_swiglu_check(&good, &err), &err);
    for (size_t i = 0; i < KG_COUNT_OF(bad); i++) {
        ck_assert_int_eq(kg_cpu_norm_swiglu(NULL, &bad[i], &err), i == 13 ? KG_ERR_UNSUPPORTED : KG_ERR_USAGE);
        ck_assert_msg(strstr(err.message, says[i]) && strstr(err.message, "norm_swiglu"), "'%s' does not say '%s'",
                      err.message, says[i]);
    }
    good.n_rows = 0;
    kg_must(kg_cpu_norm_swiglu(NULL, &good, &err), &err);
}

static struct kg_linear_add_args good_add(void) {
    return (struct kg_linear_add_args){ .linear = { .x = memory, .weight = MATRIX, .y = other, .n_rows = 1 } };
}

static void refused_linear_add(struct kg_record *rec, const void *arg) {
    struct kg_linear_add_args bad[8], good = good_add();
    struct kg_error err;
    const char *const says[] = { "x, weight or y", "x, weight or y", "x, weight or y",  "y is x",
                                 "0 x 4",          "Q4_0 blocks",    "f16 activations", "f16 outputs" };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(bad); i++) bad[i] = good;
    bad[0].linear.x = NULL, bad[1].linear.weight = MISSING, bad[2].linear.y = NULL;
    bad[3].linear.y = memory;
    bad[4].linear.weight = EMPTY, bad[5].linear.weight = BLOCKS;
    bad[6].linear.activations = KG_PRECISION_F16, bad[7].linear.output = KG_PRECISION_F16;
    kg_must(kg_linear_add_check(&good, &err), &err);
    for (size_t i = 0; i < KG_COUNT_OF(bad); i++) {
        ck_assert_int_eq(kg_cpu_linear_add(NULL, &bad[i], &err), i < 6 ? KG_ERR_USAGE : KG_ERR_UNSUPPORTED);
        ck_assert_msg(strstr(err.message, says[i]) && strstr(err.message, "linear_add"), "'%s' does not say '%s'",
                      err.message, says[i]);
    }
    good.linear.n_rows = 0;
    kg_must(kg_cpu_linear_add(NULL, &good, &err), &err);
}

/* What the cuda back end asks beside: room between its steps, on 256 bytes, and precisions that it has. */
static void refused_by_cuda(struct kg_record *rec, const void *arg) {
    struct kg_op_device d;
    struct kg_error err;
    (void)arg;
    if (!kg_op_device_open(rec, "cuda", NULL, &d)) return;
    const struct kg_backend_ops *ops = d.backend->ops;
    char *const block = kg_op_device_put(&d, memory, sizeof memory);
    void *const scratches[] = { NULL, block + 16, block };
    const char *const says[] = { "missing", "256 bytes", "f8" };
    for (size_t i = 0; i < KG_COUNT_OF(scratches); i++) {
        struct kg_norm_qkv_args qkv = good_qkv();
        struct kg_norm_swiglu_args swiglu = good_swiglu();
        struct kg_linear_add_args sum = good_add();
        qkv.scratch = swiglu.scratch = sum.scratch = scratches[i];
        if (scratches[i] == block)
            qkv.activations = swiglu.activations = sum.linear.activations = sum.linear.output = KG_PRECISION_F8;
        const enum kg_status want = scratches[i] == block ? KG_ERR_UNSUPPORTED : KG_ERR_USAGE;
        ck_assert_int_eq(ops->norm_qkv(d.backend, &qkv, &err), want);
        ck_assert_msg(strstr(err.message, says[i]), "'%s' does not say '%s'", err.message, says[i]);
        ck_assert_int_eq(ops->norm_swiglu(d.backend, &swiglu, &err), want);
        ck_assert_msg(strstr(err.message, says[i]), "'%s' does not say '%s'", err.message, says[i]);
        ck_assert_int_eq(ops->linear_add(d.backend, &sum, &err), want);
        ck_assert_msg(strstr(err.message, says[i]), "'%s' does not say '%s'", err.message, says[i]);
    }
    struct kg_linear_add_args narrow = good_add();
    narrow.scratch = block, narrow.linear.output = KG_PRECISION_F16;
    ck_assert_int_eq(ops->linear_add(d.backend, &narrow, &err), KG_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.message, "f16 outputs of f32"), "%s", err.message);
    kg_op_device_close(&d);
}

/* Host data of all three operations, and where rows [first, first + n_rows) of their results go. */
struct data {
    float *x, *norm_weight, *w, *bias;
};

static void run_all(struct kg_thread_pool *pool, const struct data *in, size_t first, uint32_t n_rows,
                    float *const y[5]) {
    const struct kg_weight w = { in->w, KG_DTYPE_F32, N_OUT, N_COLS };
    const float *x = in->x + first * N_COLS;
    float *to[5];
    struct kg_error err;
    for (int i = 0; i < 5; i++) to[i] = y[i] + first * N_OUT;
    const struct kg_norm_qkv_args qkv = { .x = x,
                                          .norm_weight = in->norm_weight,
                                          .weight = { w, w, w },
                                          .bias = { in->bias, NULL, in->bias },
                                          .y = { to[0], to[1], to[2] },
                                          .n_rows = n_rows,
                                          .n_cols = N_COLS,
                                          .eps = 1e-6f };
    const struct kg_norm_swiglu_args swiglu = { .x = x,
                                                .norm_weight = in->norm_weight,
                                                .weight = { w, w },
                                                .bias = { NULL, in->bias },
                                                .y = to[3],
                                                .n_rows = n_rows,
                                                .n_cols = N_COLS,
                                                .alpha = 1 };
    const struct kg_linear_add_args sum = { .linear = {
                                                .x = x, .weight = w, .bias = in->bias, .y = to[4], .n_rows = n_rows } };
    kg_must(kg_cpu_norm_qkv(pool, &qkv, &err), &err);
    kg_must(kg_cpu_norm_swiglu(pool, &swiglu, &err), &err);
    kg_must(kg_cpu_linear_add(pool, &sum, &err), &err);
}

static void same_bits(struct kg_record *rec, const void *arg) {
    const size_t n_y = (size_t)N_ROWS * N_OUT;
    struct data in = { kg_filled(N_ROWS * N_COLS, 1), kg_filled(N_COLS, 2), kg_filled(N_OUT * N_COLS, 3),
                       kg_filled(N_OUT, 4) };
    float *want[5], *got[5];
    (void)rec, (void)arg;
    for (int i = 0; i < 5; i++) want[i] = kg_xcalloc(n_y, sizeof *want[i]), got[i] = kg_xcalloc(n_y, sizeof *got[i]);
    run_all(NULL, &in, 0, N_ROWS, want);
    for (size_t p = 0; p <= KG_COUNT_OF(KG_POOL_SIZES); p++) {
        const bool row_by_row = p == KG_COUNT_OF(KG_POOL_SIZES);
        struct kg_thread_pool *pool = row_by_row ? NULL : kg_pool_of(KG_POOL_SIZES[p]);
        for (int i = 0; i < 5; i++) memset(got[i], 0, n_y * sizeof *got[i]);
        if (!row_by_row) run_all(pool, &in, 0, N_ROWS, got);
        for (size_t r = 0; r < N_ROWS && row_by_row; r++) run_all(pool, &in, r, 1, got);
        for (int i = 0; i < 5; i++)
            ck_assert_msg(memcmp(got[i], want[i], n_y * sizeof *got[i]) == 0, "result %d, way %zu: other bits", i, p);
        kg_thread_pool_destroy(pool);
    }
    for (int i = 0; i < 5; i++) free(got[i]), free(want[i]);
    free(in.bias), free(in.w), free(in.norm_weight), free(in.x);
}

static void build(struct kg_case_list *list) {
    static const struct {
        const char *op, *name, *backend;
        void (*run)(struct kg_record *rec, const void *arg);
    } CASES[] = {
        { "norm_qkv", "refused", NULL, refused_norm_qkv },
        { "norm_swiglu", "refused", NULL, refused_norm_swiglu },
        { "linear_add", "refused", NULL, refused_linear_add },
        { "fused_ops", "refused_by_cuda", "cuda", refused_by_cuda },
        { "fused_ops", "same_bits_in_any_batch_on_any_threads", NULL, same_bits },
    };
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = CASES[i].op,
                                                  .name = CASES[i].name,
                                                  .backend = CASES[i].backend,
                                                  .spec = "FT-055",
                                                  .run = CASES[i].run });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
