#include "suites/bench/fused_work.h"
#include "base/buffer.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/harness/compare.h"
#include "suites/harness/must.h"
#include "suites/support/counters.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

static const enum kg_precision F16 = KG_PRECISION_F16;
enum { FEWEST_LAYERS = 4, ALIGNED_BYTES = 256, ALIGNED_ELEMS = 128 };

/* A table of the same functions by other names. */
#define APART(op)                                                                                                      \
    static enum kg_status apart_##op(struct kg_backend *backend, const struct kg_##op##_args *args,                    \
                                     struct kg_error *err) {                                                           \
        return kg_cuda_ops.op(backend, args, err);                                                                     \
    }
KG_OP_LIST(APART)
#undef APART
static const struct kg_backend_ops *apart_ops(void) {
    static struct kg_backend_ops ops;
    ops = kg_cuda_ops;
#define PUT(op) ops.op = apart_##op;
    KG_OP_LIST(PUT)
#undef PUT
    return &ops;
}

/* Rounded up to what begins another matrix or result. */
static uint64_t aligned(uint64_t n, uint64_t unit) {
    return (n + unit - 1) / unit * unit;
}

static bool has_cache(const struct kg_chain_shape *s) {
    return s->kind == KG_CHAIN_NORM_QKV || s->kind == KG_CHAIN_LAYER;
}

static bool has_residual(const struct kg_chain_shape *s) {
    return s->kind == KG_CHAIN_RESIDUAL || s->kind == KG_CHAIN_LAYER || s->kind == KG_CHAIN_EXPERTS;
}

static bool has_norm(const struct kg_chain_shape *s) {
    return s->kind != KG_CHAIN_RESIDUAL && s->kind != KG_CHAIN_EXPERTS;
}

static uint32_t n_experts_of(const struct kg_chain_shape *s) {
    return s->n_experts > 0 ? s->n_experts : 1;
}

/* Rows of a product's results. */
static uint64_t product_rows(const struct kg_chain_shape *s) {
    return (uint64_t)s->n_rows * (s->n_used > 0 ? s->n_used : 1);
}

static uint64_t cache_elems(const struct kg_chain_shape *s) {
    return (uint64_t)s->n_kv_heads * s->n_ctx * s->head_dim;
}

static struct kg_weight matrix_of(const struct kg_chain_shape *s, uint32_t i, const void *data) {
    return (struct kg_weight){ data, s->weight, n_experts_of(s) * kg_chain_outputs(s, i), kg_chain_inputs(s, i) };
}

static uint64_t matrix_bytes(const struct kg_chain_shape *s, uint32_t i) {
    const struct kg_weight w = matrix_of(s, i, NULL);
    return w.n_rows * kg_weight_row_bytes(&w);
}

uint64_t kg_fused_weight_bytes(const struct kg_chain_shape *s) {
    const uint64_t n_read = s->n_rows == 1 && s->n_used > 0 ? s->n_used : n_experts_of(s);
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < kg_chain_n_matrices(s->kind); i++) n_bytes += matrix_bytes(s, i);
    return n_bytes / n_experts_of(s) * n_read;
}

static struct kg_block *reserve(struct kg_fused_work *w, uint64_t size_bytes) {
    w->blocks[w->n_blocks] = kg_bench_alloc(w->machine, size_bytes);
    return &w->blocks[w->n_blocks++];
}

static struct kg_block *reserve_halves(struct kg_fused_work *w, uint64_t n) {
    return reserve(w, n * kg_precision_bytes(F16));
}

/* n normal values. */
static const float *make_floats(struct kg_fused_work *w, uint64_t n, uint64_t seed) {
    float *data = reserve(w, n * sizeof *data)->data;
    kg_bench_fill(w->machine, data, n, KG_PRECISION_F32, seed);
    return data;
}

static uint64_t elems_of(const struct kg_block *block) {
    return block->size_bytes / kg_precision_bytes(F16);
}

/* Encoded normal values of deviation 1 / sqrt(n_in), made once for all matrices of so many columns. Their blocks share
 * no factor with powers of two, so that no row is like another. */
struct values {
    enum kg_dtype dtype;
    uint32_t n_in;
    uint8_t *bytes;
    uint64_t n_blocks;
};

