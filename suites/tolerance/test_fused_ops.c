/* FT-055: norm_qkv, norm_swiglu and linear_add (fused_op.h) at hidden sizes and rows of all kinds, with weights of the
 * activations' type and of block formats, against float64 loops over the same inputs and against the operations that
 * each stands for, one by one, of the same back end. Then mutants, which must be outside the limits. */
#include "backend/gpu.h"
#include "base/buffer.h"
#include "base/size.h"
#include "ops/scratch.h"
#include "suites/support/float64_loops.h"
#include "suites/support/fused_op.h"
#include "suites/support/plain_f16.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS_LOOKED_AT = 6, SHIFT_BYTES = 4 };
static const float EPS = 1e-5f;

static const struct kg_backend_ops *plain_f16(void) {
    return kg_plain_f16(KG_PLAIN_F16_BY_OPERATION);
}

/* The limits are test_fused's, which holds the plan's fusions to them. An operation on the CPU rounds its result alone,
 * the ones that it stands for each step. */
static const struct mode {
    const char *backend, *dtype;
    enum kg_precision precision;
    enum kg_dtype weight;
    bool in_file; /* weights are not repacked */
    struct kg_tolerance tol;
    const struct kg_backend_ops *(*ops)(void); /* NULL: the back end's */
} MODES[] = {
#define CPU_TOLERANCE                                                                                                  \
    {                                                                                                                  \
        .max_abs = 1e-5, .nmse = 5e-14,                                                                                \
        .why = "float64 sums, norm, product and gate or sum each rounded to float32: 2^-24 of it, squared",            \
        .far = "the operation rounds its result alone"                                                                 \
    }
#define F16_TOLERANCE                                                                                                  \
    {                                                                                                                  \
        .max_abs = 1e-2, .nmse = 1e-6,                                                                                 \
        .why = "FT-055: 1e-2; of norm, product and gate or sum each rounded to float16, and of quantised weights for " \
               "more than 8 rows: 2^-11 of it, squared"                                                                \
    }
    { "cpu", "f32", KG_PRECISION_F32, KG_DTYPE_F32, false, CPU_TOLERANCE, NULL },
    { "cpu", "f32_q8_0", KG_PRECISION_F32, KG_DTYPE_Q8_0, false, CPU_TOLERANCE, NULL },
    { "cpu", "f32_mxfp4", KG_PRECISION_F32, KG_DTYPE_MXFP4, false, CPU_TOLERANCE, NULL },
    { "cpu", "plain_f16", KG_PRECISION_F16, KG_DTYPE_F16, false, F16_TOLERANCE, plain_f16 },
    { "cuda",
      "f32",
      KG_PRECISION_F32,
      KG_DTYPE_F32,
      false,
      { .max_abs = 1e-4,
        .nmse = 1e-12,
        .why = "FP32 results: 1e-4; float32 sums of up to 2880 products: 16 roundings, 2^-24 each, squared" },
      NULL },
    { "cuda", "f16", KG_PRECISION_F16, KG_DTYPE_F16, false, F16_TOLERANCE, NULL },
    { "cuda", "f16_mxfp4", KG_PRECISION_F16, KG_DTYPE_MXFP4, false, F16_TOLERANCE, NULL },
    { "cuda", "f16_mxfp4_in_file", KG_PRECISION_F16, KG_DTYPE_MXFP4, true, F16_TOLERANCE, NULL },
    { "cuda", "f16_q8_0", KG_PRECISION_F16, KG_DTYPE_Q8_0, false, F16_TOLERANCE, NULL },
};

/* Of float16 a few results say little of the mean: each of them is at most this far. A norm rounded is of gate and up
 * both, each of which is rounded, and their product is: 5 roundings of 2^-11, squared. */
enum { FEW_RESULTS = 64 };
static const struct kg_tolerance FEW_F16 = {
    .max_abs = 1e-2,
    .nmse = 6e-6,
    .why = "FT-055: 1e-2; of fewer than 64 results the farthest: 5 roundings to float16, 2^-11 each, squared"
};

