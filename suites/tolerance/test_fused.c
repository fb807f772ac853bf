/* FT-055: what back ends fuse of a layer (fused_chain.h), at hidden sizes and rows of all kinds, against float64 loops
 * over the same inputs and against the same nodes one by one. Then mutants, which must be outside the limits. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/harness/must.h"
#include "suites/support/float64_loops.h"
#include "suites/support/fused_chain.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS_LOOKED_AT = 6, FIRST_POSITION = 3, SLOTS_AFTER = 2 };

#define QKV(in, heads, kv, dim)                                                                                        \
    { .kind = KG_CHAIN_NORM_QKV, .n_in = in, .n_heads = heads, .n_kv_heads = kv, .head_dim = dim, .eps = 1e-5f }
#define SWIGLU(in, out)                                                                                                \
    { .kind = KG_CHAIN_NORM_SWIGLU, .n_in = in, .n_out = out, .eps = 1e-5f }
#define RESIDUAL(in, out)                                                                                              \
    { .kind = KG_CHAIN_RESIDUAL, .n_in = in, .n_out = out }
/* many: at 4,096 rows too. */
static const struct size {
    struct kg_chain_shape shape;
    bool bias, many;
} SIZES[] = {
    { QKV(1, 1, 1, 2), false, false },      { QKV(63, 3, 1, 20), true, false },
    { QKV(64, 4, 2, 16), true, false },     { QKV(896, 14, 2, 64), true, true },
    { QKV(2880, 64, 8, 64), true, false },  { QKV(3072, 32, 32, 96), false, false },
    { QKV(8192, 8, 1, 128), false, false }, { SWIGLU(1, 3), false, false },
    { SWIGLU(63, 1), false, false },        { SWIGLU(64, 70), false, false },
    { SWIGLU(896, 4864), false, true },     { SWIGLU(2880, 2881), false, false },
    { SWIGLU(128, 4864), false, false },    { SWIGLU(3072, 2056), false, false },
    { SWIGLU(8192, 1030), false, false },   { RESIDUAL(63, 1), false, false },
    { RESIDUAL(1, 63), false, false },      { RESIDUAL(70, 64), true, false },
    { RESIDUAL(4864, 896), false, true },   { RESIDUAL(4096, 2880), true, false },
    { RESIDUAL(8192, 3072), false, false }, { RESIDUAL(1030, 8192), false, false },
};

static const struct form {
    const char *backend, *dtype;
    enum kg_precision precision;
    enum kg_dtype weight;
    struct kg_tolerance tol;
} FORMS[] = {
    { "cpu",
      "f32",
      KG_PRECISION_F32,
      KG_DTYPE_F32,
      { .max_abs = 1e-5,
        .nmse = 5e-14,
        .why = "float64 sums, norm, product, rotation or gate each rounded to float32: 2^-24 of it, squared" } },
    { "cuda",
      "f32",
      KG_PRECISION_F32,
      KG_DTYPE_F32,
      { .max_abs = 1e-4,
        .nmse = 1e-12,
        .why = "FP32 results: 1e-4; float32 sums of up to 8192 products: 16 roundings, 2^-24 each, squared" } },
    { "cuda",
      "f16",
      KG_PRECISION_F16,
      KG_DTYPE_F16,
      { .max_abs = 1e-2,
        .nmse = 1e-6,
        .why = "FT-055: 1e-2; of norm, product, rotation or gate each rounded to float16, 2^-11 of it, squared" } },
};

/* Of float16 a few results say little of the mean: each of them is at most this far. A norm rounded is of gate and up
 * both, each of which is rounded, and their product is: 5 roundings of 2^-11, squared. */
enum { FEW_RESULTS = 64 };
static const struct kg_tolerance FEW_F16 = {
    .max_abs = 1e-2,
    .nmse = 6e-6,
    .why = "FT-055: 1e-2; of fewer than 64 results the farthest: 5 roundings to float16, 2^-11 each, squared"
};

