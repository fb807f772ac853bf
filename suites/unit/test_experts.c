/* The references of router, experts_linear and experts_combine: by hand, and against loops of another form in long
 * double, on any number of threads. */
#include "format/dtype.h"
#include "ops/experts_combine.h"
#include "ops/experts_linear.h"
#include "ops/router.h"
#include "suites/unit/ops_shared.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void route(const float *logits, uint32_t n_rows, uint32_t n_experts, uint32_t n_used, int32_t *ids,
                  float *weights) {
    struct kg_error err;
    const struct kg_router_args args = {
        .logits = logits, .ids = ids, .weights = weights, .n_rows = n_rows, .n_experts = n_experts, .n_used = n_used
    };
    kg_must(kg_cpu_router(NULL, &args, &err), &err);
}

/* ln 1, ln 2, ln 3, ln 4: of the two largest, 3/7 and 4/7, not 3/10 and 4/10. */
static void softmax_over_the_chosen(struct kg_record *rec, const void *arg) {
    (void)arg;
    const float logits[] = { 0.69314718f, 1.38629436f, 0, 1.09861229f };
    int32_t ids[2] = { 0 };
    float weights[2];
    const double want[] = { 4.0 / 7, 3.0 / 7 };
    const struct kg_tolerance tol = { .max_abs = 1e-7, .why = "the logarithms are rounded to float32" };
    route(logits, 1, 4, 2, ids, weights);
    ck_assert_int_eq(ids[0], 1);
    ck_assert_int_eq(ids[1], 3);
    kg_expect_close_f64(rec, "weights", weights, want, 2, &tol);
}

static void equal_logits_take_the_lower_expert(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float logits[] = { 1, 2, 2, 2, 1, 0, -0.0f, 0, -1, 0 };
    int32_t ids[6] = { 0 };
    float weights[6];
    route(logits, 2, 5, 3, ids, weights);
    for (int j = 0; j < 3; j++) {
        ck_assert_int_eq(ids[j], j + 1);
        ck_assert_int_eq(ids[3 + j], j);
        ck_assert_float_eq_tol(weights[j], 1.0f / 3, 1e-7f);
    }
}

static void one_of_one(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float logits[] = { -3e38f };
    int32_t id = 7;
    float weight = 7;
    route(logits, 1, 1, 1, &id, &weight);
    ck_assert_int_eq(id, 0);
    ck_assert_float_eq(weight, 1);
}

static void huge_logits(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float logits[] = { -3e38f, 3e38f, 3e38f, 0 };
    int32_t ids[3] = { 0 };
    float weights[3];
    route(logits, 1, 4, 3, ids, weights);
    for (int j = 0; j < 3; j++) ck_assert_int_eq(ids[j], j + 1);
    ck_assert_float_eq(weights[0], 0.5f);
    ck_assert_float_eq(weights[1], 0.5f);
    ck_assert_float_eq(weights[2], 0);
}

/* What is not a number is not hidden, and what uses the ids stays within its tables. */
static void bad_logits_are_seen(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    static const float BAD[] = { NAN, INFINITY, -INFINITY };
    for (size_t b = 0; b < KG_COUNT_OF(BAD); b++)
        for (uint32_t place = 0; place < 5; place++) {
            float logits[10] = { 1, 2, 3, 4, 5, 5, 4, 3, 2, 1 }, weights[6];
            int32_t ids[6] = { 0 };
            logits[place] = BAD[b];
            route(logits, 2, 5, 3, ids, weights);
            for (int j = 0; j < 3; j++) {
                ck_assert_int_ge(ids[j], 0);
                ck_assert_int_lt(ids[j], 5);
                for (int i = 0; i < j; i++) ck_assert_int_ne(ids[i], ids[j]);
                ck_assert(isnan(weights[j]));
                ck_assert(isfinite(weights[3 + j]));
            }
        }
}

struct expert_shape {
    const char *name, *shape;
    enum kg_dtype dtype;
    uint32_t n_tokens, n_used, n_experts, n_out, n_in;
    bool shared, bias;
};
static const struct expert_shape SHAPES[] = {
    { "one_of_each", "tokens=1 used=1 experts=1 out=3 in=5", KG_DTYPE_F32, 1, 1, 1, 3, 5, true, false },
    { "shared_rows", "tokens=3 used=2 experts=4 out=7 in=33", KG_DTYPE_F32, 3, 2, 4, 7, 33, true, true },
    { "own_rows", "tokens=3 used=2 experts=4 out=7 in=33", KG_DTYPE_F32, 3, 2, 4, 7, 33, false, true },
    { "f16", "tokens=5 used=4 experts=32 out=9 in=40", KG_DTYPE_F16, 5, 4, 32, 9, 40, true, true },
    { "mxfp4", "tokens=5 used=4 experts=8 out=9 in=96", KG_DTYPE_MXFP4, 5, 4, 8, 9, 96, true, true },
    { "mxfp4_own_rows", "tokens=2 used=4 experts=8 out=33 in=64", KG_DTYPE_MXFP4, 2, 4, 8, 33, 64, false, false },
    { "many_rows_of_an_expert", "tokens=70 used=2 experts=3 out=5 in=1100", KG_DTYPE_Q8_0, 70, 2, 3, 5, 1120, true,
      true },
};

