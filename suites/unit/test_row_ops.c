/* The references of the operations on rows by themselves (rope, norms, activations, softmax, add) at their edges,
 * against loops of another form in long double, on any number of threads. */
#include "ops/add.h"
#include "ops/gelu.h"
#include "ops/layernorm.h"
#include "ops/rmsnorm.h"
#include "ops/rope.h"
#include "ops/softmax.h"
#include "ops/swiglu.h"
#include "suites/unit/ops_shared.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct rope_shape {
    const char *name, *shape;
    uint32_t n_rows, n_heads, head_dim, n_rot, position;
    enum kg_rope_pairing pairing;
    float base, scale;
    bool factors, in_place;
    float magnitude;
};
static const struct rope_shape ROPES[] = {
    { "half_at_one", "rows=1 heads=2 dim=8 rot=8", 1, 2, 8, 8, 1, KG_ROPE_HALF, 10000, 1, false, false, 1 },
    { "interleaved_at_one", "rows=1 heads=2 dim=8 rot=8", 1, 2, 8, 8, 1, KG_ROPE_INTERLEAVED, 10000, 1, false, false,
      1 },
    { "half_part_of_head", "rows=9 heads=3 dim=96 rot=48", 9, 3, 96, 48, 77, KG_ROPE_HALF, 1e6f, 1, false, false, 1 },
    { "interleaved_part_in_place", "rows=9 heads=3 dim=80 rot=20", 9, 3, 80, 20, 5, KG_ROPE_INTERLEAVED, 1e4f, 1, false,
      true, 1 },
    { "half_in_place_with_factors", "rows=5 heads=2 dim=64 rot=64", 5, 2, 64, 64, 4095, KG_ROPE_HALF, 5e5f, 1, true,
      true, 1 },
    { "magnitude_part_of_head", "rows=5 heads=2 dim=80 rot=64", 5, 2, 80, 64, 4095, KG_ROPE_HALF, 1.5e5f, 1, true,
      false, 1.3465736f },
    { "magnitude_interleaved", "rows=3 heads=2 dim=8 rot=8", 3, 2, 8, 8, 1, KG_ROPE_INTERLEAVED, 1e4f, 1, false, true,
      0.75f },
    { "linear_scaling", "rows=4 heads=1 dim=128 rot=128", 4, 1, 128, 128, 1000, KG_ROPE_INTERLEAVED, 1e4f, .25f, false,
      false, 1 },
    { "two_dims", "rows=70 heads=1 dim=2 rot=2", 70, 1, 2, 2, 0, KG_ROPE_HALF, 1e4f, 1, false, false, 1 },
    { "nothing_turns", "rows=2 heads=2 dim=6 rot=0", 2, 2, 6, 0, 3, KG_ROPE_HALF, 1e4f, 1, false, false, 2 },
};

/* Each dim by its own: which pair it is of and which side, as complex multiplication by e^(i angle). */
static double rope_naive(const struct rope_shape *s, const float *head, const float *factors, size_t row, size_t d) {
    const size_t half = s->n_rot / 2;
    if (half == 0 || d >= s->n_rot) return head[d];
    const bool is_half = s->pairing == KG_ROPE_HALF;
    const size_t pair = is_half ? d % half : d / 2;
    const bool second = is_half ? d >= half : d % 2 == 1;
    const size_t partner = is_half ? (second ? d - half : d + half) : d ^ 1;
    long double angle = (long double)(s->position + row) * s->scale / (s->factors ? factors[pair] : 1.0f);
    angle *= expl(-logl(s->base) * 2 * (long double)pair / s->n_rot);
    const long double other = second ? head[partner] : -head[partner];
    return (double)((head[d] * cosl(angle) + other * sinl(angle)) * s->magnitude);
}