/* Mistakes. */
static void epsilon_left_out(struct kg_node *n) {
    n[0].args.rmsnorm.eps = 0;
}
static void epsilon_of_another_model(struct kg_node *n) {
    n[0].args.rmsnorm.eps = 1e-6f;
}
static void bias_of_queries_left_out(struct kg_node *n) {
    n[1].args.linear.bias = NULL;
}
static void values_by_weight_of_keys(struct kg_node *n) {
    n[3].args.linear.weight.data = n[2].args.linear.weight.data;
}
static void keys_rotated_by_another_base(struct kg_node *n) {
    n[5].args.rope.freq_base = 500;
}
static void gate_and_up_swapped(struct kg_node *n) {
    const void *gate = n[1].args.linear.weight.data;
    n[1].args.linear.weight.data = n[2].args.linear.weight.data;
    n[2].args.linear.weight.data = gate;
}
static void up_by_weight_of_gate(struct kg_node *n) {
    n[2].args.linear.weight.data = n[1].args.linear.weight.data;
}
static void bias_left_out(struct kg_node *n) {
    n[0].args.linear.bias = NULL;
}
static void nothing(struct kg_node *n) {
    (void)n;
}

/* norm_of_ones: in place of the norm's weight. */
static const struct mutant {
    const char *name;
    struct kg_chain_shape shape;
    bool bias;
    void (*change)(struct kg_node *nodes);
    int n_runs;
    bool norm_of_ones;
} MUTANTS[] = {
    { "norm_weight_left_out", QKV(64, 4, 2, 16), true, nothing, 1, true },
    { "norm_weight_left_out", SWIGLU(896, 512), false, nothing, 1, true },
    { "epsilon_left_out", QKV(896, 14, 2, 64), true, epsilon_left_out, 1, false },
    { "epsilon_of_another_model", SWIGLU(64, 70), false, epsilon_of_another_model, 1, false },
    { "bias_of_queries_left_out", QKV(64, 4, 2, 16), true, bias_of_queries_left_out, 1, false },
    { "values_by_weight_of_keys", QKV(896, 14, 2, 64), true, values_by_weight_of_keys, 1, false },
    { "keys_rotated_by_another_base", QKV(896, 14, 2, 64), true, keys_rotated_by_another_base, 1, false },
    { "gate_and_up_swapped", SWIGLU(896, 512), false, gate_and_up_swapped, 1, false },
    { "up_by_weight_of_gate", SWIGLU(64, 70), false, up_by_weight_of_gate, 1, false },
    { "residual_twice", RESIDUAL(512, 896), false, nothing, 2, false },
    { "residual_left_out", RESIDUAL(512, 896), false, nothing, 0, false },
    { "bias_left_out", RESIDUAL(70, 64), true, bias_left_out, 1, false },
};

struct fused_case {
    struct kg_chain_shape shape;
    bool bias;
    const struct form *form;
    const struct mutant *mutant; /* NULL: none */
};
static struct fused_case kept[1024];
static size_t n_kept;

/* Host data, of values that the form's types hold. */
struct problem {
    const struct fused_case *c;
    float *x, *norm, *w[KG_CHAIN_MATRICES], *bias[KG_CHAIN_MATRICES], *residual;
    uint32_t rows[MOST_ROWS_LOOKED_AT], n_rows;
    size_t n_row; /* results of a row */
};