static const struct values *scaled_values(enum kg_dtype dtype, uint32_t n_in) {
    enum { N_VALUES = 1000003 };
    static struct values made;
    if (made.bytes && made.dtype == dtype && made.n_in == n_in) return &made;
    const struct kg_dtype_info *info = kg_dtype_info(dtype);
    const uint64_t n_blocks = (N_VALUES / info->block_elems - 1) | 1;
    float *normal = kg_xcalloc(N_VALUES, sizeof *normal);
    kg_fill_normal(normal, N_VALUES, 7, 0, 1 / sqrt(n_in));
    free(made.bytes);
    made = (struct values){ dtype, n_in, kg_xmalloc(n_blocks * info->block_bytes), n_blocks };
    info->encode(normal, made.bytes, n_blocks * info->block_elems);
    free(normal);
    return &made;
}

/* A matrix whose products with inputs of size 1 are of size 1: a residual stream stays finite through all iterations,
 * and so do products of gates and ups. Another seed begins elsewhere in the values. */
static void fill_matrix(const struct kg_fused_work *w, struct kg_weight *weight, uint8_t *data, uint64_t seed) {
    const struct values *values = scaled_values(weight->dtype, weight->n_cols);
    const uint64_t block_bytes = kg_dtype_info(weight->dtype)->block_bytes;
    const uint64_t n_blocks = weight->n_rows * kg_weight_row_bytes(weight) / block_bytes;
    struct kg_backend *backend = w->machine->backend;
    struct kg_error err;
    uint64_t at = seed * 7919 % values->n_blocks;
    for (uint64_t done = 0, n; done < n_blocks; done += n, at = 0) {
        const uint64_t left = n_blocks - done;
        n = left < values->n_blocks - at ? left : values->n_blocks - at;
        kg_must(backend->ops->upload(backend, data + done * block_bytes, values->bytes + at * block_bytes,
                                     n * block_bytes, &err),
                &err);
    }
    if (backend->ops->repack_weight && !backend->ops->weights_in_place)
        kg_must(backend->ops->repack_weight(backend, weight, n_experts_of(&w->shape), &err), &err);
}

static uint64_t workspace_bytes(const struct kg_fused_work *w) {
    const struct kg_chain_shape *s = &w->shape;
    const struct kg_attention_args attention = {
        .n_heads = s->n_heads, .n_kv_heads = s->n_kv_heads, .head_dim = s->head_dim, .n_ctx = s->n_ctx
    };
    uint32_t widest = s->n_in;
    for (uint32_t i = 0; i < kg_chain_n_matrices(s->kind); i++) {
        if (kg_chain_outputs(s, i) > widest) widest = kg_chain_outputs(s, i);
        if (kg_chain_inputs(s, i) > widest) widest = kg_chain_inputs(s, i);
    }
    return kg_bench_workspace(w->machine, F16, (uint32_t)product_rows(s), widest, widest,
                              s->kind == KG_CHAIN_LAYER ? &attention : NULL);
}

/* Results, one after another. A layer's two products that go to the residual stream share a place. */
static void place_results(struct kg_fused_work *w, struct kg_chain_memory *m) {
    const struct kg_chain_shape *s = &w->shape;
    const uint32_t n_matrices = kg_chain_n_matrices(s->kind);
    const uint32_t n_places = s->kind == KG_CHAIN_LAYER ? n_matrices - 1 : n_matrices;
    uint64_t n_elems = 0, at[KG_CHAIN_MATRICES + 1];
    for (uint32_t i = 0; i < n_places; i++) {
        at[i] = n_elems;
        n_elems += aligned(product_rows(s) * kg_chain_outputs(s, i), ALIGNED_ELEMS);
    }
    const uint64_t last = n_elems; /* of attention, or of combined experts */
    if (s->kind == KG_CHAIN_LAYER) n_elems += aligned((uint64_t)s->n_rows * s->n_heads * s->head_dim, ALIGNED_ELEMS);
    if (s->kind == KG_CHAIN_EXPERTS) n_elems += aligned((uint64_t)s->n_rows * s->n_in, ALIGNED_ELEMS);
    w->results = reserve_halves(w, n_elems);
    uint16_t *results = w->results->data;
    for (uint32_t i = 0; i < n_places; i++) m->y[i] = results + at[i];
    if (s->kind == KG_CHAIN_EXPERTS) m->combined = results + last;
    if (s->kind != KG_CHAIN_LAYER) return;
    m->attention = results + last;
    m->y[n_matrices - 1] = m->y[3];
}