static void rope_case(struct kg_record *rec, const void *arg) {
    const struct rope_shape *s = arg;
    const size_t n = (size_t)s->n_rows * s->n_heads * s->head_dim;
    float *x = kg_filled(n, kg_record_seed(rec)), *factors = kg_filled(s->n_rot / 2, kg_record_seed(rec) + 1);
    for (size_t i = 0; i < s->n_rot / 2; i++) factors[i] = 1 + fabsf(factors[i]);
    double *want = kg_xmalloc(n * sizeof *want);
    for (size_t i = 0; i < n; i++)
        want[i] =
            rope_naive(s, x + i / s->head_dim * s->head_dim, factors, i / s->head_dim / s->n_heads, i % s->head_dim);
    for (size_t p = 0; p < KG_COUNT_OF(KG_POOL_SIZES); p++) {
        struct kg_thread_pool *pool = kg_pool_of(KG_POOL_SIZES[p]);
        struct kg_guarded y;
        struct kg_error err;
        kg_guarded_init(&y, n);
        if (s->in_place) memcpy(y.data, x, n * sizeof *x);
        const struct kg_rope_args args = { .x = s->in_place ? y.data : x,
                                           .y = y.data,
                                           .n_rows = s->n_rows,
                                           .n_heads = s->n_heads,
                                           .head_dim = s->head_dim,
                                           .position = s->position,
                                           .n_rot = s->n_rot,
                                           .pairing = s->pairing,
                                           .freq_base = s->base,
                                           .freq_scale = s->scale,
                                           .freq_factors = s->factors ? factors : NULL,
                                           .magnitude = s->magnitude };
        kg_must(kg_cpu_rope(pool, &args, &err), &err);
        kg_guarded_expect_written(&y, "y");
        kg_expect_close_f64(rec, "y", y.data, want, n, &KG_ONE_ROUNDING);
        kg_guarded_free(&y);
        kg_thread_pool_destroy(pool);
    }
    free(want);
    free(factors);
    free(x);
}

struct row_shape {
    const char *name, *shape;
    uint32_t n_rows, n_cols;
};
static const struct row_shape ROWS[] = {
    { "one_element", "rows=1 cols=1", 1, 1 },       { "partial_vector", "rows=3 cols=7", 3, 7 },
    { "one_vector", "rows=1 cols=8", 1, 8 },        { "vector_and_one", "rows=2 cols=9", 2, 9 },
    { "many_rows", "rows=1000 cols=65", 1000, 65 }, { "one_long_row", "rows=1 cols=100001", 1, 100001 },
};

static const float SOFTMAX_SCALE = 0.75f;

/* Within the inputs, so that both sides of every clamp are met. */
static const float SWIGLU_LIMIT = 0.5f, SWIGLU_ALPHA = 1.702f, SWIGLU_OFFSET = 1;

/* alpha and cube of gelu's tanh form. */
static const float GEGLU_ALPHA = 1.5957691f, GEGLU_CUBIC = 0.044715f;

enum row_op { RMSNORM, SWIGLU, SWIGLU_CLAMPED, GEGLU, ADD, LAYERNORM, GELU, GELU_ERF, SOFTMAX };

static enum kg_status run_row_op(enum row_op op, struct kg_thread_pool *pool, const struct row_shape *s, const float *a,
                                 const float *b, float *y, struct kg_error *err) {
    const struct kg_rmsnorm_args norm = {
        .x = a, .weight = b, .y = y, .n_rows = s->n_rows, .n_cols = s->n_cols, .eps = 1e-2f
    };
    const struct kg_swiglu_args swiglu = {
        .gate = a, .up = b, .y = y, .n_rows = s->n_rows, .n_cols = s->n_cols, .alpha = 1
    };
    const struct kg_swiglu_args clamped = { .gate = a,
                                            .up = b,
                                            .y = y,
                                            .n_rows = s->n_rows,
                                            .n_cols = s->n_cols,
                                            .limit = SWIGLU_LIMIT,
                                            .alpha = SWIGLU_ALPHA,
                                            .up_offset = SWIGLU_OFFSET };
    const struct kg_swiglu_args geglu = {
        .gate = a, .up = b, .y = y, .n_rows = s->n_rows, .n_cols = s->n_cols, .alpha = GEGLU_ALPHA, .cubic = GEGLU_CUBIC
    };
    const struct kg_add_args add = { .a = a, .b = b, .y = y, .n_rows = s->n_rows, .n_cols = s->n_cols };
    const struct kg_layernorm_args layernorm = {
        .x = a, .weight = b, .bias = b, .y = y, .n_rows = s->n_rows, .n_cols = s->n_cols, .eps = 1e-2f
    };
    const struct kg_gelu_args gelu = {
        .x = a, .y = y, .n_rows = s->n_rows, .n_cols = s->n_cols, .form = op == GELU ? KG_GELU_TANH : KG_GELU_ERF
    };
    const struct kg_softmax_args softmax = {
        .x = a, .y = y, .n_rows = s->n_rows, .n_cols = s->n_cols, .scale = SOFTMAX_SCALE
    };
    switch (op) {
    case RMSNORM: return kg_cpu_rmsnorm(pool, &norm, err);
    case SWIGLU: return kg_cpu_swiglu(pool, &swiglu, err);
    case SWIGLU_CLAMPED: return kg_cpu_swiglu(pool, &clamped, err);
    case GEGLU: return kg_cpu_swiglu(pool, &geglu, err);
    case LAYERNORM: return kg_cpu_layernorm(pool, &layernorm, err);
    case GELU:
    case GELU_ERF: return kg_cpu_gelu(pool, &gelu, err);
    case SOFTMAX: return kg_cpu_softmax(pool, &softmax, err);
    default: return kg_cpu_add(pool, &add, err);
    }
}