static void problem_init(struct problem *p, const struct fused_case *c, uint64_t seed) {
    const struct kg_chain_shape *s = &c->shape;
    const enum kg_precision precision = c->form->precision;
    const size_t n_x = (size_t)s->n_rows * s->n_in;
    /* Gates and ups are multiplied: of size 0.4 their product is of size 1 at most, as in models. */
    const double size = s->kind == KG_CHAIN_NORM_SWIGLU ? 0.4 : 1;
    *p = (struct problem){ .c = c };
    /* A mean square of 1e-4, so that an epsilon of 1e-5 is 5% of the result. */
    p->x = kg_loops_normal(n_x, seed, 0, s->kind == KG_CHAIN_RESIDUAL ? 1 : 0.01, precision);
    if (s->kind != KG_CHAIN_RESIDUAL) p->norm = kg_loops_normal(s->n_in, seed + 1, 1, 0.2, KG_PRECISION_F32);
    for (uint32_t i = 0; i < kg_chain_n_matrices(s->kind); i++) {
        const uint32_t n_out = kg_chain_outputs(s, i);
        p->w[i] = kg_loops_normal((size_t)n_out * s->n_in, seed + 2 + i, 0, size / sqrt(s->n_in), precision);
        if (c->bias) p->bias[i] = kg_loops_normal(n_out, seed + 5 + i, 0, 0.5, KG_PRECISION_F32);
        p->n_row += n_out;
    }
    if (s->kind == KG_CHAIN_NORM_SWIGLU) p->n_row = s->n_out;
    if (s->kind == KG_CHAIN_RESIDUAL)
        p->residual = kg_loops_normal((size_t)s->n_rows * s->n_out, seed + 8, 0, 1, precision);
    /* Rows of both ends of the 8, 32, 64 or 128 that kernels take at once. */
    const uint32_t wanted[] = { 0, 8, 31, 64, s->n_rows / 2, s->n_rows - 1 };
    for (size_t i = 0; i < KG_COUNT_OF(wanted); i++)
        if (wanted[i] < s->n_rows && (p->n_rows == 0 || wanted[i] > p->rows[p->n_rows - 1]))
            p->rows[p->n_rows++] = wanted[i];
}

static void problem_free(struct problem *p) {
    for (int i = 0; i < KG_CHAIN_MATRICES; i++) free(p->bias[i]), free(p->w[i]);
    free(p->residual), free(p->norm), free(p->x);
}

/* The rows looked at, normalised where the chain does; as float32, whose rounding is within the limits. */
static float *inputs(const struct problem *p) {
    const struct kg_chain_shape *s = &p->c->shape;
    float *rows = kg_xcalloc((size_t)p->n_rows * s->n_in, sizeof *rows);
    for (uint32_t r = 0; r < p->n_rows; r++) {
        const float *x = p->x + (size_t)p->rows[r] * s->n_in;
        double squares = 0;
        for (uint32_t i = 0; i < s->n_in; i++) squares += (double)x[i] * x[i];
        const double inverse = 1 / sqrt(squares / s->n_in + s->eps);
        for (uint32_t i = 0; i < s->n_in; i++)
            rows[(size_t)r * s->n_in + i] = p->norm ? (float)(x[i] * inverse * p->norm[i]) : x[i];
    }
    return rows;
}

/* Heads of a row rotated by its position: dims i and i + head_dim / 2 are a pair. */
static void rotate(const struct kg_chain_shape *s, uint32_t row, const double *from, uint32_t n_heads, double *to) {
    const uint32_t half = s->head_dim / 2, position = s->position + row;
    for (uint32_t h = 0; h < n_heads; h++)
        for (uint32_t i = 0; i < half; i++) {
            const double angle = position * pow(10000, -2.0 * i / s->head_dim), c = cos(angle), sine = sin(angle);
            const double a = from[h * s->head_dim + i], b = from[h * s->head_dim + half + i];
            to[h * s->head_dim + i] = a * c - b * sine;
            to[h * s->head_dim + half + i] = a * sine + b * c;
        }
}

/* What comes of the products of row r of those looked at. */
static void finish(const struct problem *p, uint32_t r, const double *const product[KG_CHAIN_MATRICES], double *out) {
    const struct kg_chain_shape *s = &p->c->shape;
    if (s->kind == KG_CHAIN_NORM_SWIGLU)
        for (uint32_t i = 0; i < s->n_out; i++) out[i] = product[0][i] / (1 + exp(-product[0][i])) * product[1][i];
    if (s->kind == KG_CHAIN_RESIDUAL)
        for (uint32_t i = 0; i < s->n_out; i++) out[i] = p->residual[(size_t)p->rows[r] * s->n_out + i] + product[0][i];
    if (s->kind != KG_CHAIN_NORM_QKV) return;
    const size_t n_q = kg_chain_outputs(s, 0), n_k = kg_chain_outputs(s, 1);
    rotate(s, p->rows[r], product[0], s->n_heads, out);
    rotate(s, p->rows[r], product[1], s->n_kv_heads, out + n_q);
    memcpy(out + n_q + n_k, product[2], n_k * sizeof *out);
}

