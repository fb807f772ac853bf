/* FT-055: what a back end fuses of a layer (fused_chain.h) beside the same nodes one by one, `unfused`, at the shapes
 * of published models: a decode step, and 512 rows of a prefill. Both are lowered plans that run the same way; the
 * unfused one is lowered from a table whose operations are not the back end's own, so that no fusion takes them. As
 * many layers run one after another as have weights beyond twice the last-level cache: weights are cold. Timings are
 * recorded, never judged; they are of all layers, and `layer` of one.
 *
 * `memory`: what one layer's chain holds of activations and workspace while it runs, either way. kigo's sessions have
 * the same memory for both; counted is what a pass reads or writes of it, and what lowering allocates. */
#include "base/buffer.h"
#include "base/size.h"
#include "backend/gpu.h"
#include "suites/harness/compare.h"
#include "suites/harness/must.h"
#include "suites/support/counters.h"
#include "suites/support/fused_chain.h"
#include "suites/support/machine.h"
#include "suites/support/touched.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const enum kg_precision F16 = KG_PRECISION_F16;
enum { ROWS = 512, FEWEST_LAYERS = 4, MOST_LAYERS = 48, BLOCKS_OF_LAYER = 8, N_SHARED = 8, POSITION = 100 };

#define QKV(in, heads, kv, dim)                                                                                        \
    { .kind = KG_CHAIN_NORM_QKV, .n_in = in, .n_heads = heads, .n_kv_heads = kv, .head_dim = dim, .eps = 1e-6f }
#define SWIGLU(in, out)                                                                                                \
    { .kind = KG_CHAIN_NORM_SWIGLU, .n_in = in, .n_out = out, .eps = 1e-6f }
#define RESIDUAL(in, out)                                                                                              \
    { .kind = KG_CHAIN_RESIDUAL, .n_in = in, .n_out = out }
static const struct size {
    const char *model;
    struct kg_chain_shape shape;
    bool bias;
} SIZES[] = {
    { "qwen2.5-0.5b", QKV(896, 14, 2, 64), true },    { "qwen2.5-0.5b", SWIGLU(896, 4864), false },
    { "qwen2.5-0.5b", RESIDUAL(4864, 896), false },   { "phi-3-mini", QKV(3072, 32, 32, 96), false },
    { "phi-3-mini", SWIGLU(3072, 8192), false },      { "phi-3-mini", RESIDUAL(8192, 3072), false },
    { "llama-3.1-8b", QKV(4096, 32, 8, 128), false }, { "llama-3.1-8b", SWIGLU(4096, 14336), false },
    { "llama-3.1-8b", RESIDUAL(14336, 4096), false }, { "gpt-oss-20b", QKV(2880, 64, 8, 64), true },
    { "gpt-oss-20b", RESIDUAL(4096, 2880), true },
};

struct bench_case {
    const struct size *size;
    uint32_t n_rows;
    bool fused, memory;
};

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

struct work {
    const struct bench_case *c;
    struct kg_bench_machine *machine;
    struct kg_chain_shape shape;
    struct kg_chain_memory layers[MOST_LAYERS];
    struct kg_block blocks[N_SHARED + MOST_LAYERS * BLOCKS_OF_LAYER];
    size_t n_blocks;
    uint32_t n_layers;
    const struct kg_block *x, *residual, *normed, *results, *workspace; /* of blocks; NULL: the chain has none */
    struct kg_fused_chain chain;
};

static struct kg_block *reserve(struct work *w, uint64_t size_bytes) {
    w->blocks[w->n_blocks] = kg_bench_alloc(w->machine, size_bytes);
    return &w->blocks[w->n_blocks++];
}

/* Memory of n elements, filled with normal values; of a seed of 0 with NaN. */
static struct kg_block *make_block(struct work *w, uint64_t n, enum kg_precision precision, uint64_t seed) {
    struct kg_block *block = reserve(w, n * kg_precision_bytes(precision));
    if (seed > 0) kg_bench_fill(w->machine, block->data, n, precision, seed);
    else kg_bench_poison(w->machine, block->data, n, precision);
    return block;
}

static void *make(struct work *w, uint64_t n, enum kg_precision precision, uint64_t seed) {
    return make_block(w, n, precision, seed)->data;
}

enum { N_VALUES = 1000003 };

