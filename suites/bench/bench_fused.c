/* FT-055: what a back end fuses of a layer (fused_chain.h), and a whole layer, beside the same nodes one by one,
 * `unfused`, at the shapes of published models: a decode step, and 512 rows of a prefill. Both are lowered plans that
 * run the same way (fused_work.h). As many layers run one after another as have weights beyond twice the last-level
 * cache: weights are cold. What is timed has given what the nodes give one by one. Timings are recorded, never judged;
 * they are of all layers, and `layer` of one.
 *
 * dtype is the activations'; where weights have another the case's name ends with it.
 *
 * `memory`: what one layer's chain holds of activations and workspace while it runs, either way. kigo's sessions have
 * the same memory for both; counted is what a pass reads or writes of it, and what lowering allocates. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/bench/fused_work.h"
#include "suites/harness/must.h"
#include "suites/support/counters.h"
#include "suites/support/touched.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum kg_precision PRECISION = KG_PRECISION_F16;
/* Of a chain without attention its position says little; a step's layer has KEYS in its cache, a prefill's its rows. */
enum { ROWS = 512, POSITION = 100, KEYS = 512, LAYER_CTX = 1024 };

#define QKV(format, in, heads, kv, dim)                                                                                \
    {                                                                                                                  \
        .kind = KG_CHAIN_NORM_QKV, .weight = KG_DTYPE_##format, .n_in = in, .n_heads = heads, .n_kv_heads = kv,        \
        .head_dim = dim, .eps = 1e-6f                                                                                  \
    }
