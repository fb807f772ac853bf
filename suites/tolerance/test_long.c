/* Operations at the sizes of real models, every element against plain float64 loops written here: too large for golden
 * files, which hold the small shapes to PyTorch (test_ops), and these loops with them: `loops_agree_with_pytorch`. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/support/float64_loops.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define F32 KG_PRECISION_F32
#define F16 KG_PRECISION_F16
static const struct kg_loops_mode MODES[] = {
    { "cpu", "f32", F32, F32, F32, KG_DTYPE_F32, NULL },
    { "cuda", "f32", F32, F32, F32, KG_DTYPE_F32, NULL },
    { "cuda", "f16", F16, F16, F16, KG_DTYPE_F16, NULL },
};

/* Lengths around the sizes of blocks, warps and shared arrays; head sizes of the models kigo runs. */
static const struct kg_loops_attention ATTENTION[] = {
    { 1, 1, 14, 2, 64, 0 },      { 2, 2, 14, 2, 64, 0 },    { 63, 63, 14, 2, 64, 0 },    { 64, 64, 14, 2, 64, 0 },
    { 65, 65, 14, 2, 64, 0 },    { 511, 511, 7, 1, 64, 0 }, { 512, 512, 7, 1, 64, 0 },   { 513, 513, 7, 1, 64, 0 },
    { 1025, 1025, 2, 1, 64, 0 }, { 1, 511, 14, 2, 64, 0 },  { 1, 512, 14, 2, 64, 0 },    { 1, 513, 14, 2, 64, 0 },
    { 1, 1025, 14, 2, 64, 0 },   { 1, 4097, 14, 2, 64, 0 }, { 3, 4097, 7, 1, 64, 0 },    { 65, 4097, 1, 1, 128, 0 },
    { 65, 129, 4, 4, 80, 0 },    { 65, 129, 4, 4, 96, 0 },  { 65, 129, 4, 2, 128, 0 },   { 1, 4097, 2, 2, 80, 0 },
    { 1, 4097, 2, 2, 96, 0 },    { 1, 4097, 2, 1, 128, 0 }, { 130, 300, 4, 2, 64, 128 }, { 1, 1025, 4, 2, 64, 128 },
};

struct long_linear {
    uint32_t m, n, k;
};
static const struct long_linear LINEAR[] = {
    { 3, 37, 64 },    { 3, 37, 896 },  { 3, 37, 4864 },  { 2, 37, 8192 },  { 2, 37, 16384 },
    { 1, 1217, 896 }, { 1, 65, 4864 }, { 65, 128, 896 }, { 7, 1984, 256 }, { 33, 63, 65 },
};

struct long_case {
    const struct kg_loops_mode *mode;
    size_t row;
};
static struct long_case long_cases[KG_COUNT_OF(MODES) * (KG_COUNT_OF(ATTENTION) + KG_COUNT_OF(LINEAR))];
static size_t n_long_cases;

static void long_attention(struct kg_record *rec, const void *arg) {
    const struct long_case *c = arg;
    kg_loops_attention_case(rec, c->mode, &ATTENTION[c->row]);
}

static void long_linear(struct kg_record *rec, const void *arg) {
    const struct long_case *c = arg;
    const struct long_linear *s = &LINEAR[c->row];
    kg_loops_linear_case(rec, c->mode, s->m, s->n, s->k, 0, true);
}

/* The loop of float64_loops.h on a golden of PyTorch: an oracle is tested against a third party first. */
static void loops_agree_with_pytorch(struct kg_record *rec, const void *arg) {
    (void)arg;
    size_t n_rows, q_cols, n_keys, kv_cols;
    struct kg_golden *g = kg_golden_open(kg_fixture_path("ops/attention.window_shorter_than_prefill.safetensors"));
    const float *q = kg_golden_f32(g, "q", &n_rows, &q_cols);
    const float *k = kg_golden_f32(g, "k", &n_keys, &kv_cols), *v = kg_golden_f32(g, "v", &n_keys, &kv_cols);
    const double *want = kg_golden_f64(g, "out", &n_rows, &q_cols);
    const size_t n_kv_heads = (size_t)kg_golden_int(g, "n_kv_heads"), head_dim = (size_t)kg_golden_int(g, "head_dim");
    const size_t n_heads = (size_t)kg_golden_int(g, "n_heads"), window = (size_t)kg_golden_int(g, "window");
    float *head_k = kg_xcalloc(n_keys * head_dim, sizeof *head_k),
          *head_v = kg_xcalloc(n_keys * head_dim, sizeof *head_v);
    double out[128], unit = 0, worst = 0;
    ck_assert_uint_le(head_dim, KG_COUNT_OF(out));
    for (size_t h = 0; h < n_heads; h++) {
        const size_t kv_head = h / (n_heads / n_kv_heads);
        for (size_t j = 0; j < n_keys; j++)
            for (size_t d = 0; d < head_dim; d++) {
                head_k[j * head_dim + d] = k[j * kv_cols + kv_head * head_dim + d];
                head_v[j * head_dim + d] = v[j * kv_cols + kv_head * head_dim + d];
            }
        for (size_t r = 0; r < n_rows; r++) {
            const size_t position = n_keys - n_rows + r, first = position + 1 > window ? position + 1 - window : 0;
            kg_loops_attend(q + r * q_cols + h * head_dim, head_k, head_v, first, position, head_dim,
                            (double)kg_golden_float(g, "scale"), out, &unit);
            for (size_t d = 0; d < head_dim; d++)
                worst = fmax(worst, fabs(out[d] - want[r * q_cols + h * head_dim + d]));
        }
    }
    kg_record_metric(rec, "largest_difference", "ratio", worst);
    ck_assert_double_lt(worst, 1e-12);
    free(head_v);
    free(head_k);
    kg_golden_close(g);
}

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Moments within five of their standard deviations over N draws (of z, z^2, z^4 and z[i] z[i+1]: 1, 2, 96 and 1 over
 * N), hardly a value twice, none zero: of inputs that repeated, misplaced rows would go unseen. As many as threads
 * make, and fewer. */