/* Outputs of each matrix. Block formats have the sizes that are whole blocks. */
struct size {
    uint32_t n_in, n_out[KG_FUSED_MATRICES];
};
static const struct size SIZES[KG_N_FUSED_OPS][5] = {
    [KG_FUSED_NORM_QKV] = { { 1, { 2, 2, 2 } },
                            { 63, { 61, 20, 20 } },
                            { 64, { 64, 32, 32 } },
                            { 896, { 896, 128, 128 } },
                            { 2880, { 4096, 512, 512 } } },
    [KG_FUSED_NORM_SWIGLU] = { { 1, { 3, 3 } },
                               { 63, { 1, 1 } },
                               { 64, { 96, 96 } },
                               { 896, { 1216, 1216 } },
                               { 2880, { 2880, 2880 } } },
    [KG_FUSED_LINEAR_ADD] = { { 1, { 63 } }, { 63, { 1 } }, { 64, { 64 } }, { 896, { 896 } }, { 2880, { 896 } } },
};

/* What else there is of an operation, at one size. */
static const struct variant {
    enum kg_fused_op op;
    const char *name;
    bool every_size, bias;
    bool wide;    /* with float16 activations alone */
    bool shifted; /* x is not on 16 bytes */
    float limit, alpha, up_offset, cubic;
} VARIANTS[] = {
    { KG_FUSED_NORM_QKV, "norm_qkv", true, false, false, false, 0, 0, 0, 0 },
    { KG_FUSED_NORM_QKV, "norm_qkv_biases", true, true, false, false, 0, 0, 0, 0 },
    { KG_FUSED_NORM_QKV, "norm_qkv_wide_input", false, true, true, false, 0, 0, 0, 0 },
    { KG_FUSED_NORM_QKV, "norm_qkv_unaligned", false, true, false, true, 0, 0, 0, 0 },
    { KG_FUSED_NORM_SWIGLU, "norm_swiglu", true, false, false, false, 0, 1, 0, 0 },
    { KG_FUSED_NORM_SWIGLU, "norm_swiglu_biases", true, true, false, false, 0, 1, 0, 0 },
    { KG_FUSED_NORM_SWIGLU, "norm_swiglu_clamped", false, true, false, false, 0.5f, 1.702f, 1, 0 },
    { KG_FUSED_NORM_SWIGLU, "norm_swiglu_geglu", false, false, false, false, 0, 1.5957691f, 0, 0.044715f },
    { KG_FUSED_NORM_SWIGLU, "norm_swiglu_wide_input", false, false, true, false, 0, 1, 0, 0 },
    { KG_FUSED_NORM_SWIGLU, "norm_swiglu_unaligned", false, false, false, true, 0, 1, 0, 0 },
    { KG_FUSED_LINEAR_ADD, "linear_add", true, false, false, false, 0, 0, 0, 0 },
    { KG_FUSED_LINEAR_ADD, "linear_add_bias", true, true, false, false, 0, 0, 0, 0 },
    { KG_FUSED_LINEAR_ADD, "linear_add_wide_residual", false, true, true, false, 0, 0, 0, 0 },
};

struct op_case {
    const struct mode *mode;
    const struct variant *variant;
    const struct size *size;
    const struct mutant *mutant; /* NULL: none */
    uint32_t n_rows;
};
static struct op_case kept[2048];
static size_t n_kept;

/* Host data, of values that the mode's types hold. */
struct problem {
    const struct op_case *c;
    enum kg_fused_op op;
    float *x, *norm, *w[KG_FUSED_MATRICES], *bias[KG_FUSED_MATRICES], *residual;
    uint8_t *bytes[KG_FUSED_MATRICES]; /* of w, in its format */
    uint32_t rows[MOST_ROWS_LOOKED_AT], n_rows;
    uint32_t n_matrices, n_results;
    size_t n_row; /* results of a row */
};

/* Rows of normal values, as the format holds them. */
static void make_weight(struct problem *p, uint32_t i, uint64_t seed, double deviation) {
    const uint32_t n_in = p->c->size->n_in, n_out = p->c->size->n_out[i];
    const struct kg_weight w = { .dtype = p->c->mode->weight, .n_rows = n_out, .n_cols = n_in };
    const size_t row_bytes = kg_weight_row_bytes(&w);
    p->w[i] = kg_loops_normal((size_t)n_out * n_in, seed, 0, deviation, KG_PRECISION_F32);
    p->bytes[i] = kg_xmalloc(n_out * row_bytes);
    for (size_t o = 0; o < n_out; o++) {
        kg_dtype_info(w.dtype)->encode(p->w[i] + o * n_in, p->bytes[i] + o * row_bytes, n_in);
        kg_dtype_info(w.dtype)->decode(p->bytes[i] + o * row_bytes, p->w[i] + o * n_in, n_in);
    }
}