/* (rows looked at, results of a row) */
static double *in_float64(const struct problem *p) {
    const struct kg_chain_shape *s = &p->c->shape;
    const struct kg_loops_mode mode = {
        .backend = "cpu", .activations = KG_PRECISION_F32, .output = KG_PRECISION_F32, .weight = p->c->form->weight
    };
    float *rows = inputs(p);
    double *product[KG_CHAIN_MATRICES], *out = kg_xcalloc(p->n_rows * p->n_row, sizeof *out);
    for (uint32_t i = 0; i < KG_CHAIN_MATRICES; i++) {
        const uint32_t n_out = i < kg_chain_n_matrices(s->kind) ? kg_chain_outputs(s, i) : 0;
        const struct kg_loops_linear l = { p->n_rows, n_out, s->n_in, rows, p->w[i], p->bias[i] };
        double *limit = kg_xcalloc((size_t)p->n_rows * n_out + 1, sizeof *limit);
        product[i] = kg_xcalloc((size_t)p->n_rows * n_out + 1, sizeof *product[i]);
        if (n_out > 0) kg_loops_linear(&mode, &l, product[i], limit);
        free(limit);
    }
    for (uint32_t r = 0; r < p->n_rows; r++) {
        const double *of_row[KG_CHAIN_MATRICES];
        for (uint32_t i = 0; i < KG_CHAIN_MATRICES; i++)
            of_row[i] = product[i] + (i < kg_chain_n_matrices(s->kind) ? (size_t)r * kg_chain_outputs(s, i) : 0);
        finish(p, r, of_row, out + r * p->n_row);
    }
    for (int i = 0; i < KG_CHAIN_MATRICES; i++) free(product[i]);
    free(rows);
    return out;
}

/* On the device. */
struct place {
    struct kg_chain_memory memory;
    struct kg_op_output y[KG_CHAIN_MATRICES], cache[2], residual;
    void *normed;
};

static void put_inputs(struct kg_op_device *d, const struct problem *p, struct kg_chain_memory *m) {
    const struct kg_chain_shape *s = &p->c->shape;
    const enum kg_precision precision = p->c->form->precision;
    uint32_t widest = s->n_in;
    m->x = kg_op_device_put_as(d, p->x, (size_t)s->n_rows * s->n_in, precision);
    if (p->norm) m->norm = kg_op_device_put(d, p->norm, s->n_in * sizeof *p->norm);
    for (uint32_t i = 0; i < kg_chain_n_matrices(s->kind); i++) {
        const uint32_t n_out = kg_chain_outputs(s, i);
        m->w[i] = kg_op_device_put_as(d, p->w[i], (size_t)n_out * s->n_in, precision);
        if (p->bias[i]) m->bias[i] = kg_op_device_put(d, p->bias[i], n_out * sizeof *p->bias[i]);
        if (n_out > widest) widest = n_out;
    }
    kg_op_device_workspace(d, s->n_rows, widest, 1, 1, 64, 64);
    m->workspace = d->workspace;
}

static void place_init(struct kg_op_device *d, const struct problem *p, const struct kg_chain_memory *inputs_,
                       struct place *at) {
    const struct kg_chain_shape *s = &p->c->shape;
    const enum kg_precision precision = p->c->form->precision;
    *at = (struct place){ .memory = *inputs_ };
    if (p->norm)
        at->memory.normed = kg_op_device_put_as(d, p->x, (size_t)s->n_rows * s->n_in, precision); /* written over */
    for (uint32_t i = 0; i < kg_chain_n_matrices(s->kind); i++) {
        kg_op_output_init(d, &at->y[i], (size_t)s->n_rows * kg_chain_outputs(s, i), precision);
        at->memory.y[i] = at->y[i].y;
    }
    if (s->kind == KG_CHAIN_RESIDUAL) {
        kg_op_output_init_from(d, &at->residual, p->residual, (size_t)s->n_rows * s->n_out, precision);
        at->memory.residual = at->residual.y;
    }
    for (int i = 0; i < 2 && s->kind == KG_CHAIN_NORM_QKV; i++)
        kg_op_output_init(d, &at->cache[i], (size_t)s->n_kv_heads * s->n_ctx * s->head_dim, precision);
    at->memory.k_cache = at->cache[0].y, at->memory.v_cache = at->cache[1].y;
}