/* A row's first expert is drawn, its others are as far apart as they can be; no two have the same share. */
static void choose_experts(struct kg_fused_work *w, struct kg_chain_memory *m) {
    const struct kg_chain_shape *s = &w->shape;
    const uint64_t n = product_rows(s);
    int32_t *ids = kg_xcalloc(n, sizeof *ids);
    float *shares = kg_xcalloc(n, sizeof *shares);
    void *ids_there = reserve(w, n * sizeof *ids)->data, *shares_there = reserve(w, n * sizeof *shares)->data;
    struct kg_backend *backend = w->machine->backend;
    struct kg_rng rng;
    struct kg_error err;
    kg_rng_init(&rng, 17, 0);
    for (uint64_t row = 0; row < n; row += s->n_used) {
        const uint32_t first = (uint32_t)kg_rng_below(&rng, s->n_experts);
        for (uint32_t i = 0; i < s->n_used; i++) {
            ids[row + i] = (int32_t)((first + i * (s->n_experts / s->n_used)) % s->n_experts);
            shares[row + i] = 2 * (float)(i + 1) / (float)(s->n_used * (s->n_used + 1));
        }
    }
    kg_must(backend->ops->upload(backend, ids_there, ids, n * sizeof *ids, &err), &err);
    kg_must(backend->ops->upload(backend, shares_there, shares, n * sizeof *shares, &err), &err);
    m->ids = ids_there, m->shares = shares_there;
    free(shares), free(ids);
}

static struct kg_chain_memory make_shared(struct kg_fused_work *w) {
    const struct kg_chain_shape *s = &w->shape;
    const uint64_t n_x = (uint64_t)s->n_rows * s->n_in;
    struct kg_chain_memory m = { 0 };
    if (s->kind != KG_CHAIN_LAYER) w->x = reserve_halves(w, n_x);
    if (has_residual(s))
        w->residual = reserve_halves(w, s->kind == KG_CHAIN_RESIDUAL ? (uint64_t)s->n_rows * s->n_out : n_x);
    if (has_norm(s)) w->normed = reserve_halves(w, n_x);
    w->workspace = reserve(w, workspace_bytes(w));
    if (has_cache(s)) w->caches = reserve_halves(w, 2 * cache_elems(s) * (s->kind == KG_CHAIN_LAYER ? w->n_layers : 1));
    m.residual = w->residual ? w->residual->data : NULL;
    m.x = w->x ? w->x->data : m.residual;
    m.normed = w->normed ? w->normed->data : NULL;
    m.workspace = w->workspace->data;
    place_results(w, &m);
    if (s->kind == KG_CHAIN_EXPERTS) choose_experts(w, &m);
    return m;
}

static struct kg_chain_memory make_layer(struct kg_fused_work *w, const struct kg_chain_memory *shared,
                                         uint32_t layer) {
    const struct kg_chain_shape *s = &w->shape;
    const uint32_t n_matrices = kg_chain_n_matrices(s->kind);
    const uint64_t seed = 100 + 20 * (uint64_t)layer;
    struct kg_chain_memory m = *shared;
    uint64_t n_bytes = 0, at = 0;
    if (has_norm(s)) m.norm = make_floats(w, s->n_in, seed);
    if (s->kind == KG_CHAIN_LAYER) m.ffn_norm = make_floats(w, s->n_in, seed + 1);
    for (uint32_t i = 0; i < n_matrices; i++) n_bytes += aligned(matrix_bytes(s, i), ALIGNED_BYTES);
    uint8_t *matrices = reserve(w, n_bytes)->data; /* one after the other, as a model's */
    for (uint32_t i = 0; i < n_matrices; i++) {
        struct kg_weight weight = matrix_of(s, i, matrices + at);
        m.w[i] = weight.data;
        fill_matrix(w, &weight, matrices + at, seed + 2 + i);
        at += aligned(matrix_bytes(s, i), ALIGNED_BYTES);
        if (i < w->n_biases) m.bias[i] = make_floats(w, weight.n_rows, seed + 10 + i);
    }
    if (!has_cache(s)) return m;
    uint16_t *caches = w->caches->data;
    m.k_cache = caches + (s->kind == KG_CHAIN_LAYER ? 2 * cache_elems(s) * layer : 0);
    m.v_cache = (uint16_t *)m.k_cache + cache_elems(s);
    return m;
}

static uint32_t layers_for(const struct kg_fused_work *w) {
    const uint64_t layer_bytes = kg_fused_weight_bytes(&w->shape);
    ck_assert_uint_gt(layer_bytes, 0);
    const uint64_t wanted = 2 * w->machine->cache_bytes / layer_bytes + 1;
    if (kg_bench_counted()) return 1; /* ncu flushes the caches before each launch */
    if (kg_bench_quick()) return 2;
    return wanted < FEWEST_LAYERS          ? FEWEST_LAYERS
           : wanted > KG_FUSED_MOST_LAYERS ? KG_FUSED_MOST_LAYERS
                                           : (uint32_t)wanted;
}