static void problem_init(struct problem *p, const struct op_case *c, uint64_t seed) {
    const enum kg_fused_op op = c->variant->op;
    const uint32_t n_in = c->size->n_in;
    const enum kg_precision precision = c->mode->precision, wide = c->variant->wide ? KG_PRECISION_F32 : precision;
    const bool normed = op != KG_FUSED_LINEAR_ADD;
    /* Gates and ups are multiplied: of size 0.4 their product is of size 1 at most, as in models. */
    const double size = op == KG_FUSED_NORM_SWIGLU ? 0.4 : 1;
    *p = (struct problem){ .c = c, .op = op };
    p->n_matrices = kg_fused_n_matrices(op), p->n_results = kg_fused_n_results(op);
    /* A mean square of 1e-4, so that an epsilon of 1e-5 is 5% of the result. */
    p->x = kg_loops_normal((size_t)c->n_rows * n_in, seed, 0, normed ? 0.01 : 1, normed ? wide : precision);
    if (normed) p->norm = kg_loops_normal(n_in, seed + 1, 1, 0.2, KG_PRECISION_F32);
    for (uint32_t i = 0; i < p->n_matrices; i++) {
        make_weight(p, i, seed + 2 + i, size / sqrt(n_in));
        if (c->variant->bias) p->bias[i] = kg_loops_normal(c->size->n_out[i], seed + 5 + i, 0, 0.5, KG_PRECISION_F32);
    }
    if (!normed) p->residual = kg_loops_normal((size_t)c->n_rows * c->size->n_out[0], seed + 8, 0, 1, wide);
    for (uint32_t i = 0; i < p->n_results; i++) p->n_row += c->size->n_out[i];
    /* Rows of both ends of the 8, 32, 64 or 128 that kernels take at once. */
    const uint32_t wanted[] = { 0, 8, 31, 63, c->n_rows / 2, c->n_rows - 1 };
    for (size_t i = 0; i < KG_COUNT_OF(wanted); i++)
        if (wanted[i] < c->n_rows && (p->n_rows == 0 || wanted[i] > p->rows[p->n_rows - 1]))
            p->rows[p->n_rows++] = wanted[i];
}

static void problem_free(struct problem *p) {
    for (int i = 0; i < KG_FUSED_MATRICES; i++) free(p->bias[i]), free(p->bytes[i]), free(p->w[i]);
    free(p->residual), free(p->norm), free(p->x);
}

/* The rows looked at, normalised where the operation does; as float32, whose rounding is within the limits. */
static float *inputs(const struct problem *p) {
    const uint32_t n_in = p->c->size->n_in;
    float *rows = kg_xcalloc((size_t)p->n_rows * n_in, sizeof *rows);
    for (uint32_t r = 0; r < p->n_rows; r++) {
        const float *x = p->x + (size_t)p->rows[r] * n_in;
        double squares = 0;
        for (uint32_t i = 0; i < n_in; i++) squares += (double)x[i] * x[i];
        const double inverse = 1 / sqrt(squares / n_in + (double)EPS);
        for (uint32_t i = 0; i < n_in; i++)
            rows[(size_t)r * n_in + i] = p->norm ? (float)(x[i] * inverse * p->norm[i]) : x[i];
    }
    return rows;
}

static double gated(const struct variant *v, double gate, double up) {
    if (v->limit > 0) gate = fmin(gate, v->limit), up = fmax(-v->limit, fmin(up, v->limit));
    return gate / (1 + exp(-v->alpha * (gate + v->cubic * pow(gate, 3)))) * (up + v->up_offset);
}

/* What comes of the products of row r of those looked at. */
static void finish(const struct problem *p, uint32_t r, double *const product[KG_FUSED_MATRICES], double *out) {
    const uint32_t *n_out = p->c->size->n_out;
    double *to = out;
    for (uint32_t i = 0; i < KG_FUSED_MATRICES && i < p->n_results; to += n_out[i++])
        memcpy(to, product[i] + (size_t)r * n_out[i], n_out[i] * sizeof *to);
    for (uint32_t o = 0; o < n_out[0] && p->op == KG_FUSED_NORM_SWIGLU; o++)
        out[o] = gated(p->c->variant, out[o], product[1][(size_t)r * n_out[1] + o]);
    for (uint32_t o = 0; o < n_out[0] && p->residual; o++) out[o] += p->residual[(size_t)p->rows[r] * n_out[0] + o];
}

