/* FT-051: matrix products in float32, float16 and mixtures, every element against float64: plain shapes, the shapes of
 * every call site of two models, one element less and more than what vector units take, long sums, sums that cancel,
 * the sums' own precision, what does not fit float16, and the same rows with and without tensor cores. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/support/float64_loops.h"
#include "suites/support/plain_f16.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct kg_backend_ops *plain(void) {
    return kg_plain_f16(KG_PLAIN_F16_FUSED);
}

#define F32 KG_PRECISION_F32
#define F16 KG_PRECISION_F16
/* Activations, cache (no matter here), output, weights. The plain FP16 table shows on any machine that the limits
 * accept an implementation that set none of them. */
static const struct gemm_mode {
    struct kg_loops_mode mode;
    double most_products; /* of a shape, in millions: the reference is slow, mixtures need not see every call site */
} MODES[] = {
    { { "cpu", "f32", F32, F32, F32, KG_DTYPE_F32, NULL }, 2 },
    { { "cpu", "f32_weights_f16", F32, F32, F32, KG_DTYPE_F16, NULL }, 2 },
    { { "cpu", "plain_f16", F16, F16, F16, KG_DTYPE_F16, plain }, 2 },
    { { "cuda", "f32", F32, F32, F32, KG_DTYPE_F32, NULL }, 2000 },
    { { "cuda", "f16", F16, F16, F16, KG_DTYPE_F16, NULL }, 2000 },
    { { "cuda", "f32_weights_f16", F32, F32, F32, KG_DTYPE_F16, NULL }, 20 },
    { { "cuda", "f16_weights_f32", F16, F16, F16, KG_DTYPE_F32, NULL }, 20 },
    { { "cuda", "f16_output_f32", F16, F16, F32, KG_DTYPE_F16, NULL }, 20 },
};

struct gemm_shape {
    const char *name;
    uint32_t m, n, k;
    bool bias;
    double mean;
};
/* Call sites are (N, K) of Qwen2.5-0.5B and Phi-3-mini, at one row and just past the rows that take a GEMV. */
static const struct gemm_shape SHAPES[] = {
    { "basic_32x32", 32, 32, 32, false, 0 },
    { "basic_32x32_bias", 32, 32, 32, true, 0 },
    { "large_1024x1024", 1024, 1024, 1024, false, 0 },
    { "large_1024x1024_bias", 1024, 1024, 1024, true, 0 },
    { "few_rows_of_a_part_of_a_step", 32, 129, 136, true, 0 },
    { "few_rows_by_width", 33, 129, 136, true, 0 },
    { "few_rows_by_width", 64, 300, 520, true, 0 },
    { "few_rows_by_width", 65, 129, 136, false, 0 },
    { "few_rows_by_width", 96, 257, 1032, true, 0 },
    { "few_rows_by_width", 97, 129, 136, true, 0 },
    { "few_rows_by_width", 128, 515, 4096, true, 0 },
    { "few_rows_by_width", 127, 1, 8, true, 0 },
    { "rows_past_few", 129, 129, 136, true, 0 },
    { "tall", 300, 5, 64, true, 0 },
    { "wide", 5, 300, 64, true, 0 },
    { "deep", 9, 17, 4096, false, 0 },
    { "flat", 17, 129, 3, true, 0 },
    { "mean_of_a_half", 9, 33, 1024, false, 0.5 },
    { "long_sums", 1, 37, 2048, false, 0 },
    { "long_sums", 9, 37, 2048, false, 0 },
    { "long_sums", 1, 37, 8192, false, 0 }, /* as long as a block's warps hold, of few outputs */
    { "long_sums", 1, 37, 16384, false, 0 },
    { "long_sums", 9, 37, 16384, false, 0 },
    { "qwen_qkv", 1, 1152, 896, true, 0 },
    { "qwen_qkv", 9, 1152, 896, true, 0 },
    { "qwen_qkv", 65, 1152, 896, true, 0 },
    { "qwen_kv", 9, 128, 896, true, 0 },
    { "qwen_out", 9, 896, 896, false, 0 },
    { "qwen_ffn_gate_up", 1, 9728, 896, false, 0 },
    { "qwen_ffn_gate_up", 9, 9728, 896, false, 0 },
    { "qwen_ffn_down", 1, 896, 4864, false, 0 },
    { "qwen_ffn_down", 9, 896, 4864, false, 0 },
    { "qwen_logits", 1, 151936, 896, false, 0 },
    { "phi3_qkv", 1, 9216, 3072, false, 0 },
    { "phi3_qkv", 9, 9216, 3072, false, 0 },
    { "phi3_ffn_gate_up", 1, 16384, 3072, false, 0 },
    { "phi3_ffn_down", 9, 3072, 8192, false, 0 },
};