/* One row, its sums from the end. */
static void row_naive(enum row_op op, size_t n, const float *a, const float *b, double *want) {
    long double squares = 0, sum = 0, rest = 0, weights = 0;
    for (size_t j = n; j-- > 0;) squares += (long double)a[j] * a[j], sum += a[j];
    const long double norm = sqrtl(squares / (long double)n + 1e-2f), mean = sum / (long double)n;
    for (size_t j = n; j-- > 0;)
        rest += (a[j] - mean) * (a[j] - mean), weights += expl(SOFTMAX_SCALE * (long double)a[j]);
    const long double deviation = sqrtl(rest / (long double)n + 1e-2f);
    for (size_t i = 0; i < n; i++) {
        if (op == RMSNORM) want[i] = (double)((long double)a[i] * b[i] / norm);
        if (op == SWIGLU) want[i] = (double)((long double)a[i] * b[i] / (1 + expl(-(long double)a[i])));
        if (op == SWIGLU_CLAMPED) {
            const long double g = a[i] < SWIGLU_LIMIT ? a[i] : SWIGLU_LIMIT;
            const long double u = fmaxl(fminl(b[i], SWIGLU_LIMIT), -SWIGLU_LIMIT) + SWIGLU_OFFSET;
            want[i] = (double)(g * u / (1 + expl(-SWIGLU_ALPHA * g)));
        }
        if (op == GEGLU) {
            const long double x = a[i], u = sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x);
            want[i] = (double)(x / 2 * (1 + tanhl(u)) * b[i]);
        }
        if (op == ADD) want[i] = (double)a[i] + (double)b[i];
        if (op == LAYERNORM) want[i] = (double)((a[i] - mean) / deviation * b[i] + b[i]);
        if (op == GELU) {
            const long double x = a[i], u = sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x);
            want[i] = (double)(x / 2 * (1 + tanhl(u)));
        }
        if (op == GELU_ERF) want[i] = (double)((long double)a[i] / 2 * (1 + erfl(a[i] / sqrtl(2))));
        if (op == SOFTMAX) want[i] = (double)(expl(SOFTMAX_SCALE * (long double)a[i]) / weights);
    }
}

