/* Operations at the sizes of real models, every element against plain float64 loops written here: too large for golden
 * files, which hold the small shapes to PyTorch (test_ops), and these loops with them: `loops_agree_with_pytorch`. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/tolerance/op_cases.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct long_mode {
    const char *backend, *dtype;
    enum kg_precision activations, kv;
} MODES[] = {
    { "cpu", "f32", KG_PRECISION_F32, KG_PRECISION_F32 },
    { "cuda", "f32", KG_PRECISION_F32, KG_PRECISION_F32 },
    { "cuda", "f16", KG_PRECISION_F16, KG_PRECISION_F16 },
};

struct long_attention {
    uint32_t n_rows, n_keys, n_heads, n_kv_heads, head_dim, window;
};

/* Lengths around the sizes of blocks, warps and shared arrays; head sizes of the models kigo runs. */
static const struct long_attention ATTENTION[] = {
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
    const char *backend;
    enum kg_precision activations, kv;
    size_t row;
};
static struct long_case long_cases[KG_COUNT_OF(MODES) * (KG_COUNT_OF(ATTENTION) + KG_COUNT_OF(LINEAR))];
static size_t n_long_cases;

/* Normal values, of those that the precision holds. */
static float *new_normal(size_t n, uint64_t seed, enum kg_precision precision) {
    float *x = kg_xcalloc(n, sizeof *x);
    kg_fill_normal(x, n, seed, 0, 1);
    for (size_t i = 0; i < n && precision == KG_PRECISION_F16; i++) x[i] = kg_f16_to_f32(kg_f32_to_f16(x[i]));
    return x;
}

/* One query against keys [first, last] of a head-major cache head: two passes, no running maximum. */
static void attend(const float *q, const float *k, const float *v, size_t first, size_t last, size_t head_dim,
                   double scale, double *out, double *unit) {
    double *p = kg_xcalloc(last + 1, sizeof *p), largest = -INFINITY, total = 0;
    for (size_t j = first; j <= last; j++) {
        double products = 0;
        for (size_t d = 0; d < head_dim; d++) {
            p[j] += (double)q[d] * (double)k[j * head_dim + d];
            products += fabs((double)q[d] * (double)k[j * head_dim + d]);
        }
        p[j] *= scale;
        *unit = fmax(*unit, products * scale);
        largest = fmax(largest, p[j]);
    }
    for (size_t j = first; j <= last; j++) total += p[j] = exp(p[j] - largest);
    for (size_t d = 0; d < head_dim; d++) out[d] = 0;
    for (size_t j = first; j <= last; j++)
        for (size_t d = 0; d < head_dim; d++) out[d] += p[j] / total * (double)v[j * head_dim + d];
    free(p);
}

static void long_attention(struct kg_record *rec, const void *arg) {
    const struct long_case *c = arg;
    const struct long_attention *s = &ATTENTION[c->row];
    struct kg_op_device device;
    struct kg_error err;
    if (!kg_op_device_open(rec, c->backend, NULL, &device)) return;
    const uint64_t seed = kg_record_seed(rec);
    const uint32_t n_ctx = s->n_keys + 3;
    const size_t n_q = (size_t)s->n_rows * s->n_heads * s->head_dim;
    const size_t n_cache = (size_t)s->n_kv_heads * n_ctx * s->head_dim;
    float *q = new_normal(n_q, seed, c->activations), *k = new_normal(n_cache, seed + 1, c->kv),
          *v = new_normal(n_cache, seed + 2, c->kv);
    for (size_t h = 0; h < s->n_kv_heads; h++) /* slots past the keys must not be read */
        for (size_t i = (h * n_ctx + s->n_keys) * s->head_dim; i < (h + 1) * n_ctx * s->head_dim; i++)
            k[i] = v[i] = NAN;
    kg_op_device_workspace(&device, s->n_rows, s->n_heads * s->head_dim, s->n_heads, s->n_kv_heads, s->head_dim, n_ctx);
    struct kg_op_output y;
    kg_op_output_init(&device, &y, n_q, c->activations);
    const struct kg_attention_args args = {
        .activations = c->activations,
        .kv = c->kv,
        .q = kg_op_device_put_as(&device, q, n_q, c->activations),
        .k_cache = kg_op_device_put_as(&device, k, n_cache, c->kv),
        .v_cache = kg_op_device_put_as(&device, v, n_cache, c->kv),
        .y = y.y,
        .n_rows = s->n_rows,
        .n_keys = s->n_keys,
        .n_heads = s->n_heads,
        .n_kv_heads = s->n_kv_heads,
        .head_dim = s->head_dim,
        .n_ctx = n_ctx,
        .scale = 1 / sqrtf((float)s->head_dim),
        .causal = true,
        .window = s->window,
        .workspace = device.workspace,
    };
    kg_op_expect_ok(device.backend->ops->attention(device.backend, &args, &err), &err);
    kg_op_output_read_all(&device, &y, "attention");

    double *want = kg_xcalloc(n_q, sizeof *want), unit = 0, largest = 0;
    for (size_t r = 0; r < s->n_rows; r++)
        for (size_t h = 0; h < s->n_heads; h++) {
            const size_t position = s->n_keys - s->n_rows + r, at = (r * s->n_heads + h) * s->head_dim;
            const size_t first = s->window && position + 1 > s->window ? position + 1 - s->window : 0;
            const size_t head = h / (s->n_heads / s->n_kv_heads) * n_ctx * s->head_dim;
            attend(q + at, k + head, v + head, first, position, s->head_dim, args.scale, want + at, &unit);
        }
    for (size_t i = 0; i < n_cache; i++)
        if (isfinite(v[i])) largest = fmax(largest, fabs((double)v[i]));
    const bool half = c->activations == KG_PRECISION_F16;
    const double logits = largest * (4 + unit) * 2 * KG_ROUNDOFF;
    const struct kg_tolerance tol = {
        .mixed_abs = half ? logits + largest * (KG_ROUNDOFF_F16 + s->n_keys * KG_ROUNDOFF_F16_ABS) : logits,
        .mixed_rel = half ? KG_ROUNDOFF_F16 : 0,
        .why = half ? "float32 logits, weights rounded to float16 (2^-11 of the largest value), the result rounded once"
                    : "a logit errs by a few roundings of sum|q k| scale, and moves its weight by that share; weights "
                      "sum to 1",
    };
    kg_expect_close_f64(rec, "attention", y.host.data, want, n_q, &tol);
    free(want);
    kg_op_output_free(&y);
    free(v);
    free(k);
    free(q);
    kg_op_device_close(&device);
}