void kg_fused_work_reset(struct kg_fused_work *w) {
    const struct {
        const struct kg_block *block;
        uint64_t seed; /* 0: NaN */
    } fills[] = { { w->x, 11 }, { w->residual, 13 }, { w->caches, 17 }, { w->normed, 0 }, { w->results, 0 } };
    for (size_t i = 0; i < KG_COUNT_OF(fills); i++) {
        const struct kg_block *b = fills[i].block;
        if (!b) continue;
        if (fills[i].seed > 0) kg_bench_fill(w->machine, b->data, elems_of(b), F16, fills[i].seed);
        else kg_bench_poison(w->machine, b->data, elems_of(b), F16);
    }
}

static void open_chain(struct kg_fused_work *w, uint32_t n_layers, struct kg_fused_chain *chain) {
    struct kg_backend *backend = w->machine->backend;
    const struct kg_backend_ops *own = backend->ops;
    struct kg_error err;
    if (!w->fused) backend->ops = apart_ops();
    kg_fused_chain_open(backend, &w->shape, F16, w->layers, n_layers, NULL, chain);
    backend->ops = own;
    if (kg_bench_counted()) return;
    /* A plan's first step has the cos/sin table only behind its first node, an embedding elsewhere. */
    kg_must(kg_fused_chain_run(chain, &err), &err);
    kg_fused_work_reset(w);
}

void kg_fused_work_open(struct kg_fused_work *w, uint32_t n_layers) {
    w->n_layers = n_layers > 0 ? n_layers : layers_for(w);
    const struct kg_chain_memory shared = make_shared(w);
    for (uint32_t i = 0; i < w->n_layers; i++) w->layers[i] = make_layer(w, &shared, i);
    kg_fused_work_reset(w);
    open_chain(w, w->n_layers, &w->chain);
}

void kg_fused_work_close(struct kg_fused_work *w) {
    kg_fused_chain_close(&w->chain);
    kg_bench_free(w->machine, w->blocks, w->n_blocks);
}

/* The first layer's results. */
struct part {
    const void *data;
    uint64_t n;
};
enum { MOST_PARTS = 3 };

static size_t parts_of(const struct kg_fused_work *w, struct part parts[MOST_PARTS]) {
    const struct kg_chain_shape *s = &w->shape;
    const struct kg_chain_memory *m = &w->layers[0];
    if (w->residual) parts[0] = (struct part){ m->residual, elems_of(w->residual) };
    else parts[0] = (struct part){ m->y[0], (uint64_t)s->n_rows * kg_chain_outputs(s, 0) };
    if (!has_cache(s)) return 1;
    parts[1] = (struct part){ m->k_cache, cache_elems(s) };
    parts[2] = (struct part){ m->v_cache, cache_elems(s) };
    return 3;
}

void kg_fused_expect_same(const float *got, const float *want, uint64_t n, double size) {
    for (uint64_t i = 0; i < n; i++)
        ck_assert_msg(fabs((double)got[i] - want[i]) <= 1e-2 * fmax(fabs((double)want[i]), size),
                      "result %llu of %llu is %g fused and %g one by one", (unsigned long long)i, (unsigned long long)n,
                      got[i], want[i]);
}

void kg_fused_work_expect_same(struct kg_fused_work *w) {
    struct part parts[MOST_PARTS];
    float *got[MOST_PARTS];
    struct kg_fused_chain one;
    struct kg_error err;
    const size_t n_parts = parts_of(w, parts);
    open_chain(w, 1, &one);
    kg_must(kg_fused_chain_run(&one, &err), &err);
    for (size_t i = 0; i < n_parts; i++) got[i] = kg_bench_fetch(w->machine, parts[i].data, 0, parts[i].n, F16);
    kg_fused_work_reset(w);
    kg_must(kg_fused_chain_run_apart(&one, &err), &err);
    for (size_t i = 0; i < n_parts; i++) {
        float *want = kg_bench_fetch(w->machine, parts[i].data, 0, parts[i].n, F16);
        kg_fused_expect_same(got[i], want, parts[i].n, 1);
        free(want), free(got[i]);
    }
    kg_fused_chain_close(&one);
    kg_fused_work_reset(w);
}

void kg_fused_work_expect_written(const struct kg_fused_work *w) {
    struct part parts[MOST_PARTS];
    const size_t n_parts = parts_of(w, parts);
    for (size_t i = 0; i < n_parts; i++) kg_bench_expect_written(w->machine, parts[i].data, parts[i].n, F16);
}