static void inputs_are_normal(struct kg_record *rec, const void *arg) {
    enum { N = 1 << 21, FEW = 100000 };
    const uint64_t seed = kg_record_seed(rec);
    float *x = kg_loops_normal(N, seed, 0, 1, F32), *few = kg_loops_normal(FEW, seed, 0, 1, F32);
    float *other = kg_loops_normal(FEW, seed + 1, 0, 1, F32), *halves = kg_loops_normal(FEW, seed, 3, 0.5, F16);
    double sum = 0, sum2 = 0, sum4 = 0, neighbours = 0;
    size_t n_unlike = 0, n_shared = 0, n_twice = 0, n_not_half = 0, n_zero = 0;
    (void)arg;
    for (size_t i = 0; i < N; i++) {
        const double z = (double)x[i];
        sum += z;
        sum2 += z * z;
        sum4 += z * z * z * z;
        neighbours += z * (double)x[(i + 1) % N];
        n_zero += x[i] == 0;
    }
    for (size_t i = 0; i < FEW; i++) {
        n_unlike += few[i] != x[i];
        n_shared += few[i] == other[i];
        n_not_half += halves[i] != kg_f16_to_f32(kg_f32_to_f16(3 + 0.5F * few[i]));
    }
    qsort(few, FEW, sizeof *few, by_value);
    for (size_t i = 1; i < FEW; i++) n_twice += few[i] == few[i - 1];
    kg_record_metric(rec, "values_twice", "count", (double)n_twice);
    ck_assert_double_eq_tol(sum / N, 0, 5 * sqrt(1.0 / N));
    ck_assert_double_eq_tol(sum2 / N, 1, 5 * sqrt(2.0 / N));
    ck_assert_double_eq_tol(sum4 / N, 3, 5 * sqrt(96.0 / N));
    ck_assert_double_eq_tol(neighbours / N, 0, 5 * sqrt(1.0 / N));
    ck_assert_uint_eq(n_zero, 0);
    ck_assert_uint_eq(n_unlike, 0);
    ck_assert_uint_eq(n_not_half, 0);
    ck_assert_uint_lt(n_shared, FEW / 100);
    ck_assert_uint_lt(n_twice, FEW / 100);
    free(halves);
    free(other);
    free(few);
    free(x);
}

static void add(struct kg_case_list *cases, const char *op, const struct kg_loops_mode *mode, size_t row,
                const char *shape, void (*run)(struct kg_record *, const void *)) {
    struct long_case *c = &long_cases[n_long_cases++];
    *c = (struct long_case){ mode, row };
    kg_case_list_add(cases, &(struct kg_case){
                                .layer = "tolerance",
                                .op = op,
                                .name = "against_float64_loops",
                                .backend = mode->backend,
                                .dtype = mode->dtype,
                                .shape = shape,
                                .spec = run == long_linear ? "FT-051" : "FT-052",
                                .run = run,
                                .arg = c,
                            });
}

static void build(struct kg_case_list *cases) {
    char shape[96];
    kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                               .op = "attention",
                                               .name = "loops_agree_with_pytorch",
                                               .run = loops_agree_with_pytorch });
    kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                               .op = "float64_loops",
                                               .name = "inputs_are_normal",
                                               .run = inputs_are_normal });
    for (size_t m = 0; m < KG_COUNT_OF(MODES); m++) {
        for (size_t i = 0; i < KG_COUNT_OF(ATTENTION); i++) {
            const struct kg_loops_attention *s = &ATTENTION[i];
            snprintf(shape, sizeof shape, "rows=%u keys=%u heads=%u/%u dim=%u window=%u", s->n_rows, s->n_keys,
                     s->n_heads, s->n_kv_heads, s->head_dim, s->window);
            add(cases, "attention", &MODES[m], i, shape, long_attention);
        }
        for (size_t i = 0; i < KG_COUNT_OF(LINEAR); i++) {
            snprintf(shape, sizeof shape, "M=%u N=%u K=%u", LINEAR[i].m, LINEAR[i].n, LINEAR[i].k);
            add(cases, "linear", &MODES[m], i, shape, long_linear);
        }
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