static void row_case(enum row_op op, struct kg_record *rec, const struct row_shape *s) {
    const bool is_norm = op == RMSNORM || op == LAYERNORM;
    const size_t n = (size_t)s->n_rows * s->n_cols;
    float *a = kg_filled(n, kg_record_seed(rec)), *b = kg_filled(n, kg_record_seed(rec) + 1);
    double *want = kg_xmalloc(n * sizeof *want);
    for (size_t r = 0; r < s->n_rows; r++) /* a norm's weight is the same for all rows */
        row_naive(op, s->n_cols, a + r * s->n_cols, is_norm ? b : b + r * s->n_cols, want + r * s->n_cols);
    for (size_t p = 0; p < 2 * KG_COUNT_OF(KG_POOL_SIZES); p++) {
        const bool in_place = p % 2 == 1; /* y is the first input */
        struct kg_thread_pool *pool = kg_pool_of(KG_POOL_SIZES[p / 2]);
        struct kg_guarded y;
        struct kg_error err;
        kg_guarded_init(&y, n);
        if (in_place) memcpy(y.data, a, n * sizeof *a);
        kg_must(run_row_op(op, pool, s, in_place ? y.data : a, b, y.data, &err), &err);
        kg_guarded_expect_written(&y, "y");
        kg_expect_close_f64(rec, in_place ? "y_in_place" : "y", y.data, want, n, &KG_ONE_ROUNDING);
        kg_guarded_free(&y);
        kg_thread_pool_destroy(pool);
    }
    free(want);
    free(b);
    free(a);
}

static void rmsnorm_case(struct kg_record *rec, const void *arg) {
    row_case(RMSNORM, rec, arg);
}
static void swiglu_case(struct kg_record *rec, const void *arg) {
    row_case(SWIGLU, rec, arg);
}
static void swiglu_clamped_case(struct kg_record *rec, const void *arg) {
    row_case(SWIGLU_CLAMPED, rec, arg);
}
static void geglu_case(struct kg_record *rec, const void *arg) {
    row_case(GEGLU, rec, arg);
}
static void add_case(struct kg_record *rec, const void *arg) {
    row_case(ADD, rec, arg);
}
static void layernorm_case(struct kg_record *rec, const void *arg) {
    row_case(LAYERNORM, rec, arg);
}
static void gelu_case(struct kg_record *rec, const void *arg) {
    row_case(GELU, rec, arg);
}
static void gelu_erf_case(struct kg_record *rec, const void *arg) {
    row_case(GELU_ERF, rec, arg);
}
static void softmax_case(struct kg_record *rec, const void *arg) {
    row_case(SOFTMAX, rec, arg);
}

static const struct {
    const char *op, *prefix; /* of the name */
    void (*run)(struct kg_record *rec, const void *arg);
} ROW_OPS[] = {
    { "rmsnorm", "", rmsnorm_case },   { "swiglu", "", swiglu_case },
    { "add", "", add_case },           { "layernorm", "", layernorm_case },
    { "gelu", "", gelu_case },         { "gelu", "erf_", gelu_erf_case },
    { "softmax", "", softmax_case },   { "swiglu", "clamped_", swiglu_clamped_case },
    { "swiglu", "gelu_", geglu_case },
};

/* Zeros have no direction: a row of zeros stays zero through eps, without a division by zero. */
static void rmsnorm_of_zeros(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float x[3] = { 0 }, weight[3] = { 1, 2, 3 };
    float y[3] = { 7, 7, 7 };
    struct kg_error err;
    const struct kg_rmsnorm_args args = { .x = x, .weight = weight, .y = y, .n_rows = 1, .n_cols = 3, .eps = 1e-6f };
    kg_must(kg_cpu_rmsnorm(NULL, &args, &err), &err);
    for (int i = 0; i < 3; i++) ck_assert_float_eq(y[i], 0);
}

static void swiglu_saturates(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float gate[] = { 1000, -1000, -88, 0 }, up[] = { 2, 2, 1, 5 };
    float y[4];
    struct kg_error err;
    const struct kg_swiglu_args args = { .gate = gate, .up = up, .y = y, .n_rows = 1, .n_cols = 4, .alpha = 1 };
    kg_must(kg_cpu_swiglu(NULL, &args, &err), &err);
    ck_assert_float_eq(y[0], 2000);
    ck_assert_float_eq(y[1], 0);
    ck_assert(y[2] < 0 && y[2] > -1e-30f);
    ck_assert_float_eq(y[3], 0);
}