static void place_free(struct place *at) {
    for (int i = 0; i < KG_CHAIN_MATRICES; i++) kg_op_output_free(&at->y[i]);
    for (int i = 0; i < 2; i++) kg_op_output_free(&at->cache[i]);
    kg_op_output_free(&at->residual);
}

/* Slots of no row are as they were. */
static void expect_other_slots_untouched(const struct kg_chain_shape *s, const struct kg_op_output *cache) {
    for (size_t i = 0; i < (size_t)s->n_kv_heads * s->n_ctx * s->head_dim; i++) {
        const uint32_t slot = (uint32_t)(i / s->head_dim % s->n_ctx);
        const bool is_row = slot >= s->position && slot < s->position + s->n_rows;
        ck_assert_msg(is_row || isnan(cache->host.data[i]), "slot %u was written", slot);
    }
}

/* Results of row r, to out. */
static void gather(const struct kg_chain_shape *s, const struct place *at, uint32_t row, float *out) {
    const struct kg_op_output *y = s->kind == KG_CHAIN_RESIDUAL ? &at->residual : &at->y[0];
    const size_t n_y = kg_chain_outputs(s, 0);
    memcpy(out, y->host.data + row * n_y, n_y * sizeof *out);
    out += n_y;
    for (int i = 0; i < 2 && s->kind == KG_CHAIN_NORM_QKV; i++)
        for (uint32_t h = 0; h < s->n_kv_heads; h++, out += s->head_dim)
            memcpy(out, at->cache[i].host.data + ((size_t)h * s->n_ctx + s->position + row) * s->head_dim,
                   s->head_dim * sizeof *out);
}

static void read_results(struct kg_op_device *d, const struct kg_chain_shape *s, struct place *at) {
    if (s->kind == KG_CHAIN_RESIDUAL) kg_op_output_read_all(d, &at->residual, "residual");
    else kg_op_output_read_all(d, &at->y[0], s->kind == KG_CHAIN_NORM_QKV ? "q" : "gated");
    for (int i = 0; i < 2 && s->kind == KG_CHAIN_NORM_QKV; i++) {
        kg_op_output_read(d, &at->cache[i]);
        expect_other_slots_untouched(s, &at->cache[i]);
    }
}

/* A decode step is captured when it runs the second time: what the graph leaves is what counts. */
static void run_fused(struct kg_op_device *d, const struct problem *p, struct place *at, struct kg_fused_chain *chain) {
    const struct kg_chain_shape *s = &p->c->shape;
    const int n_runs = p->c->mutant ? p->c->mutant->n_runs : 1;
    struct kg_error err;
    if (s->n_rows == 1 && chain->lowered) {
        kg_must(kg_fused_chain_run(chain, &err), &err);
        if (p->residual) {
            const size_t n_bytes = s->n_out * kg_precision_bytes(p->c->form->precision);
            void *fresh = kg_op_device_put_as(d, p->residual, s->n_out, p->c->form->precision),
                 *host = kg_xmalloc(n_bytes);
            kg_must(d->backend->ops->download(d->backend, host, fresh, n_bytes, &err), &err);
            kg_must(d->backend->ops->upload(d->backend, at->memory.residual, host, n_bytes, &err), &err);
            free(host);
        }
    }
    for (int i = 0; i < n_runs; i++) kg_must(kg_fused_chain_run(chain, &err), &err);
    read_results(d, s, at);
}

/* What n_results of a case are held to. */
static const struct kg_tolerance *limits(const struct form *form, size_t n_results) {
    return form->precision == KG_PRECISION_F16 && n_results < FEW_RESULTS ? &FEW_F16 : &form->tol;
}

