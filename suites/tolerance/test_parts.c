/* Parts of phi3, gpt-oss and gpt2 that the goldens of fixtures/ops do not reach, on every back end, each element
 * against the cpu reference in double from the same rounded inputs: the router's choices, experts and positions of
 * every format, a float32 residual stream beside float16 activations. */
#include "base/buffer.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/support/op_cases.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct mode {
    const char *backend, *dtype;
    enum kg_precision activations;
} MODES[] = {
    { "cpu", "f32", KG_PRECISION_F32 },
    { "cuda", "f32", KG_PRECISION_F32 },
    { "cuda", "f16", KG_PRECISION_F16 },
};

struct parts_case {
    const struct mode *mode;
    enum kg_dtype dtype;
};

/* Normal numbers that the precision holds, valid until the device is closed. */
static const float *numbers(struct kg_op_device *d, size_t n, uint64_t seed, double deviation,
                            enum kg_precision precision) {
    float *x = kg_op_device_own(d, kg_xcalloc(n, sizeof *x));
    kg_fill_normal(x, n, seed, 0, deviation);
    return kg_op_device_rounded(d, x, n, precision);
}

static float *room(struct kg_op_device *d, size_t n) {
    return kg_op_device_own(d, kg_xcalloc(n, sizeof(float)));
}

static const char SUM_OF_TWO[] = "one rounding of the sum";

/* y[i] within rel |want[i]| + unit[i] (NULL: 0), and one rounding where y is float16. */
static void judge(struct kg_record *rec, const char *name, const struct kg_op_output *y, const float *want,
                  const double *unit, double rel, const char *why) {
    const size_t n = y->host.n;
    const bool half = y->precision == KG_PRECISION_F16;
    float *got = kg_xcalloc(n, sizeof *got);
    double *zero = kg_xcalloc(n, sizeof *zero);
    for (size_t i = 0; i < n; i++) {
        const double size = fabs((double)want[i]), sums = size * (rel + KG_ROUNDOFF) + (unit ? unit[i] : 0) + 0x1p-120;
        const double limit = sums + (half ? KG_ROUNDOFF_F16 * size + KG_ROUNDOFF_F16_ABS : 0);
        got[i] = (float)(((double)y->host.data[i] - (double)want[i]) / limit);
    }
    const char *far =
        why == SUM_OF_TWO ? "one rounding is one number; without a limit nothing could be judged" : kg_far_on_cpu(rec);
    const struct kg_tolerance tol = { .max_abs = 1, .why = why, .far = far };
    kg_expect_close_f64(rec, name, got, zero, n, &tol);
    free(zero);
    free(got);
}

/* Logits of which many are equal, and a row that is not finite. */
static void router(struct kg_record *rec, const void *arg) {
    static const struct {
        uint32_t n_rows, n_experts, n_used;
    } SHAPES[] = { { 1, 32, 4 }, { 67, 32, 4 }, { 5, 6, 6 }, { 9, 1, 1 }, { 33, 1000, 37 }, { 3, 1024, 1024 } };
    const struct parts_case *c = arg;
    struct kg_op_device d;
    struct kg_error err;
    if (!kg_op_device_open(rec, c->mode->backend, NULL, &d)) return;
    for (size_t s = 0; s < KG_COUNT_OF(SHAPES); s++) {
        const uint32_t rows = SHAPES[s].n_rows, n = SHAPES[s].n_experts, k = SHAPES[s].n_used;
        float *logits = room(&d, (size_t)rows * n), *want = room(&d, (size_t)rows * k);
        int32_t *ids = kg_xcalloc((size_t)rows * k, sizeof *ids), *want_ids = kg_xcalloc((size_t)rows * k, sizeof *ids);
        kg_fill_normal(logits, (size_t)rows * n, kg_record_seed(rec) + s, 0, 2);
        for (size_t i = 0; i < (size_t)rows * n; i += 3) logits[i] = (float)(int)logits[i]; /* equal ones */
        const bool has_bad = rows > 1;
        if (has_bad) logits[n / 2] = s % 2 ? NAN : INFINITY;
        struct kg_op_output y;
        kg_op_output_init(&d, &y, (size_t)rows * k, KG_PRECISION_F32);
        int32_t *put = kg_op_device_put(&d, ids, (size_t)rows * k * sizeof *ids);
        struct kg_router_args args = { .logits = kg_op_device_put(&d, logits, (size_t)rows * n * sizeof *logits),
                                       .ids = put,
                                       .weights = y.y,
                                       .n_rows = rows,
                                       .n_experts = n,
                                       .n_used = k };
        kg_op_expect_ok(d.backend->ops->router(d.backend, &args, &err), &err);
        kg_op_output_read(&d, &y);
        kg_op_expect_ok(d.backend->ops->download(d.backend, ids, put, (size_t)rows * k * sizeof *ids, &err), &err);
        args = (struct kg_router_args){ logits, want_ids, want, rows, n, k };
        kg_op_expect_ok(kg_cpu_router(NULL, &args, &err), &err);
        bool *seen = kg_xcalloc(n, sizeof *seen);
        for (size_t i = 0; i < (size_t)rows * k; i++) {
            const bool bad = has_bad && i < k;
            ck_assert_msg(ids[i] >= 0 && (uint32_t)ids[i] < n, "row %zu: expert %d of %u", i / k, ids[i], n);
            if (bad) {
                ck_assert_msg(!seen[ids[i]] && isnan(y.host.data[i]), "a bad row: expert %d, weight %g", ids[i],
                              (double)y.host.data[i]);
                seen[ids[i]] = true;
                y.host.data[i] = want[i] = 0;
                continue;
            }
            ck_assert_msg(ids[i] == want_ids[i], "row %zu, choice %zu: expert %d, not %d", i / k, i % k, ids[i],
                          want_ids[i]);
        }
        judge(rec, "weights", &y, want, NULL, (log2(k) + 40) * KG_ROUNDOFF,
              "an exponential of a difference of up to 16, a float32 sum of k, a quotient");
        free(seen);
        kg_op_output_free(&y);
        free(want_ids);
        free(ids);
        kg_op_device_clear(&d);
    }
    kg_op_device_close(&d);
}