/* Normal values of deviation 1 / sqrt(n_in), made once for all matrices of so many columns. */
static const uint16_t *scaled_values(uint32_t n_in) {
    static uint16_t halves[N_VALUES];
    static uint32_t made_for;
    if (made_for == n_in) return halves;
    float *values = kg_xcalloc(N_VALUES, sizeof *values);
    kg_fill_normal(values, N_VALUES, 7, 0, 1 / sqrt(n_in));
    for (size_t i = 0; i < N_VALUES; i++) halves[i] = kg_f32_to_f16(values[i]);
    made_for = n_in;
    free(values);
    return halves;
}

/* A matrix whose products with inputs of size 1 are of size 1: a residual stream stays finite through all iterations,
 * and so do products of gates and ups. Another seed begins elsewhere in the values. */
static void fill_matrix(const struct work *w, uint16_t *data, uint64_t n_out, uint32_t n_in, uint64_t seed) {
    const uint16_t *values = scaled_values(n_in);
    struct kg_backend *backend = w->machine->backend;
    struct kg_error err;
    uint64_t at = seed * 7919 % N_VALUES;
    for (uint64_t done = 0, n; done < n_out * n_in; done += n, at = 0) {
        const uint64_t left = n_out * n_in - done;
        n = left < N_VALUES - at ? left : N_VALUES - at;
        kg_must(backend->ops->upload(backend, data + done, values + at, n * sizeof *values, &err), &err);
    }
}

/* n elements, rounded up to what begins another matrix or result. */
static uint64_t aligned(uint64_t n) {
    return (n + 127) / 128 * 128;
}

static uint64_t matrix_elems(const struct kg_chain_shape *s) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < kg_chain_n_matrices(s->kind); i++) n += (uint64_t)kg_chain_outputs(s, i) * s->n_in;
    return n;
}

/* Layers share activations, as those of a model do. */
static struct kg_chain_memory make_shared(struct work *w) {
    const struct kg_chain_shape *s = &w->shape;
    const uint64_t n_rows = s->n_rows;
    w->x = make_block(w, n_rows * s->n_in, F16, 11);
    uint32_t widest = s->n_in;
    for (uint32_t i = 0; i < kg_chain_n_matrices(s->kind); i++)
        if (kg_chain_outputs(s, i) > widest) widest = kg_chain_outputs(s, i);
    w->workspace = reserve(w, kg_bench_workspace(w->machine, F16, s->n_rows, widest, widest, NULL));
    struct kg_chain_memory m = { .x = w->x->data, .workspace = w->workspace->data };
    if (s->kind == KG_CHAIN_RESIDUAL) {
        w->residual = make_block(w, n_rows * s->n_out, F16, 13);
        m.residual = w->residual->data;
    } else {
        w->normed = make_block(w, n_rows * s->n_in, F16, 0);
        m.normed = w->normed->data;
    }
    return m;
}

static struct kg_chain_memory make_layer(struct work *w, const struct kg_chain_memory *shared, uint64_t seed) {
    const struct kg_chain_shape *s = &w->shape;
    struct kg_chain_memory m = *shared;
    if (s->kind != KG_CHAIN_RESIDUAL) m.norm = make(w, s->n_in, KG_PRECISION_F32, seed);
    uint64_t n_elems = 0, at = 0;
    for (uint32_t i = 0; i < kg_chain_n_matrices(s->kind); i++)
        n_elems += aligned((uint64_t)kg_chain_outputs(s, i) * s->n_in);
    uint16_t *matrices = reserve(w, n_elems * sizeof *matrices)->data; /* one after the other, as a model's */
    for (uint32_t i = 0; i < kg_chain_n_matrices(s->kind); i++) {
        const uint32_t n_out = kg_chain_outputs(s, i);
        m.w[i] = matrices + at;
        fill_matrix(w, matrices + at, n_out, s->n_in, seed + 1 + i);
        at += aligned((uint64_t)n_out * s->n_in);
        if (w->c->size->bias) m.bias[i] = make(w, n_out, KG_PRECISION_F32, seed + 4 + i);
    }
    return m;
}