/* All rows of both ways. */
static void compare_ways(struct kg_record *rec, const struct problem *p, const struct place *fused,
                         const struct place *apart) {
    const struct kg_chain_shape *s = &p->c->shape;
    float *got = kg_xcalloc(s->n_rows * p->n_row, sizeof *got), *want = kg_xcalloc(s->n_rows * p->n_row, sizeof *want);
    for (uint32_t r = 0; r < s->n_rows; r++) {
        gather(s, fused, r, got + r * p->n_row);
        gather(s, apart, r, want + r * p->n_row);
    }
    kg_expect_close_f32(rec, "fused_against_unfused", got, want, s->n_rows * p->n_row,
                        limits(p->c->form, s->n_rows * p->n_row));
    free(want), free(got);
}

/* The results of the rows looked at. */
static float *looked_at(const struct problem *p, const struct place *at) {
    float *got = kg_xcalloc(p->n_rows * p->n_row, sizeof *got);
    for (uint32_t r = 0; r < p->n_rows; r++) gather(&p->c->shape, at, p->rows[r], got + r * p->n_row);
    return got;
}

/* Of rows, more than matrix-vector products take, whose matrices are no vectors and have no bias: what must be fused,
 * so that a comparison of a chain with itself is not taken for one. */
static void expect_taken(const struct fused_case *c, const struct kg_fused_chain *chain) {
    static const uint32_t NODES[KG_N_CHAINS] = {
        [KG_CHAIN_NORM_QKV] = 6, [KG_CHAIN_NORM_SWIGLU] = 3, [KG_CHAIN_RESIDUAL] = 2
    };
    const struct kg_chain_shape *s = &c->shape;
    const bool is_f16 = c->form->precision == KG_PRECISION_F16;
    if (!chain->lowered || s->n_rows <= 8 || s->n_in == 1 || kg_chain_outputs(s, 0) == 1 || c->bias) return;
    const uint32_t wanted = s->kind == KG_CHAIN_NORM_SWIGLU && !is_f16 ? 0 : NODES[s->kind];
    ck_assert_msg(chain->n_taken == wanted, "fusions took %u nodes, not %u", chain->n_taken, wanted);
}

static void as_float64(struct kg_record *rec, const void *arg) {
    const struct fused_case *c = arg;
    struct kg_op_device d;
    struct problem p;
    struct kg_chain_memory memory = { 0 };
    struct place at, apart;
    struct kg_fused_chain chain;
    struct kg_error err;
    if (!kg_op_device_open(rec, c->form->backend, NULL, &d)) return;
    problem_init(&p, c, kg_record_seed(rec));
    put_inputs(&d, &p, &memory);
    place_init(&d, &p, &memory, &at);
    kg_fused_chain_open(d.backend, &c->shape, c->form->precision, &at.memory, 1, NULL, &chain);
    run_fused(&d, &p, &at, &chain);
    kg_fused_chain_record(rec, &chain);
    expect_taken(c, &chain);
    if (chain.lowered) {
        struct kg_fused_chain plain;
        place_init(&d, &p, &memory, &apart);
        kg_fused_chain_open(d.backend, &c->shape, c->form->precision, &apart.memory, 1, NULL, &plain);
        kg_must(kg_fused_chain_run_apart(&plain, &err), &err);
        read_results(&d, &c->shape, &apart);
        compare_ways(rec, &p, &at, &apart);
        kg_fused_chain_close(&plain);
        place_free(&apart);
    }
    float *got = looked_at(&p, &at);
    double *want = in_float64(&p);
    kg_expect_close_f64(rec, "against_float64", got, want, p.n_rows * p.n_row, limits(c->form, p.n_rows * p.n_row));
    free(want), free(got);
    kg_fused_chain_close(&chain);
    place_free(&at);
    problem_free(&p);
    kg_op_device_close(&d);
}

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct fused_case *c = arg;
    struct kg_op_device d;
    struct problem p;
    struct kg_chain_memory memory = { 0 };
    struct place at;
    struct kg_fused_chain chain;
    struct kg_compare difference;
    double margin;
    if (!kg_op_device_open(rec, c->form->backend, NULL, &d)) return;
    problem_init(&p, c, kg_record_seed(rec));
    double *want = in_float64(&p);
    for (uint32_t i = 0; i < c->shape.n_in && c->mutant->norm_of_ones; i++) p.norm[i] = 1;
    put_inputs(&d, &p, &memory);
    place_init(&d, &p, &memory, &at);
    kg_fused_chain_open(d.backend, &c->shape, c->form->precision, &at.memory, 1, c->mutant->change, &chain);
    run_fused(&d, &p, &at, &chain);
    float *got = looked_at(&p, &at);
    kg_compare_f64(got, want, p.n_rows * p.n_row, &difference);
    const struct kg_tolerance *tol = limits(c->form, p.n_rows * p.n_row);
    ck_assert_msg(!kg_within(&difference, tol, &margin), "the mutant lives, at %.4g of the tolerance", margin);
    kg_record_compare(rec, "against_float64", &difference, tol);
    kg_record_metric(rec, "kill_factor", "ratio", margin);
    free(want), free(got);
    kg_fused_chain_close(&chain);
    place_free(&at);
    problem_free(&p);
    kg_op_device_close(&d);
}