/* A weight in the device's memory: normal numbers as the format holds them, or float16-scaled blocks of any bytes. */
static struct kg_weight weight_of(struct kg_op_device *d, enum kg_dtype dtype, uint32_t n_rows, uint32_t n_cols,
                                  uint64_t seed, float **values) {
    const struct kg_dtype_info *info = kg_dtype_info(dtype);
    struct kg_weight w = { .dtype = dtype, .n_rows = n_rows, .n_cols = n_cols };
    const size_t n = (size_t)n_rows * n_cols, size_bytes = n_rows * kg_weight_row_bytes(&w);
    uint8_t *bytes = kg_xcalloc(1, size_bytes);
    *values = room(d, n);
    kg_fill_normal(*values, n, seed, 0, 1);
    info->encode(*values, bytes, n);
    info->decode(bytes, *values, n);
    w.data = kg_op_device_put(d, bytes, size_bytes);
    free(bytes);
    return w;
}

static void experts_linear(struct kg_record *rec, const void *arg) {
    static const struct {
        uint32_t n_tokens, n_used, n_experts, n_out, n_in;
        bool shares, bias, wide;
    } SHAPES[] = {
        { 1, 4, 32, 65, 512, true, true, false }, { 1, 4, 32, 67, 256, false, true, true },
        { 7, 2, 4, 33, 512, true, false, true },  { 40, 3, 5, 64, 256, false, true, false },
        { 3, 1, 1, 1, 256, false, false, false }, { 13109, 5, 2, 1, 32, true, true, true }, /* rows past 65535 */
    };
    const struct parts_case *c = arg;
    struct kg_op_device d;
    struct kg_error err;
    if (!kg_op_device_open(rec, c->mode->backend, NULL, &d)) return;
    for (size_t s = 0; s < KG_COUNT_OF(SHAPES); s++) {
        const uint32_t rows = SHAPES[s].n_tokens * SHAPES[s].n_used, n_in = SHAPES[s].n_in, n_out = SHAPES[s].n_out;
        const uint32_t sharing = SHAPES[s].shares ? SHAPES[s].n_used : 1, n_experts = SHAPES[s].n_experts;
        const uint64_t seed = kg_record_seed(rec) + 10 * s;
        const size_t n_x = (size_t)(rows / sharing) * n_in, n_y = (size_t)rows * n_out;
        const float *x = numbers(&d, n_x, seed, 1, c->mode->activations);
        const float *bias =
            SHAPES[s].bias ? numbers(&d, (size_t)n_experts * n_out, seed + 1, 1, KG_PRECISION_F32) : NULL;
        float *values, *want = room(&d, n_y);
        const struct kg_weight w = weight_of(&d, c->dtype, n_experts * n_out, n_in, seed + 2, &values);
        int32_t *ids = kg_xcalloc(rows, sizeof *ids);
        for (uint32_t i = 0; i < rows; i++) ids[i] = (int32_t)((i * 7 + i / 3) % n_experts);
        kg_op_device_workspace(&d, rows, n_in > n_out ? n_in : n_out, 1, 1, 64, 64);
        struct kg_op_output y;
        kg_op_output_init(&d, &y, n_y, SHAPES[s].wide ? KG_PRECISION_F32 : c->mode->activations);
        struct kg_experts_linear_args args = {
            .activations = c->mode->activations,
            .x = kg_op_device_put_as(&d, x, n_x, c->mode->activations),
            .weight = w,
            .n_experts = n_experts,
            .bias = bias ? kg_op_device_put(&d, bias, (size_t)n_experts * n_out * sizeof *bias) : NULL,
            .ids = kg_op_device_put(&d, ids, rows * sizeof *ids),
            .y = y.y,
            .n_rows = rows,
            .n_sharing = sharing,
            .workspace = d.workspace,
            .wide_output = SHAPES[s].wide,
        };
        kg_op_expect_ok(d.backend->ops->experts_linear(d.backend, &args, &err), &err);
        kg_op_output_read_all(&d, &y, "experts_linear");
        args.activations = KG_PRECISION_F32;
        args.x = x, args.bias = bias, args.ids = ids, args.y = want;
        args.weight = (struct kg_weight){ values, KG_DTYPE_F32, n_experts * n_out, n_in };
        kg_op_expect_ok(kg_cpu_experts_linear(NULL, &args, &err), &err);
        double *unit = kg_xcalloc(n_y, sizeof *unit);
        for (size_t r = 0; r < rows; r++) {
            const size_t at = (size_t)ids[r] * n_out;
            double *row = kg_absolute_products(x + r / sharing * n_in, values + at * n_in, bias ? bias + at : NULL, 1,
                                               n_out, n_in);
            for (size_t o = 0; o < n_out; o++) unit[r * n_out + o] = row[o] * (8 + sqrt(n_in)) * KG_ROUNDOFF;
            free(row);
        }
        judge(rec, "experts_linear", &y, want, unit, 0,
              "(8 + sqrt K) 2^-24 sum|x w| for float32 sums of exact products, and one rounding of a float16 result");
        free(unit);
        kg_op_output_free(&y);
        free(ids);
        kg_op_device_clear(&d);
    }
    kg_op_device_close(&d);
}