static void experts_case(struct kg_record *rec, const void *arg) {
    const struct expert_shape *s = arg;
    const struct kg_dtype_info *info = kg_dtype_info(s->dtype);
    const size_t n_rows = (size_t)s->n_tokens * s->n_used, n_sharing = s->shared ? s->n_used : 1;
    const size_t n_weights = (size_t)s->n_experts * s->n_out * s->n_in;
    const size_t n_bytes = n_weights / info->block_elems * info->block_bytes;
    float *x = kg_filled(n_rows / n_sharing * s->n_in, kg_record_seed(rec)), *w = kg_filled(n_weights, 5);
    float *bias = kg_filled((size_t)s->n_experts * s->n_out, 6);
    int32_t *ids = kg_xcalloc(n_rows, sizeof *ids);
    for (size_t r = 0; r < n_rows; r++) ids[r] = (int32_t)((r * r + 3 * r + 1) % s->n_experts);
    void *stored = kg_xcalloc(n_bytes, 1);
    struct kg_error err;
    info->encode(w, stored, n_weights);
    info->decode(stored, w, n_weights);

    double *want = kg_xmalloc(n_rows * s->n_out * sizeof *want);
    for (size_t r = 0; r < n_rows; r++)
        for (size_t o = 0; o < s->n_out; o++) {
            const size_t row = (size_t)ids[r] * s->n_out + o;
            long double sum = s->bias ? bias[row] : 0;
            for (size_t i = s->n_in; i-- > 0;)
                sum += (long double)x[r / n_sharing * s->n_in + i] * w[row * s->n_in + i];
            want[r * s->n_out + o] = (double)sum;
        }
    for (size_t p = 0; p < KG_COUNT_OF(KG_POOL_SIZES); p++) {
        struct kg_thread_pool *pool = kg_pool_of(KG_POOL_SIZES[p]);
        struct kg_guarded y;
        kg_guarded_init(&y, n_rows * s->n_out);
        const struct kg_experts_linear_args args = {
            .x = x,
            .weight = { stored, s->dtype, s->n_experts * s->n_out, s->n_in },
            .n_experts = s->n_experts,
            .bias = s->bias ? bias : NULL,
            .ids = ids,
            .y = y.data,
            .n_rows = (uint32_t)n_rows,
            .n_sharing = (uint32_t)n_sharing,
        };
        kg_must(kg_cpu_experts_linear(pool, &args, &err), &err);
        kg_guarded_expect_written(&y, "y");
        kg_expect_close_f64(rec, "y", y.data, want, n_rows * s->n_out, &KG_ONE_ROUNDING);
        kg_guarded_free(&y);
        kg_thread_pool_destroy(pool);
    }
    free(want);
    free(stored);
    free(ids);
    free(bias);
    free(w);
    free(x);
}

static void ids_outside_are_refused(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    static const int32_t BAD[][2] = { { 0, 2 }, { -1, 0 }, { INT32_MIN, 1 }, { 1, INT32_MAX } };
    const float w[8] = { 0 }, x[4] = { 0 };
    float y[4] = { 9, 9, 9, 9 };
    struct kg_error err;
    for (size_t i = 0; i < KG_COUNT_OF(BAD); i++) {
        const struct kg_experts_linear_args args = { .x = x,
                                                     .weight = { w, KG_DTYPE_F32, 4, 2 },
                                                     .n_experts = 2,
                                                     .ids = BAD[i],
                                                     .y = y,
                                                     .n_rows = 2,
                                                     .n_sharing = 1 };
        ck_assert_int_eq(kg_cpu_experts_linear(NULL, &args, &err), KG_ERR_RANGE);
        ck_assert_msg(strstr(err.message, "outside [0, 2)"), "'%s'", err.message);
        for (int j = 0; j < 4; j++) ck_assert_float_eq(y[j], 9);
    }
}