static void add(struct kg_case_list *cases, const struct kg_chain_shape *shape, bool bias, uint32_t n_rows,
                const struct form *form, const struct mutant *mutant) {
    struct fused_case *c = &kept[n_kept++];
    char name[64], size[96];
    *c = (struct fused_case){ *shape, bias, form, mutant };
    c->shape.n_rows = n_rows;
    c->shape.weight = form->weight;
    c->shape.position = FIRST_POSITION;
    c->shape.n_ctx = FIRST_POSITION + n_rows + SLOTS_AFTER;
    snprintf(name, sizeof name, "%s%s%s", mutant ? mutant->name : kg_chain_name(shape->kind), mutant ? "_of_" : "",
             mutant ? kg_chain_name(shape->kind) : "");
    if (shape->kind == KG_CHAIN_NORM_QKV)
        snprintf(size, sizeof size, "rows=%u in=%u heads=%u/%u D=%u%s", n_rows, shape->n_in, shape->n_heads,
                 shape->n_kv_heads, shape->head_dim, bias ? " biases" : "");
    else snprintf(size, sizeof size, "rows=%u in=%u out=%u%s", n_rows, shape->n_in, shape->n_out, bias ? " bias" : "");
    kg_case_list_add(cases, &(struct kg_case){ .layer = mutant ? "mutation" : "tolerance",
                                               .op = "fused",
                                               .name = name,
                                               .backend = form->backend,
                                               .dtype = form->dtype,
                                               .shape = size,
                                               .spec = "FT-055",
                                               .timeout_s = 120,
                                               .run = mutant ? mutant_is_rejected : as_float64,
                                               .arg = c });
}

static void build(struct kg_case_list *cases) {
    static const uint32_t ROWS[] = { 1, 2, 9, 32, 33, 512, 4096 };
    for (size_t f = 0; f < KG_COUNT_OF(FORMS); f++) {
        const bool on_cpu = strcmp(FORMS[f].backend, "cpu") == 0;
        for (size_t i = 0; i < KG_COUNT_OF(SIZES); i++)
            for (size_t r = 0; r < KG_COUNT_OF(ROWS); r++) {
                if (on_cpu ? ROWS[r] != 1 && ROWS[r] != 9 : ROWS[r] == 4096 && !SIZES[i].many) continue;
                add(cases, &SIZES[i].shape, SIZES[i].bias, ROWS[r], &FORMS[f], NULL);
            }
        for (size_t m = 0; m < KG_COUNT_OF(MUTANTS); m++)
            for (size_t r = 0; r < 5; r += 2) /* 1, 9, 33 */
                if (!on_cpu || r == 2) add(cases, &MUTANTS[m].shape, MUTANTS[m].bias, ROWS[r], &FORMS[f], &MUTANTS[m]);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