/* Elements that are all the same leave the bias, however large they are, and without one nothing. */
static void layernorm_of_equal_elements(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float x[6] = { 0, 0, 0, 3e7f, 3e7f, 3e7f }, weight[3] = { 1, 2, 3 }, bias[3] = { -4, 0.25f, 6 };
    struct kg_error err;
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        float y[6] = { 7, 7, 7, 7, 7, 7 };
        const struct kg_layernorm_args args = {
            .x = x, .weight = weight, .bias = with_bias ? bias : NULL, .y = y, .n_rows = 2, .n_cols = 3, .eps = 1e-5f
        };
        kg_must(kg_cpu_layernorm(NULL, &args, &err), &err);
        for (int i = 0; i < 6; i++) ck_assert_float_eq(y[i], with_bias ? bias[i % 3] : 0);
    }
}

/* The variance is of n, not n - 1: {-1, 1} has 1. */
static void layernorm_divides_by_n(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float x[2] = { 9, 11 }, weight[2] = { 1, 5 }, bias[2] = { 0.5f, 0.5f };
    float y[2];
    struct kg_error err;
    const struct kg_layernorm_args args = { .x = x, .weight = weight, .bias = bias, .y = y, .n_rows = 1, .n_cols = 2 };
    kg_must(kg_cpu_layernorm(NULL, &args, &err), &err);
    ck_assert_float_eq(y[0], -0.5f);
    ck_assert_float_eq(y[1], 5.5f);
}

/* One element that is not a number is seen in all of its row and in no other. */
static void nan_stays_in_its_row(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    static const float BAD[] = { NAN, INFINITY };
    const float weight[3] = { 1, 2, 3 };
    struct kg_error err;
    for (size_t b = 0; b < KG_COUNT_OF(BAD); b++) {
        const float x[6] = { -INFINITY, BAD[b], 1, 1, 2, 3 };
        float y[6] = { 0 }, z[6] = { 0 };
        const struct kg_layernorm_args norm = {
            .x = x, .weight = weight, .y = y, .n_rows = 2, .n_cols = 3, .eps = 1e-5f
        };
        const struct kg_softmax_args softmax = { .x = x, .y = z, .n_rows = 2, .n_cols = 3, .scale = 1 };
        kg_must(kg_cpu_layernorm(NULL, &norm, &err), &err);
        kg_must(kg_cpu_softmax(NULL, &softmax, &err), &err);
        for (int i = 0; i < 6; i++) {
            ck_assert_int_eq(isnan(y[i]) != 0, i < 3);
            ck_assert_int_eq(isnan(z[i]) != 0, i < 3);
        }
    }
}

static void gelu_saturates(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    static const enum kg_gelu_form FORMS[] = { KG_GELU_TANH, KG_GELU_ERF };
    const float x[] = { 3e38f, -3e38f, 40, -40, 0 };
    struct kg_error err;
    for (size_t f = 0; f < KG_COUNT_OF(FORMS); f++) {
        float y[5];
        const struct kg_gelu_args args = { .x = x, .y = y, .n_rows = 1, .n_cols = 5, .form = FORMS[f] };
        kg_must(kg_cpu_gelu(NULL, &args, &err), &err);
        for (int i = 0; i < 5; i++) ck_assert_float_eq(y[i], x[i] > 0 ? x[i] : 0);
    }
}

/* Digits of values that a difference from 1 would have lost. */
static void gelu_keeps_small_results(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float x[] = { -6 };
    float tanh_y = NAN, erf_y = NAN;
    struct kg_error err;
    struct kg_gelu_args args = { .x = x, .y = &tanh_y, .n_rows = 1, .n_cols = 1, .form = KG_GELU_TANH };
    kg_must(kg_cpu_gelu(NULL, &args, &err), &err);
    args.y = &erf_y, args.form = KG_GELU_ERF;
    kg_must(kg_cpu_gelu(NULL, &args, &err), &err);
    ck_assert_float_eq_tol(erf_y / -5.91953e-9f, 1, 1e-5f);
    ck_assert_float_eq_tol(tanh_y / -8.439647e-11f, 1, 1e-5f);
}