static void combine_case(struct kg_record *rec, const void *arg) {
    enum { TOKENS = 37, USED = 4, COLS = 77 };
    const bool in_place = arg != NULL;
    float *x = kg_filled((size_t)TOKENS * USED * COLS, kg_record_seed(rec)), *weights = kg_filled(TOKENS * USED, 3);
    float *residual = kg_filled(TOKENS * COLS, 4);
    double want[TOKENS * COLS];
    struct kg_error err;
    for (int with = 0; with < 2; with++) {
        for (size_t i = 0; i < TOKENS * COLS; i++) {
            long double sum = 0;
            for (size_t j = USED; j-- > 0;)
                sum += (long double)weights[i / COLS * USED + j] * x[(i / COLS * USED + j) * COLS + i % COLS];
            want[i] = (double)(sum + (with ? residual[i] : 0));
        }
        for (size_t p = 0; p < KG_COUNT_OF(KG_POOL_SIZES); p++) {
            struct kg_thread_pool *pool = kg_pool_of(KG_POOL_SIZES[p]);
            struct kg_guarded y;
            kg_guarded_init(&y, TOKENS * COLS);
            if (in_place) memcpy(y.data, residual, TOKENS * COLS * sizeof *residual);
            const struct kg_experts_combine_args args = { .x = x,
                                                          .weights = weights,
                                                          .residual = with ? in_place ? y.data : residual : NULL,
                                                          .y = y.data,
                                                          .n_rows = TOKENS,
                                                          .n_used = USED,
                                                          .n_cols = COLS };
            kg_must(kg_cpu_experts_combine(pool, &args, &err), &err);
            kg_guarded_expect_written(&y, "y");
            kg_expect_close_f64(rec, "y", y.data, want, TOKENS * COLS, &KG_ONE_ROUNDING);
            kg_guarded_free(&y);
            kg_thread_pool_destroy(pool);
        }
    }
    free(residual);
    free(weights);
    free(x);
}

static void refused(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    float x[8] = { 0 }, y[8];
    int32_t ids[4];
    struct kg_error err;
    const struct kg_router_args router = {
        .logits = x, .ids = ids, .weights = y, .n_rows = 1, .n_experts = 4, .n_used = 2
    };
    struct kg_router_args routers[] = { router, router, router, router, router };
    routers[0].weights = NULL;
    routers[1].n_used = 5;
    routers[2].n_used = 0;
    routers[3].n_experts = 0;
    routers[4].n_experts = KG_ROUTER_MAX_EXPERTS + 1;
    ck_assert_int_eq(kg_router_check(&router, &err), KG_OK);
    for (size_t i = 0; i < KG_COUNT_OF(routers); i++)
        ck_assert_int_eq(kg_router_check(&routers[i], &err), KG_ERR_USAGE);

    const struct kg_experts_linear_args linear = {
        .x = x, .weight = { x, KG_DTYPE_F32, 4, 2 }, .n_experts = 2, .ids = ids, .y = y, .n_rows = 4, .n_sharing = 2
    };
    struct kg_experts_linear_args linears[] = { linear, linear, linear, linear, linear, linear };
    linears[0].n_experts = 3;
    linears[1].n_experts = 0;
    linears[2].n_sharing = 3;
    linears[3].n_sharing = 0;
    linears[4].weight.dtype = KG_DTYPE_MXFP4;
    linears[5].y = x;
    ck_assert_int_eq(kg_experts_linear_check(&linear, &err), KG_OK);
    for (size_t i = 0; i < KG_COUNT_OF(linears); i++)
        ck_assert_int_eq(kg_experts_linear_check(&linears[i], &err), KG_ERR_USAGE);

    const struct kg_experts_combine_args combine = {
        .x = x, .weights = x, .y = y, .n_rows = 1, .n_used = 2, .n_cols = 4
    };
    struct kg_experts_combine_args combines[] = { combine, combine, combine, combine };
    combines[0].weights = NULL;
    combines[1].n_used = 0;
    combines[2].n_cols = 0;
    combines[3].y = x;
    ck_assert_int_eq(kg_experts_combine_check(&combine, &err), KG_OK);
    for (size_t i = 0; i < KG_COUNT_OF(combines); i++)
        ck_assert_int_eq(kg_experts_combine_check(&combines[i], &err), KG_ERR_USAGE);
}

static const struct kg_case CASES[] = {
    { .op = "router", .name = "softmax_over_the_chosen", .run = softmax_over_the_chosen },
    { .op = "router", .name = "equal_logits_take_the_lower_expert", .run = equal_logits_take_the_lower_expert },
    { .op = "router", .name = "one_of_one", .run = one_of_one },
    { .op = "router", .name = "huge_logits", .run = huge_logits },
    { .op = "router", .name = "bad_logits_are_seen", .run = bad_logits_are_seen },
    { .op = "experts_linear", .name = "ids_outside_are_refused", .run = ids_outside_are_refused },
    { .op = "experts_combine", .name = "rows", .run = combine_case },
    { .op = "experts_combine", .name = "in_place", .run = combine_case, .arg = "in place" },
    { .op = "experts", .name = "refused_parameters", .run = refused },
};

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) {
        struct kg_case c = CASES[i];
        c.layer = "unit";
        c.backend = "cpu";
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(SHAPES); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "experts_linear",
                                                  .name = SHAPES[i].name,
                                                  .backend = "cpu",
                                                  .dtype = kg_dtype_info(SHAPES[i].dtype)->name,
                                                  .shape = SHAPES[i].shape,
                                                  .definition = "against long double; 1, 2, 3, 7 threads",
                                                  .run = experts_case,
                                                  .arg = &SHAPES[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