/* Positions of one format, tokens of another: of each row the sum, rounded once. */
static void positions(struct kg_record *rec, const void *arg) {
    enum { VOCAB = 11, POSITIONS = 23, COLS = 256, PLAIN_COLS = 77, ROWS = 6 };
    static const enum kg_dtype TOKENS[] = { KG_DTYPE_F32, KG_DTYPE_F16, KG_DTYPE_MXFP4 };
    const struct parts_case *c = arg;
    struct kg_op_device d;
    struct kg_error err;
    if (!kg_op_device_open(rec, c->mode->backend, NULL, &d)) return;
    const bool plain = kg_dtype_info(c->dtype)->block_elems == 1;
    for (size_t t = 0; t < KG_COUNT_OF(TOKENS); t++) {
        const uint32_t cols = plain && TOKENS[t] != KG_DTYPE_MXFP4 ? PLAIN_COLS : COLS;
        const int32_t ids[ROWS] = { 3, 0, 10, 3, 7, 1 };
        float *tokens, *places, *want = room(&d, ROWS * COLS);
        struct kg_op_output y;
        kg_op_output_init(&d, &y, (size_t)ROWS * cols, c->mode->activations);
        struct kg_embedding_args args = {
            .activations = c->mode->activations,
            .weight = weight_of(&d, TOKENS[t], VOCAB, cols, kg_record_seed(rec) + t, &tokens),
            .ids = kg_op_device_put(&d, ids, sizeof ids),
            .n_rows = ROWS,
            .y = y.y,
            .positions = weight_of(&d, c->dtype, POSITIONS, cols, kg_record_seed(rec) + 10 + t, &places),
            .position = POSITIONS - ROWS,
        };
        kg_op_expect_ok(d.backend->ops->embedding(d.backend, &args, &err), &err);
        kg_op_output_read_all(&d, &y, "embedding");
        for (size_t i = 0; i < (size_t)ROWS * cols; i++)
            want[i] = tokens[(size_t)ids[i / cols] * cols + i % cols] + places[args.position * cols + i];
        judge(rec, "embedding", &y, want, NULL, 0, SUM_OF_TWO);
        kg_op_output_free(&y);
        kg_op_device_clear(&d);
    }
    kg_op_device_close(&d);
}