#define SWIGLU(format, in, out)                                                                                        \
    { .kind = KG_CHAIN_NORM_SWIGLU, .weight = KG_DTYPE_##format, .n_in = in, .n_out = out, .eps = 1e-6f }
#define RESIDUAL(format, in, out)                                                                                      \
    { .kind = KG_CHAIN_RESIDUAL, .weight = KG_DTYPE_##format, .n_in = in, .n_out = out }
#define LAYER(format, in, heads, kv, dim, out)                                                                         \
    {                                                                                                                  \
        .kind = KG_CHAIN_LAYER, .weight = KG_DTYPE_##format, .n_in = in, .n_heads = heads, .n_kv_heads = kv,           \
        .head_dim = dim, .n_out = out, .eps = 1e-6f                                                                    \
    }
#define EXPERTS(format, in, out, of, used)                                                                             \
    { .kind = KG_CHAIN_EXPERTS, .weight = KG_DTYPE_##format, .n_in = in, .n_out = out, .n_experts = of, .n_used = used }
static const struct size {
    const char *model;
    struct kg_chain_shape shape;
    uint32_t n_biases; /* of the first matrices */
} SIZES[] = {
    { "qwen2.5-0.5b", QKV(F16, 896, 14, 2, 64), 3 },
    { "qwen2.5-0.5b", SWIGLU(F16, 896, 4864), 0 },
    { "qwen2.5-0.5b", RESIDUAL(F16, 4864, 896), 0 },
    { "phi-3-mini", QKV(F16, 3072, 32, 32, 96), 0 },
    { "phi-3-mini", SWIGLU(F16, 3072, 8192), 0 },
    { "phi-3-mini", RESIDUAL(F16, 8192, 3072), 0 },
    { "llama-3.1-8b", QKV(F16, 4096, 32, 8, 128), 0 },
    { "llama-3.1-8b", SWIGLU(F16, 4096, 14336), 0 },
    { "llama-3.1-8b", RESIDUAL(F16, 14336, 4096), 0 },
    { "gpt-oss-20b", QKV(F16, 2880, 64, 8, 64), 3 },
    { "gpt-oss-20b", RESIDUAL(F16, 4096, 2880), 1 },
    { "phi-3-mini", QKV(MXFP4, 3072, 32, 32, 96), 0 },
    { "phi-3-mini", SWIGLU(MXFP4, 3072, 8192), 0 },
    { "phi-3-mini", RESIDUAL(MXFP4, 8192, 3072), 0 },
    { "qwen2.5-0.5b", LAYER(F16, 896, 14, 2, 64, 4864), 3 },
    { "phi-3-mini", LAYER(F16, 3072, 32, 32, 96, 8192), 0 },
    { "llama-3.1-8b", LAYER(F16, 4096, 32, 8, 128, 14336), 0 },
    { "phi-3-mini", LAYER(MXFP4, 3072, 32, 32, 96, 8192), 0 },
    { "gpt-oss-20b", EXPERTS(MXFP4, 2880, 2880, 32, 4), 3 },
};

struct bench_case {
    const struct size *size;
    uint32_t n_rows;
    bool fused, memory;
};

static bool is_layer(const struct kg_chain_shape *s) {
    return s->kind == KG_CHAIN_LAYER;
}

/* The case's shape, with its rows and its place in the cache. */
static struct kg_chain_shape shape_of(const struct bench_case *c) {
    struct kg_chain_shape s = c->size->shape;
    s.n_rows = c->n_rows;
    s.position = is_layer(&s) ? KEYS - c->n_rows : POSITION;
    s.n_ctx = is_layer(&s) ? LAYER_CTX : POSITION + c->n_rows;
    return s;
}

/* NULL if the back end is not there. */
static struct kg_fused_work *open_work(struct kg_record *rec, const struct bench_case *c) {
    struct kg_bench_machine *machine = kg_bench_machine_open(rec, "cuda");
    if (!machine) return NULL;
    struct kg_fused_work *w = kg_xcalloc(1, sizeof *w);
    w->machine = machine, w->shape = shape_of(c), w->n_biases = c->size->n_biases, w->fused = c->fused;
    return w;
}

static void close_work(struct kg_fused_work *w) {
    kg_fused_work_close(w);
    free(w);
}

static enum kg_status launch(void *arg, size_t iteration, struct kg_error *err) {
    struct kg_fused_work *w = arg;
    (void)iteration;
    return kg_fused_chain_run(&w->chain, err);
}

/* Elements of activations that a layer must read or write, in and out, and keys and values that its attention reads. */
static double moved_elems(const struct kg_chain_shape *s) {
    const double rows = s->n_rows, n_in = s->n_in;
    const double row = s->kind == KG_CHAIN_NORM_QKV ? n_in + ((double)s->n_heads + 2.0 * s->n_kv_heads) * s->head_dim
                       : s->n_experts > 0           ? 3 * n_in
                       : is_layer(s)                ? 2 * n_in
                                                    : n_in + s->n_out;
    const double cached = is_layer(s) ? 2.0 * (s->position + rows) * s->n_kv_heads * s->head_dim : 0;
    return rows * row + cached;
}

static double flops(const struct kg_chain_shape *s) {
    const double rows = s->n_rows, pairs = rows * s->position + rows * (rows + 1) / 2; /* that the causal mask leaves */
    double n = is_layer(s) ? 4.0 * s->n_heads * s->head_dim * pairs : 0;
    for (uint32_t i = 0; i < kg_chain_n_matrices(s->kind); i++)
        n += 2 * rows * kg_chain_outputs(s, i) * kg_chain_inputs(s, i);
    return n * (s->n_used > 0 ? s->n_used : 1);
}

static void time_chain(struct kg_record *rec, const void *arg) {
    struct kg_fused_work *w = open_work(rec, arg);
    if (!w) return;
    struct kg_bench_machine *machine = w->machine;
    const struct kg_chain_shape *s = &w->shape;
    kg_fused_work_open(w, 0);
    kg_fused_chain_record(rec, &w->chain);
    const double elem = (double)kg_precision_bytes(PRECISION), weights = (double)kg_fused_weight_bytes(s);
    const struct kg_bench_work work = { .launch = launch,
                                        .arg = w,
                                        .n_sets = 1,
                                        .cold = !kg_bench_quick(),
                                        .bytes = w->n_layers * (weights + elem * moved_elems(s)),
                                        .flops = w->n_layers * flops(s) };
    if (kg_bench_counted()) kg_bench_launch_counted(machine, &work);
    else {
        kg_fused_work_expect_same(w);
        const double ns = kg_bench_time(rec, machine, kg_bench_roofline(machine, PRECISION), KG_TIMING_KERNEL, &work);
        kg_record_metric(rec, "layer", "ns", ns / w->n_layers);
        kg_record_metric(rec, "layers", "count", w->n_layers);
        kg_fused_work_expect_written(w);
        kg_bench_record_counters(rec, machine);
    }
    close_work(w);
}

static uint64_t size_of(const struct kg_block *block) {
    return block ? block->size_bytes : 0;
}

static uint64_t written_of(const struct kg_fused_work *w, const struct kg_block *block) {
    return block ? kg_touched_bytes(w->machine->backend, block) : 0;
}

static uint64_t workspace_held(const struct kg_fused_work *w) {
    struct kg_memory_use use;
    kg_backend_memory(w->machine->backend, &use);
    return use.current_bytes[KG_MEMORY_WORKSPACE];
}

/* Inputs count whole, what the chain computes as far as it was written. The cache is the same either way, and left out;
 * so are weights. */
static void measure_memory(struct kg_record *rec, const void *arg) {
    struct kg_fused_work *w = open_work(rec, arg);
    if (!w) return;
    struct kg_error err;
    const uint64_t held_before = workspace_held(w);
    kg_fused_work_open(w, 1); /* all layers share activations and workspace */
    kg_fused_chain_record(rec, &w->chain);
    kg_touched_reset(w->machine->backend, w->workspace);
    kg_must(kg_fused_chain_run(&w->chain, &err), &err);
    kg_must(w->machine->backend->ops->synchronize(w->machine->backend, &err), &err);
    kg_fused_work_expect_written(w);
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

/* "decode_norm_qkv_mxfp4" */
static void name_of(const struct bench_case *c, char *name, size_t size) {
    const struct kg_chain_shape *s = &c->size->shape;
    const int n = snprintf(name, size, "%s_%s", c->n_rows == 1 ? "decode" : "prefill", kg_chain_name(s->kind));
    if (s->weight == KG_DTYPE_F16) return;
    snprintf(name + n, size - (size_t)n, "_%s", kg_dtype_info(s->weight)->name);
    for (char *at = name + n; *at; at++) *at = (char)tolower((unsigned char)*at);
}

static const char *definition_of(const struct bench_case *c) {
    if (c->memory) return "activations and workspace that a pass reads or writes";
    if (c->size->shape.weight == KG_DTYPE_F16)
        return "normal data; layers of cold weights, beyond twice the last-level cache together";
    return "normal data; layers of cold, repacked weights, beyond twice the last-level cache together";
}

static void add(struct kg_case_list *cases, const struct bench_case *c) {
    const struct kg_chain_shape s = shape_of(c);
    char chain[64], shape[160];
    name_of(c, chain, sizeof chain);
    int n = snprintf(shape, sizeof shape, "%s%s%s rows=%u", c->memory ? chain : "", c->memory ? " " : "",
                     c->size->model, s.n_rows);
    if (is_layer(&s))
        snprintf(shape + n, sizeof shape - (size_t)n, " keys=%u in=%u heads=%u/%u D=%u ff=%u", s.position + s.n_rows,
                 s.n_in, s.n_heads, s.n_kv_heads, s.head_dim, s.n_out);
    else n += snprintf(shape + n, sizeof shape - (size_t)n, " in=%u out=%u", s.n_in, kg_chain_outputs(&s, 0));
    if (s.n_experts > 0) snprintf(shape + n, sizeof shape - (size_t)n, " experts=%u/%u", s.n_used, s.n_experts);
    kg_case_list_add(cases, &(struct kg_case){ .layer = "bench",
                                               .op = c->fused ? "fused" : "unfused",
                                               .name = c->memory ? "memory" : chain,
                                               .backend = "cuda",
                                               .dtype = "f16",
                                               .shape = shape,
                                               .spec = "FT-055",
                                               .definition = definition_of(c),
                                               .timeout_s = is_layer(&s) || s.n_experts > 0 ? 300 : 120,
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
                    if (kg_bench_quick() && strcmp(SIZES[i].model, SIZES[0].model) != 0) continue;
                    kept[n_kept] = (struct bench_case){ &SIZES[i], N_ROWS[r], fused == 1, memory == 1 };
                    add(cases, &kept[n_kept++]);
                }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