/* (rows looked at, results of a row) */
static double *in_float64(const struct problem *p) {
    const struct kg_loops_mode mode = {
        .backend = "cpu", .activations = KG_PRECISION_F32, .output = KG_PRECISION_F32, .weight = KG_DTYPE_F32
    };
    const struct size *s = p->c->size;
    float *rows = inputs(p);
    double *product[KG_FUSED_MATRICES], *out = kg_xcalloc(p->n_rows * p->n_row, sizeof *out);
    for (uint32_t i = 0; i < KG_FUSED_MATRICES; i++) {
        const struct kg_loops_linear l = { p->n_rows, s->n_out[i], s->n_in, rows, p->w[i], p->bias[i] };
        double *limit = kg_xcalloc((size_t)p->n_rows * s->n_out[i] + 1, sizeof *limit);
        product[i] = kg_xcalloc((size_t)p->n_rows * s->n_out[i] + 1, sizeof *product[i]);
        if (i < p->n_matrices) kg_loops_linear(&mode, &l, product[i], limit);
        free(limit);
    }
    for (uint32_t r = 0; r < p->n_rows; r++) finish(p, r, product, out + r * p->n_row);
    for (uint32_t i = 0; i < KG_FUSED_MATRICES; i++) free(product[i]);
    free(rows);
    return out;
}

/* x where no vector begins. */
static const void *put_shifted(struct kg_op_device *d, const float *x, size_t n, enum kg_precision precision) {
    const size_t shift = SHIFT_BYTES / kg_precision_bytes(precision);
    float *shifted = kg_xcalloc(n + shift, sizeof *shifted);
    memcpy(shifted + shift, x, n * sizeof *x);
    const char *data = kg_op_device_put_as(d, shifted, n + shift, precision);
    free(shifted);
    return data + SHIFT_BYTES;
}

static struct kg_fused_call call_of(struct kg_op_device *d, const struct problem *p) {
    const struct op_case *c = p->c;
    const struct variant *v = c->variant;
    const enum kg_precision x = v->wide && p->norm ? KG_PRECISION_F32 : c->mode->precision;
    const size_t n_x = (size_t)c->n_rows * c->size->n_in;
    struct kg_fused_call call = { .op = p->op,
                                  .activations = c->mode->precision,
                                  .n_rows = c->n_rows,
                                  .n_cols = c->size->n_in,
                                  .eps = EPS,
                                  .wide = v->wide,
                                  .limit = v->limit,
                                  .alpha = v->alpha,
                                  .up_offset = v->up_offset,
                                  .cubic = v->cubic };
    const struct kg_backend_ops *ops = d->backend->ops;
    uint32_t widest = c->size->n_in;
    struct kg_error err;
    call.x = v->shifted ? put_shifted(d, p->x, n_x, x) : kg_op_device_put_as(d, p->x, n_x, x);
    if (p->norm) call.norm_weight = kg_op_device_put(d, p->norm, c->size->n_in * sizeof *p->norm);
    for (uint32_t i = 0; i < p->n_matrices; i++) {
        const uint32_t n_out = c->size->n_out[i];
        struct kg_weight *w = &call.weight[i];
        *w = (struct kg_weight){ .dtype = c->mode->weight, .n_rows = n_out, .n_cols = c->size->n_in };
        w->data = kg_op_device_put(d, p->bytes[i], n_out * kg_weight_row_bytes(w));
        if (ops->repack_weight && !c->mode->in_file) kg_op_expect_ok(ops->repack_weight(d->backend, w, 1, &err), &err);
        if (p->bias[i]) call.bias[i] = kg_op_device_put(d, p->bias[i], n_out * sizeof *p->bias[i]);
        if (n_out > widest) widest = n_out;
    }
    if (!c->mode->ops) kg_op_device_workspace(d, c->n_rows, widest, 1, 1, 64, 64);
    call.workspace = d->workspace;
    return call;
}

struct results {
    struct kg_op_output y[KG_FUSED_MATRICES];
    void *at[KG_FUSED_MATRICES];
};