/* Results and caches, of all layers. */
static void make_results(struct work *w, struct kg_chain_memory *m) {
    const struct kg_chain_shape *s = &w->shape;
    const uint64_t n_cache = (uint64_t)s->n_kv_heads * s->n_ctx * s->head_dim;
    uint64_t n_elems = 0, at = 0;
    for (uint32_t i = 0; i < kg_chain_n_matrices(s->kind); i++)
        n_elems += aligned((uint64_t)s->n_rows * kg_chain_outputs(s, i));
    w->results = make_block(w, n_elems, F16, 0);
    uint16_t *results = w->results->data;
    for (uint32_t i = 0; i < kg_chain_n_matrices(s->kind); i++) {
        m->y[i] = results + at;
        at += aligned((uint64_t)s->n_rows * kg_chain_outputs(s, i));
    }
    if (s->kind != KG_CHAIN_NORM_QKV) return;
    m->k_cache = make(w, n_cache, F16, 17);
    m->v_cache = make(w, n_cache, F16, 19);
}

static void work_open(struct work *w) {
    const struct kg_chain_shape *s = &w->shape;
    const uint64_t layer_bytes = matrix_elems(s) * kg_precision_bytes(F16);
    ck_assert_uint_gt(layer_bytes, 0);
    const uint64_t wanted = 2 * w->machine->cache_bytes / layer_bytes + 1;
    w->n_layers = wanted < FEWEST_LAYERS ? FEWEST_LAYERS : wanted > MOST_LAYERS ? MOST_LAYERS : (uint32_t)wanted;
    if (kg_bench_quick()) w->n_layers = 2;
    if (kg_bench_counted()) w->n_layers = 1; /* ncu flushes the caches before each launch */
    if (w->c->memory) w->n_layers = 1;       /* all layers share activations and workspace */
    struct kg_chain_memory shared = make_shared(w);
    make_results(w, &shared);
    for (uint32_t i = 0; i < w->n_layers; i++) w->layers[i] = make_layer(w, &shared, 100 + 10 * (uint64_t)i);
    struct kg_backend *backend = w->machine->backend;
    const struct kg_backend_ops *own = backend->ops;
    if (!w->c->fused) backend->ops = apart_ops();
    kg_fused_chain_open(backend, s, F16, w->layers, w->n_layers, NULL, &w->chain);
    backend->ops = own;
}

static enum kg_status launch(void *arg, size_t iteration, struct kg_error *err) {
    struct work *w = arg;
    (void)iteration;
    return kg_fused_chain_run(&w->chain, err);
}

/* NULL if the back end is not there. */
static struct work *open_work(struct kg_record *rec, const struct bench_case *c) {
    struct kg_bench_machine *machine = kg_bench_machine_open(rec, "cuda");
    if (!machine) return NULL;
    struct work *w = kg_xcalloc(1, sizeof *w);
    *w = (struct work){ .c = c, .machine = machine, .shape = c->size->shape };
    struct kg_chain_shape *s = &w->shape;
    s->n_rows = c->n_rows, s->position = POSITION, s->n_ctx = POSITION + c->n_rows;
    return w;
}

static void close_work(struct work *w) {
    kg_fused_chain_close(&w->chain);
    kg_bench_free(w->machine, w->blocks, w->n_blocks);
    free(w);
}

static void expect_result(const struct work *w) {
    const struct kg_chain_shape *s = &w->shape;
    kg_bench_expect_written(w->machine, s->kind == KG_CHAIN_RESIDUAL ? w->layers[0].residual : w->layers[0].y[0],
                            (uint64_t)s->n_rows * kg_chain_outputs(s, 0), F16);
}

static void time_chain(struct kg_record *rec, const void *arg) {
    struct work *w = open_work(rec, arg);
    if (!w) return;
    struct kg_bench_machine *machine = w->machine;
    const struct kg_chain_shape *s = &w->shape;
    work_open(w);
    kg_fused_chain_record(rec, &w->chain);
    const double elem = (double)kg_precision_bytes(F16), rows = s->n_rows, n_in = s->n_in;
    double n_out = 0;
    for (uint32_t i = 0; i < kg_chain_n_matrices(s->kind); i++) n_out += kg_chain_outputs(s, i);
    const double n_results = s->kind == KG_CHAIN_NORM_QKV ? n_out : s->n_out;
    const struct kg_bench_work work = { .launch = launch,
                                        .arg = w,
                                        .n_sets = 1,
                                        .cold = !kg_bench_quick(),
                                        .bytes = w->n_layers * elem * (n_out * n_in + rows * (n_in + n_results)),
                                        .flops = w->n_layers * 2 * rows * n_out * n_in };
    if (kg_bench_counted()) kg_bench_launch_counted(machine, &work);
    else {
        const double ns = kg_bench_time(rec, machine, kg_bench_roofline(machine, F16), KG_TIMING_KERNEL, &work);
        kg_record_metric(rec, "layer", "ns", ns / w->n_layers);
        kg_record_metric(rec, "layers", "count", w->n_layers);
        expect_result(w);
        kg_bench_record_counters(rec, machine);
    }
    close_work(w);
}