static void long_linear(struct kg_record *rec, const void *arg) {
    const struct long_case *c = arg;
    const struct long_linear *s = &LINEAR[c->row];
    struct kg_op_device device;
    struct kg_error err;
    if (!kg_op_device_open(rec, c->backend, NULL, &device)) return;
    const uint64_t seed = kg_record_seed(rec);
    const size_t m = s->m, n = s->n, k = s->k;
    float *x = new_normal(m * k, seed, c->activations), *w = new_normal(n * k, seed + 1, c->activations),
          *bias = new_normal(n, seed + 2, KG_PRECISION_F32);
    const bool half = c->activations == KG_PRECISION_F16;
    kg_op_device_workspace(&device, s->m, s->n > s->k ? s->n : s->k, 1, 1, 64, 64);
    struct kg_op_output y;
    kg_op_output_init(&device, &y, m * n, c->activations);
    const struct kg_linear_args args = {
        .activations = c->activations,
        .output = c->activations,
        .x = kg_op_device_put_as(&device, x, m * k, c->activations),
        .weight = { kg_op_device_put_as(&device, w, n * k, c->activations), half ? KG_DTYPE_F16 : KG_DTYPE_F32, s->n,
                    s->k },
        .bias = kg_op_device_put(&device, bias, n * sizeof *bias),
        .y = y.y,
        .n_rows = s->m,
        .workspace = device.workspace,
    };
    kg_op_expect_ok(device.backend->ops->linear(device.backend, &args, &err), &err);
    kg_op_output_read_all(&device, &y, "linear");
    float *got = kg_xcalloc(m * n, sizeof *got);
    double *want = kg_xcalloc(m * n, sizeof *want);
    for (size_t r = 0; r < m; r++)
        for (size_t o = 0; o < n; o++) {
            double sum = bias[o], unit = fabs((double)bias[o]);
            for (size_t i = 0; i < k; i++) {
                sum += (double)x[r * k + i] * (double)w[o * k + i];
                unit += fabs((double)x[r * k + i] * (double)w[o * k + i]);
            }
            unit *= (8 + sqrt((double)k)) * KG_ROUNDOFF;
            if (half) unit += KG_ROUNDOFF_F16 * (2 * fabs(sum) + fabs((double)bias[o])) + 2 * KG_ROUNDOFF_F16_ABS;
            want[r * n + o] = sum / unit;
            got[r * n + o] = (float)(y.host.data[r * n + o] / unit);
        }
    const struct kg_tolerance tol = {
        .max_abs = 1,
        .why = half
                   ? "in units of (8 + sqrt(K)) 2^-24 sum|x w| for float32 sums, and product and sum rounded to float16"
                   : "in units of (8 + sqrt(K)) 2^-24 sum|x w|: float32 sums of K products err by about sqrt(K) "
                     "roundings",
    };
    kg_expect_close_f64(rec, "linear", got, want, m * n, &tol);
    free(want);
    free(got);
    kg_op_output_free(&y);
    free(bias);
    free(w);
    free(x);
    kg_op_device_close(&device);
}

/* The loop above on a golden of PyTorch: an oracle is tested against a third party first. */
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
            attend(q + r * q_cols + h * head_dim, head_k, head_v, first, position, head_dim,
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

static void add(struct kg_case_list *cases, const char *op, const struct long_mode *mode, size_t row, const char *shape,
                void (*run)(struct kg_record *, const void *)) {
    struct long_case *c = &long_cases[n_long_cases++];
    *c = (struct long_case){ mode->backend, mode->activations, mode->kv, row };
    kg_case_list_add(cases, &(struct kg_case){
                                .layer = "tolerance",
                                .op = op,
                                .name = "against_float64_loops",
                                .backend = mode->backend,
                                .dtype = mode->dtype,
                                .shape = shape,
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
    for (size_t m = 0; m < KG_COUNT_OF(MODES); m++) {
        for (size_t i = 0; i < KG_COUNT_OF(ATTENTION); i++) {
            const struct long_attention *s = &ATTENTION[i];
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