static void results_init(struct kg_op_device *d, const struct problem *p, const struct kg_fused_call *call,
                         struct results *to) {
    const enum kg_precision precision = kg_fused_result_precision(call);
    *to = (struct results){ 0 };
    for (uint32_t i = 0; i < p->n_results; i++) {
        const size_t n = (size_t)p->c->n_rows * p->c->size->n_out[i];
        if (p->residual) kg_op_output_init_from(d, &to->y[i], p->residual, n, precision);
        else kg_op_output_init(d, &to->y[i], n, precision);
        to->at[i] = to->y[i].y;
    }
}

static void results_free(const struct problem *p, struct results *of) {
    for (uint32_t i = 0; i < p->n_results; i++) kg_op_output_free(&of->y[i]);
}

/* Fetched; those of the rows that are looked at, or of all: (rows, results of a row), malloc'ed. */
static float *gather(struct kg_op_device *d, const struct problem *p, struct results *of, bool all) {
    const uint32_t n_rows = all ? p->c->n_rows : p->n_rows;
    float *out = kg_xcalloc(n_rows * p->n_row, sizeof *out), *to = out;
    for (uint32_t i = 0; i < p->n_results && all; i++) kg_op_output_read_all(d, &of->y[i], "y");
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t i = 0; i < p->n_results; i++) {
            const size_t n = p->c->size->n_out[i];
            memcpy(to, of->y[i].host.data + (all ? r : p->rows[r]) * n, n * sizeof *to);
            to += n;
        }
    return out;
}

/* What n results of a case are held to. */
static const struct kg_tolerance *limits(const struct mode *mode, size_t n_results) {
    return mode->precision == KG_PRECISION_F16 && n_results < FEW_RESULTS ? &FEW_F16 : &mode->tol;
}

static bool open_mode(struct kg_record *rec, const struct mode *mode, struct kg_op_device *d) {
    return kg_op_device_open(rec, mode->backend, mode->ops ? mode->ops() : NULL, d);
}

/* The kernels of one row, and those of few, are for compute capability 9.0. */
static bool has_kernels(const struct mode *mode) {
    struct kg_gpu_info gpu;
    struct kg_error err;
    size_t n = 0;
    if (strcmp(mode->backend, "cuda") != 0) return false;
    kg_op_expect_ok(kg_gpu_list(&gpu, 1, &n, &err), &err);
    return n > 0 && gpu.compute_capability == 90;
}

/* Where kernels take steps together they leave scratch alone, from some byte on: so that a comparison of steps with
 * themselves is not taken for one. UINT64_MAX: nothing is said. */
static uint64_t unwritten_from(const struct op_case *c) {
    const struct mode *mode = c->mode;
    const struct size *s = c->size;
    const bool whole = s->n_in % 8 == 0 && !c->variant->shifted, plain = kg_dtype_info(mode->weight)->block_elems == 1,
               wide = mode->precision == KG_PRECISION_F32 || c->variant->wide;
    if (!has_kernels(mode)) return UINT64_MAX;
    if (c->n_rows == 1) return whole && !mode->in_file ? 0 : UINT64_MAX;
    if (c->n_rows <= 8 || !plain) return UINT64_MAX;
    if (c->variant->op == KG_FUSED_LINEAR_ADD)
        return s->n_in > 1 && s->n_out[0] > 1 && (!c->variant->bias || wide) ? 0 : UINT64_MAX;
    return c->variant->op == KG_FUSED_NORM_SWIGLU && whole && c->n_rows == 64 && mode->precision == KG_PRECISION_F16
               ? kg_scratch_bytes(c->n_rows, s->n_in, mode->precision)
               : UINT64_MAX;
}

static void expect_unwritten(struct kg_op_device *d, const struct op_case *c, const struct kg_fused_scratch *scratch) {
    struct kg_error err;
    const uint64_t from = unwritten_from(c);
    if (from == UINT64_MAX) return;
    unsigned char *bytes = kg_xmalloc(scratch->size_bytes);
    kg_op_expect_ok(d->backend->ops->download(d->backend, bytes, scratch->data, scratch->size_bytes, &err), &err);
    for (uint64_t i = from; i < scratch->size_bytes; i++)
        if (bytes[i] != KG_FUSED_UNWRITTEN)
            ck_abort_msg("no kernel took the steps together: byte %zu of scratch", (size_t)i);
    free(bytes);
}