/* x beyond float16's largest, y within it. */
static void wide_norm(struct kg_record *rec, const void *arg) {
    static const uint32_t COLS[] = { 2880, 77, 8 };
    enum { ROWS = 5 };
    const struct parts_case *c = arg;
    struct kg_op_device d;
    struct kg_error err;
    if (!kg_op_device_open(rec, c->mode->backend, NULL, &d)) return;
    for (size_t s = 0; s < KG_COUNT_OF(COLS); s++) {
        const size_t n = (size_t)ROWS * COLS[s];
        const float *x = numbers(&d, n, kg_record_seed(rec) + s, 1e6, KG_PRECISION_F32);
        const float *weight = numbers(&d, COLS[s], kg_record_seed(rec) + 9 + s, 1, KG_PRECISION_F32);
        float *want = room(&d, n);
        struct kg_op_output y;
        kg_op_output_init(&d, &y, n, c->mode->activations);
        struct kg_rmsnorm_args args = { .activations = c->mode->activations,
                                        .x = kg_op_device_put(&d, x, n * sizeof *x),
                                        .weight = kg_op_device_put(&d, weight, COLS[s] * sizeof *weight),
                                        .y = y.y,
                                        .n_rows = ROWS,
                                        .n_cols = COLS[s],
                                        .eps = 1e-5f,
                                        .wide_input = true };
        kg_op_expect_ok(d.backend->ops->rmsnorm(d.backend, &args, &err), &err);
        kg_op_output_read_all(&d, &y, "rmsnorm");
        args.activations = KG_PRECISION_F32;
        args.x = x, args.weight = weight, args.y = want;
        kg_op_expect_ok(kg_cpu_rmsnorm(NULL, &args, &err), &err);
        judge(rec, "rmsnorm", &y, want, NULL, (log2(COLS[s]) + 6) * KG_ROUNDOFF,
              "a float32 tree sum of n squares, root, quotient and product, and one rounding to float16");
        kg_op_output_free(&y);
        kg_op_device_clear(&d);
    }
    kg_op_device_close(&d);
}

static struct parts_case parts_cases[128];
static size_t n_parts_cases;

static void add(struct kg_case_list *cases, const char *op, const char *name, const struct mode *mode,
                enum kg_dtype dtype, void (*run)(struct kg_record *, const void *)) {
    if (n_parts_cases == KG_COUNT_OF(parts_cases)) abort(); /* a case left out unseen would be a hole */
    parts_cases[n_parts_cases] = (struct parts_case){ mode, dtype };
    kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                               .op = op,
                                               .name = name,
                                               .backend = mode->backend,
                                               .dtype = mode->dtype,
                                               .run = run,
                                               .arg = &parts_cases[n_parts_cases++] });
}

static void build(struct kg_case_list *cases) {
    static const struct {
        const char *op, *name;
        void (*run)(struct kg_record *, const void *);
        bool float32_only;
    } PARTS[] = {
        { "router", "choices_and_weights", router, true },
        { "rmsnorm", "float32_input", wide_norm, false },
    };
    for (size_t m = 0; m < KG_COUNT_OF(MODES); m++) {
        for (size_t i = 0; i < KG_COUNT_OF(PARTS); i++)
            if (!PARTS[i].float32_only || MODES[m].activations == KG_PRECISION_F32)
                add(cases, PARTS[i].op, PARTS[i].name, &MODES[m], KG_DTYPE_F32, PARTS[i].run);
        for (int dtype = 0; dtype < KG_DTYPE_COUNT; dtype++) {
            char name[64];
            snprintf(name, sizeof name, "weights_of_%s", kg_dtype_info((enum kg_dtype)dtype)->name);
            for (char *ch = name; *ch; ch++) *ch = (char)(*ch >= 'A' && *ch <= 'Z' ? *ch + 'a' - 'A' : *ch);
            if (kg_dtype_info((enum kg_dtype)dtype)->block_elems <= 32) /* its rows are no whole blocks of others */
                add(cases, "experts_linear", name, &MODES[m], (enum kg_dtype)dtype, experts_linear);
            snprintf(name, sizeof name, "positions_of_%s", kg_dtype_info((enum kg_dtype)dtype)->name);
            for (char *ch = name; *ch; ch++) *ch = (char)(*ch >= 'A' && *ch <= 'Z' ? *ch + 'a' - 'A' : *ch);
            add(cases, "embedding", name, &MODES[m], (enum kg_dtype)dtype, positions);
        }
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