struct gemm_case {
    const struct kg_loops_mode *mode;
    const struct gemm_shape *shape;
};
static struct gemm_case gemm_cases[KG_COUNT_OF(MODES) * (KG_COUNT_OF(SHAPES) + 8)];
static size_t n_gemm_cases;

static void gemm_shape(struct kg_record *rec, const void *arg) {
    const struct gemm_case *c = arg;
    const struct gemm_shape *s = c->shape;
    kg_loops_linear_case(rec, c->mode, s->m, s->n, s->k, s->mean, s->bias);
}

/* One product of normal data; its largest error in limits. */
static double margin_of(struct kg_op_device *d, const struct kg_loops_mode *mode, uint32_t m, uint32_t n, uint32_t k,
                        uint64_t seed, bool has_bias) {
    struct kg_op_output y;
    float *x = kg_loops_normal((size_t)m * k, seed, 0, 1, mode->activations);
    float *w = kg_loops_normal((size_t)n * k, seed + 1, 0, 1, kg_loops_weight_precision(mode));
    float *bias = kg_loops_normal(n, seed + 2, 0, 1, F32);
    const struct kg_loops_linear l = { m, n, k, x, w, has_bias ? bias : NULL };
    kg_loops_linear_run(d, mode, &l, &y);
    kg_op_output_read_all(d, &y, "linear");
    const double margin = kg_loops_linear_margin(mode, &l, y.host.data);
    kg_op_output_free(&y);
    free(bias);
    free(w);
    free(x);
    kg_op_device_clear(d);
    return margin;
}

/* Every M, N and K of these lists with every other: 1, odd, and on either side of multiples of 8. */
static void every_edge(struct kg_record *rec, const void *arg) {
    static const uint32_t MS[] = { 1, 2, 7, 8, 9, 17 }, NS[] = { 1, 3, 7, 8, 9, 31 },
                          KS[] = { 1, 2, 7, 8, 9, 15, 16, 17, 33 };
    const struct gemm_case *c = arg;
    struct kg_op_device d;
    double worst = 0;
    uint64_t n_shapes = 0;
    if (!kg_loops_open(rec, c->mode, &d)) return;
    for (size_t i = 0; i < KG_COUNT_OF(MS); i++)
        for (size_t j = 0; j < KG_COUNT_OF(NS); j++)
            for (size_t l = 0; l < KG_COUNT_OF(KS); l++, n_shapes++) {
                const double margin =
                    margin_of(&d, c->mode, MS[i], NS[j], KS[l], kg_record_seed(rec) + 3 * n_shapes, n_shapes % 2);
                if (margin > 1)
                    ck_abort_msg("M=%u N=%u K=%u: an element errs by %.3g limits (%s)", MS[i], NS[j], KS[l], margin,
                                 KG_LOOPS_WHY_LINEAR);
                worst = fmax(worst, margin);
            }
    kg_record_metric(rec, "shapes", "count", (double)n_shapes);
    kg_record_metric(rec, "worst_margin", "ratio", worst);
    kg_op_device_close(&d);
}

/* x and w of one value each; what an output of the product is, after a row at once and after nine. */
static void products_of(struct kg_record *rec, const struct gemm_case *c, float x_value, float w_value, uint32_t k,
                        float want) {
    enum { N = 5 };
    static const uint32_t ROWS[] = { 1, 9 };
    struct kg_op_device d;
    if (!kg_loops_open(rec, c->mode, &d)) return;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        struct kg_op_output y;
        float *x = kg_xcalloc((size_t)ROWS[i] * k, sizeof *x), *w = kg_xcalloc((size_t)N * k, sizeof *w);
        for (size_t e = 0; e < (size_t)ROWS[i] * k; e++) x[e] = x_value;
        for (size_t e = 0; e < (size_t)N * k; e++) w[e] = w_value;
        const struct kg_loops_linear l = { ROWS[i], N, k, x, w, NULL };
        kg_loops_linear_run(&d, c->mode, &l, &y);
        kg_op_output_read(&d, &y);
        for (size_t e = 0; e < y.host.n; e++)
            ck_assert_msg(y.host.data[e] == want, "%u rows: %u times %g * %g is %g, not %g", ROWS[i], k,
                          (double)x_value, (double)w_value, (double)y.host.data[e], (double)want);
        kg_op_output_free(&y);
        free(w);
        free(x);
        kg_op_device_clear(&d);
    }
    kg_op_device_close(&d);
}

/* Ones: 16384 of them are 16384 in float32 sums; float16 sums stop at 2048, where 1 is half a step. */
static void ones_are_counted(struct kg_record *rec, const void *arg) {
    products_of(rec, arg, 1, 1, 16384, 16384);
}