static void is_what_it_stands_for(struct kg_record *rec, const void *arg) {
    const struct op_case *c = arg;
    struct kg_op_device d;
    struct problem p;
    struct results fused, apart;
    struct kg_fused_scratch scratch;
    struct kg_error err;
    if (!open_mode(rec, c->mode, &d)) return;
    problem_init(&p, c, kg_record_seed(rec));
    const struct kg_fused_call call = call_of(&d, &p);
    results_init(&d, &p, &call, &fused);
    results_init(&d, &p, &call, &apart);
    kg_op_expect_ok(kg_fused_run(&d, &call, fused.at, &scratch, &err), &err);
    expect_unwritten(&d, c, &scratch);
    kg_op_expect_ok(kg_fused_run_apart(&d, &call, apart.at, &err), &err);
    float *got = gather(&d, &p, &fused, true), *plain = gather(&d, &p, &apart, true);
    const size_t n = c->n_rows * p.n_row, n_looked_at = p.n_rows * p.n_row;
    kg_expect_close_f32(rec, "fused_against_unfused", got, plain, n, limits(c->mode, n));
    float *looked_at = gather(&d, &p, &fused, false);
    double *want = in_float64(&p);
    kg_expect_close_f64(rec, "against_float64", looked_at, want, n_looked_at, limits(c->mode, n_looked_at));
    free(want), free(looked_at), free(plain), free(got);
    results_free(&p, &apart);
    results_free(&p, &fused);
    problem_free(&p);
    kg_op_device_close(&d);
}

/* Mistakes. */
static void epsilon_left_out(struct kg_fused_call *c) {
    c->eps = 0;
}
static void swap_weights(struct kg_fused_call *c, int a, int b) {
    const struct kg_weight w = c->weight[a];
    c->weight[a] = c->weight[b];
    c->weight[b] = w;
}
static void keys_and_values_swapped(struct kg_fused_call *c) {
    swap_weights(c, 1, 2);
}
static void gate_and_up_swapped(struct kg_fused_call *c) {
    swap_weights(c, 0, 1);
}
static void bias_left_out(struct kg_fused_call *c) {
    c->bias[0] = NULL;
}
static void limit_left_out(struct kg_fused_call *c) {
    c->limit = 0;
}
static void nothing(struct kg_fused_call *c) {
    (void)c;
}

static const struct mutant {
    const char *name, *variant; /* of VARIANTS */
    void (*change)(struct kg_fused_call *call);
    int n_runs;
    bool norm_of_ones;
} MUTANTS[] = {
    { "norm_weight_left_out_of_norm_qkv", "norm_qkv", nothing, 1, true },
    { "norm_weight_left_out_of_norm_swiglu", "norm_swiglu", nothing, 1, true },
    { "epsilon_left_out_of_norm_qkv", "norm_qkv", epsilon_left_out, 1, false },
    { "epsilon_left_out_of_norm_swiglu", "norm_swiglu", epsilon_left_out, 1, false },
    { "keys_and_values_swapped", "norm_qkv", keys_and_values_swapped, 1, false },
    { "bias_left_out_of_norm_qkv", "norm_qkv_biases", bias_left_out, 1, false },
    { "gate_and_up_swapped", "norm_swiglu", gate_and_up_swapped, 1, false },
    { "bias_left_out_of_norm_swiglu", "norm_swiglu_biases", bias_left_out, 1, false },
    { "limit_left_out", "norm_swiglu_clamped", limit_left_out, 1, false },
    { "product_added_twice", "linear_add", nothing, 2, false },
    { "product_not_added", "linear_add", nothing, 0, false },
    { "bias_left_out_of_linear_add", "linear_add_bias", bias_left_out, 1, false },
};

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct op_case *c = arg;
    struct kg_op_device d;
    struct problem p;
    struct results y;
    struct kg_fused_scratch scratch;
    struct kg_error err;
    struct kg_compare difference;
    double margin;
    if (!open_mode(rec, c->mode, &d)) return;
    problem_init(&p, c, kg_record_seed(rec));
    double *want = in_float64(&p);
    for (uint32_t i = 0; i < c->size->n_in && c->mutant->norm_of_ones; i++) p.norm[i] = 1;
    struct kg_fused_call call = call_of(&d, &p);
    c->mutant->change(&call);
    results_init(&d, &p, &call, &y);
    for (int i = 0; i < c->mutant->n_runs; i++) kg_op_expect_ok(kg_fused_run(&d, &call, y.at, &scratch, &err), &err);
    float *all = gather(&d, &p, &y, true), *got = gather(&d, &p, &y, false);
    const size_t n = p.n_rows * p.n_row;
    kg_compare_f64(got, want, n, &difference);
    ck_assert_msg(!kg_within(&difference, limits(c->mode, n), &margin), "the mutant lives, at %.4g of the tolerance",
                  margin);
    kg_record_compare(rec, "against_float64", &difference, limits(c->mode, n));
    kg_record_metric(rec, "kill_factor", "ratio", margin);
    free(got), free(all), free(want);
    results_free(&p, &y);
    problem_free(&p);
    kg_op_device_close(&d);
}