static uint64_t size_of(const struct kg_block *block) {
    return block ? block->size_bytes : 0;
}

static uint64_t written_of(const struct work *w, const struct kg_block *block) {
    return block ? kg_touched_bytes(w->machine->backend, block) : 0;
}

static uint64_t workspace_held(const struct work *w) {
    struct kg_memory_use use;
    kg_backend_memory(w->machine->backend, &use);
    return use.current_bytes[KG_MEMORY_WORKSPACE];
}

/* Inputs count whole, what the chain computes as far as it was written. The cache is the same either way, and left out;
 * so are weights. */
static void measure_memory(struct kg_record *rec, const void *arg) {
    struct work *w = open_work(rec, arg);
    if (!w) return;
    struct kg_error err;
    const uint64_t held_before = workspace_held(w);
    work_open(w);
    kg_fused_chain_record(rec, &w->chain);
    kg_touched_reset(w->machine->backend, w->workspace);
    for (int i = 0; i < 2; i++) /* as launches, and of a decode step as a captured graph */
        kg_must(kg_fused_chain_run(&w->chain, &err), &err);
    kg_must(w->machine->backend->ops->synchronize(w->machine->backend, &err), &err);
    expect_result(w);
    uint64_t blocks_bytes = 0;
    for (size_t i = 0; i < w->n_blocks; i++) blocks_bytes += w->blocks[i].size_bytes;
    const uint64_t lowered = workspace_held(w) - held_before - blocks_bytes;
    const uint64_t activations =
        size_of(w->x) + size_of(w->residual) + written_of(w, w->normed) + written_of(w, w->results);
    const uint64_t scratch = written_of(w, w->workspace);
    kg_record_metric(rec, "workspace.activations", "bytes", (double)activations);
    kg_record_metric(rec, "workspace.scratch", "bytes", (double)scratch);
    kg_record_metric(rec, "workspace.lowered", "bytes", (double)lowered);
    kg_record_metric(rec, "workspace", "bytes", (double)(activations + scratch + lowered));
    kg_record_metric(rec, "allocated", "bytes",
                     (double)(size_of(w->x) + size_of(w->residual) + size_of(w->normed) + size_of(w->results) +
                              size_of(w->workspace) + lowered));
    close_work(w);
}

static void add(struct kg_case_list *cases, const struct bench_case *c) {
    const struct kg_chain_shape *s = &c->size->shape;
    char chain[64], shape[128];
    snprintf(chain, sizeof chain, "%s_%s", c->n_rows == 1 ? "decode" : "prefill", kg_chain_name(s->kind));
    snprintf(shape, sizeof shape, "%s%s%s rows=%u in=%u out=%u", c->memory ? chain : "", c->memory ? " " : "",
             c->size->model, c->n_rows, s->n_in, kg_chain_outputs(s, 0));
    kg_case_list_add(
        cases, &(struct kg_case){ .layer = "bench",
                                  .op = c->fused ? "fused" : "unfused",
                                  .name = c->memory ? "memory" : chain,
                                  .backend = "cuda",
                                  .dtype = "f16",
                                  .shape = shape,
                                  .spec = "FT-055",
                                  .definition = c->memory ? "activations and workspace that a pass reads or writes"
                                                          : "normal data; layers of cold weights, beyond twice "
                                                            "the last-level cache together",
                                  .timeout_s = 120,
                                  .run = c->memory ? measure_memory : time_chain,
                                  .arg = c });
}

static void build(struct kg_case_list *cases) {
    static struct bench_case kept[KG_COUNT_OF(SIZES) * 2 * 2 * 2];
    static const uint32_t N_ROWS[] = { 1, ROWS };
    size_t n_kept = 0;
    for (int memory = 0; memory < 2; memory++)
        for (size_t i = 0; i < KG_COUNT_OF(SIZES); i++)
            for (size_t r = 0; r < KG_COUNT_OF(N_ROWS); r++)
                for (int fused = 0; fused < 2; fused++) {
                    if (kg_bench_quick() && i >= 3) continue;
                    kept[n_kept] = (struct bench_case){ &SIZES[i], N_ROWS[r], fused == 1, memory == 1 };
                    add(cases, &kept[n_kept++]);
                }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