/* The most that the forms differ by, where the header says. */
static void gelu_forms_differ(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    enum { N = 1201 };
    float x[N], y[N] = { 0 }, z[N] = { 0 }, most = 0, at = 0;
    struct kg_error err;
    for (int i = 0; i < N; i++) x[i] = (float)(i - 600) / 100;
    struct kg_gelu_args args = { .x = x, .y = y, .n_rows = 1, .n_cols = N, .form = KG_GELU_TANH };
    kg_must(kg_cpu_gelu(NULL, &args, &err), &err);
    args.y = z, args.form = KG_GELU_ERF;
    kg_must(kg_cpu_gelu(NULL, &args, &err), &err);
    for (int i = 0; i < N; i++)
        if (fabsf(y[i] - z[i]) > most) most = fabsf(y[i] - z[i]), at = fabsf(x[i]);
    ck_assert_float_eq_tol(most, 4.732e-4f, 1e-6f);
    ck_assert_float_eq_tol(at, 2.7f, 0.015f);
}

/* Masked elements are exact zeros and weigh nothing; a row that is all masked is zeros. */
static void softmax_masks(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float m = -INFINITY, x[] = { m, 5, m, 5, m, m, m, m, m, m, m, -3e38f };
    const float want[] = { 0, 0.5f, 0, 0.5f, 0, 0, 0, 0, 0, 0, 0, 1 };
    float y[12];
    struct kg_error err;
    const struct kg_softmax_args args = { .x = x, .y = y, .n_rows = 3, .n_cols = 4, .scale = 0.125f };
    kg_must(kg_cpu_softmax(NULL, &args, &err), &err);
    for (int i = 0; i < 12; i++) ck_assert_float_eq(y[i], want[i]);
}

static void softmax_of_huge_logits(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float x[] = { 3e38f, -3e38f, 3e38f, 0, -3e38f, -3e38f, -3e38f, -3e38f };
    const float want[] = { 0.5f, 0, 0.5f, 0, 0.25f, 0.25f, 0.25f, 0.25f };
    float y[8];
    struct kg_error err;
    const struct kg_softmax_args args = { .x = x, .y = y, .n_rows = 2, .n_cols = 4, .scale = 100 };
    kg_must(kg_cpu_softmax(NULL, &args, &err), &err);
    for (int i = 0; i < 8; i++) ck_assert_float_eq(y[i], want[i]);
}

static const struct kg_case EDGES[] = {
    { .op = "rmsnorm", .name = "zeros", .run = rmsnorm_of_zeros },
    { .op = "swiglu", .name = "saturates", .run = swiglu_saturates },
    { .op = "layernorm", .name = "equal_elements", .run = layernorm_of_equal_elements },
    { .op = "layernorm", .name = "variance_of_n", .run = layernorm_divides_by_n },
    { .op = "ops", .name = "nan_stays_in_its_row", .run = nan_stays_in_its_row },
    { .op = "gelu", .name = "saturates", .run = gelu_saturates },
    { .op = "gelu", .name = "small_results", .run = gelu_keeps_small_results },
    { .op = "gelu", .name = "forms_differ", .run = gelu_forms_differ },
    { .op = "softmax", .name = "masks", .run = softmax_masks },
    { .op = "softmax", .name = "huge_logits", .run = softmax_of_huge_logits },
};

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(ROPES); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "rope",
                                                  .name = ROPES[i].name,
                                                  .backend = "cpu",
                                                  .dtype = "f32",
                                                  .shape = ROPES[i].shape,
                                                  .definition = "against long double; 1, 2, 3, 7 threads; rows alone",
                                                  .run = rope_case,
                                                  .arg = &ROPES[i] });
    for (size_t o = 0; o < KG_COUNT_OF(ROW_OPS); o++)
        for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
            char *name = kg_xasprintf("%s%s", ROW_OPS[o].prefix, ROWS[i].name);
            kg_case_list_add(list,
                             &(struct kg_case){ .layer = "unit",
                                                .op = ROW_OPS[o].op,
                                                .name = name,
                                                .backend = "cpu",
                                                .dtype = "f32",
                                                .shape = ROWS[i].shape,
                                                .definition = "against long double; 1, 2, 3, 7 threads; rows alone",
                                                .run = ROW_OPS[o].run,
                                                .arg = &ROWS[i] });
            free(name);
        }
    for (size_t i = 0; i < KG_COUNT_OF(EDGES); i++) {
        struct kg_case edge = EDGES[i];
        edge.layer = "unit";
        edge.backend = "cpu";
        kg_case_list_add(list, &edge);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