static void add(struct kg_case_list *cases, const struct op_case *c) {
    const struct size *s = c->size;
    char shape[96];
    if (n_kept == KG_COUNT_OF(kept)) abort(); /* a case left out unseen would be a hole */
    kept[n_kept] = *c;
    if (c->variant->op == KG_FUSED_NORM_QKV)
        snprintf(shape, sizeof shape, "rows=%u in=%u out=%u/%u/%u", c->n_rows, s->n_in, s->n_out[0], s->n_out[1],
                 s->n_out[2]);
    else snprintf(shape, sizeof shape, "rows=%u in=%u out=%u", c->n_rows, s->n_in, s->n_out[0]);
    kg_case_list_add(cases, &(struct kg_case){ .layer = c->mutant ? "mutation" : "tolerance",
                                               .op = "fused_ops",
                                               .name = c->mutant ? c->mutant->name : c->variant->name,
                                               .backend = c->mode->backend,
                                               .dtype = c->mode->dtype,
                                               .shape = shape,
                                               .spec = "FT-055",
                                               .timeout_s = 120,
                                               .run = c->mutant ? mutant_is_rejected : is_what_it_stands_for,
                                               .arg = &kept[n_kept++] });
}

enum { ONE_SIZE = 2 }; /* of SIZES: where a variant is not of every one */

/* The CPU takes few rows, and those of the largest size fewer. A result by itself may be a small difference of product
 * and bias, of which a limit relative to it says nothing. */
static void add_variant(struct kg_case_list *cases, const struct mode *mode, const struct variant *v) {
    static const uint32_t ROWS[] = { 1, 7, 64, 512 };
    const bool on_cpu = strcmp(mode->backend, "cpu") == 0;
    if (v->wide && mode->precision == KG_PRECISION_F32) return;
    for (size_t s = 0; s < KG_COUNT_OF(SIZES[v->op]); s++) {
        const struct size *size = &SIZES[v->op][s];
        if (size->n_in % kg_dtype_info(mode->weight)->block_elems != 0 || (!v->every_size && s < ONE_SIZE)) continue;
        if (v->bias && size->n_out[0] == 1) continue;
        for (size_t r = 0; r < KG_COUNT_OF(ROWS); r++) {
            const bool few = (!on_cpu && v->every_size) || ROWS[r] <= (size->n_in > 1000 ? 7 : 64);
            if (few) add(cases, &(struct op_case){ mode, v, size, NULL, ROWS[r] });
        }
        if (!v->every_size) return;
    }
}

static const struct variant *variant_named(const char *name) {
    const struct variant *v = VARIANTS;
    while (strcmp(v->name, name) != 0) v++;
    return v;
}

static void build(struct kg_case_list *cases) {
    for (size_t m = 0; m < KG_COUNT_OF(MODES); m++) {
        for (size_t v = 0; v < KG_COUNT_OF(VARIANTS); v++) add_variant(cases, &MODES[m], &VARIANTS[v]);
        for (size_t i = 0; i < KG_COUNT_OF(MUTANTS); i++)
            for (uint32_t n_rows = 1; n_rows <= 64; n_rows += 63) {
                const struct variant *v = variant_named(MUTANTS[i].variant);
                add(cases, &(struct op_case){ &MODES[m], v, &SIZES[v->op][ONE_SIZE], &MUTANTS[i], n_rows });
            }
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