/* 2^14 * 2^-24 is 2^-10 a product, 2048 of them 2: float16's least number, a subnormal one, counts as a weight. */
static void small_weights_are_not_flushed(struct kg_record *rec, const void *arg) {
    products_of(rec, arg, 16384, 0x1p-24f, 2048, 2);
}

/* Beyond 65504 a float16 result is infinite, of either sign: neither saturated nor NaN, so that it can be seen. */
static void overflow_is_infinite(struct kg_record *rec, const void *arg) {
    const struct gemm_case *c = arg;
    const bool half = c->mode->output == F16;
    products_of(rec, arg, 256, 256, 2, half ? INFINITY : 131072);
    products_of(rec, arg, -256, 256, 2, half ? -INFINITY : -131072);
}

static void the_largest_float16_is_finite(struct kg_record *rec, const void *arg) {
    products_of(rec, arg, 32752, 1, 2, 65504);
}

/* The same rows without tensor cores, one at a time as decoding does it, and with them, all at once (on the cpu: the
 * same loops twice). Both hold the limits, so they are at most two limits apart. */
static void tensor_cores_on_and_off(struct kg_record *rec, const void *arg) {
    enum { M = 48, N = 129, K = 896 };
    const struct gemm_case *c = arg;
    struct kg_op_device d;
    struct kg_op_output y;
    if (!kg_loops_open(rec, c->mode, &d)) return;
    float *x = kg_loops_normal((size_t)M * K, kg_record_seed(rec), 0, 1, c->mode->activations);
    float *w = kg_loops_normal((size_t)N * K, kg_record_seed(rec) + 1, 0, 1, kg_loops_weight_precision(c->mode));
    float *rows = kg_xcalloc((size_t)M * N, sizeof *rows);
    for (uint32_t r = 0; r < M; r++) {
        const struct kg_loops_linear one = { 1, N, K, x + (size_t)r * K, w, NULL };
        kg_loops_linear_run(&d, c->mode, &one, &y);
        kg_op_output_read_all(&d, &y, "a row alone");
        for (size_t o = 0; o < N; o++) rows[r * N + o] = y.host.data[o];
        kg_op_output_free(&y);
        kg_op_device_clear(&d);
    }
    const struct kg_loops_linear all = { M, N, K, x, w, NULL };
    kg_loops_linear_run(&d, c->mode, &all, &y);
    kg_op_output_read_all(&d, &y, "all rows");
    kg_loops_linear_judge(rec, c->mode, &all, y.host.data);
    const double alone = kg_loops_linear_margin(c->mode, &all, rows);
    double apart = 0;
    for (size_t i = 0; i < (size_t)M * N; i++) apart = fmax(apart, fabs((double)rows[i] - (double)y.host.data[i]));
    kg_record_metric(rec, "margin_without_tensor_cores", "ratio", alone);
    kg_record_metric(rec, "largest_difference", "abs", apart);
    ck_assert_msg(alone <= 1, "rows alone err by %.3g limits: %s", alone, KG_LOOPS_WHY_LINEAR);
    kg_op_output_free(&y);
    free(rows);
    free(w);
    free(x);
    kg_op_device_close(&d);
}

static void add(struct kg_case_list *cases, const struct gemm_mode *m, const char *name, const char *shape,
                const struct gemm_shape *s, void (*run)(struct kg_record *, const void *)) {
    struct gemm_case *c = &gemm_cases[n_gemm_cases++];
    *c = (struct gemm_case){ &m->mode, s };
    kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                               .op = "gemm",
                                               .name = name,
                                               .backend = m->mode.backend,
                                               .dtype = m->mode.dtype,
                                               .shape = shape,
                                               .spec = "FT-051",
                                               .run = run,
                                               .arg = c });
}

static void build(struct kg_case_list *cases) {
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } OTHERS[] = { { "every_edge", every_edge },
                   { "ones_are_counted", ones_are_counted },
                   { "small_weights_are_not_flushed", small_weights_are_not_flushed },
                   { "overflow_is_infinite", overflow_is_infinite },
                   { "the_largest_float16_is_finite", the_largest_float16_is_finite },
                   { "tensor_cores_on_and_off", tensor_cores_on_and_off } };
    for (size_t m = 0; m < KG_COUNT_OF(MODES); m++) {
        for (size_t i = 0; i < KG_COUNT_OF(SHAPES); i++) {
            const struct gemm_shape *s = &SHAPES[i];
            char shape[64];
            if ((double)s->m * s->n * s->k > 1e6 * MODES[m].most_products) continue;
            snprintf(shape, sizeof shape, "M=%u N=%u K=%u", s->m, s->n, s->k);
            add(cases, &MODES[m], s->name, shape, s, gemm_shape);
        }
        for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++)
            add(cases, &MODES[m], OTHERS[i].name, NULL, NULL, OTHERS[i].run);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
