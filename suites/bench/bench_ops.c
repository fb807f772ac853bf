/* FT-054: how fast each operation is at the shapes of Qwen2.5-0.5B and Phi-3-mini, f32 and f16. Timings are recorded,
 * never judged; what fails here is work that leaves its output unwritten.
 *
 * A case's inputs lie in sets; cold iterations go round all of them. Bytes count each input once and each output once.
 */
#include "base/size.h"
#include "suites/support/counters.h"
#include "suites/support/machine.h"
#include "suites/harness/must.h"
#include <check.h>
#include <stdio.h>
#include <string.h>

enum { MAX_INPUTS = 3, MAX_OUTPUTS = 2 };

struct shape {
    const char *name;
    uint32_t rows;        /* tokens at once */
    uint32_t n_out, n_in; /* linear; n_in: width of rmsnorm and swiglu */
    uint32_t heads, kv_heads, head_dim;
    uint32_t keys; /* attention: rows of it are queries; kv_write: positions of the cache */
    bool quick;
};

/* What an operation reads and writes at a shape, in elements of its precision. */
struct footprint {
    uint64_t inputs[MAX_INPUTS], outputs[MAX_OUTPUTS];
    bool partly_written; /* outputs hold more than an iteration writes */
    double read_elems, written_elems, flops;
};

struct bench_op {
    const char *name;
    void (*measure)(const struct shape *shape, struct footprint *f);
    enum kg_status (*launch)(void *arg, size_t iteration, struct kg_error *err);
    const struct shape *shapes;
    size_t n_shapes;
};

struct bench_case {
    const struct bench_op *op;
    const struct shape *shape;
    const char *backend;
    enum kg_precision precision;
};

struct work {
    const struct bench_case *c;
    struct kg_backend *backend;
    struct footprint f;
    struct kg_block inputs[MAX_INPUTS], outputs[MAX_OUTPUTS], weight, workspace;
    size_t n_sets;
};

/* Input i of the iteration's set. */
static void *input(const struct work *w, int i, size_t iteration) {
    const uint64_t bytes = w->f.inputs[i] * kg_precision_bytes(w->c->precision);
    return (char *)w->inputs[i].data + iteration % w->n_sets * bytes;
}

static void linear_measure(const struct shape *s, struct footprint *f) {
    const double m = s->rows, n = s->n_out, k = s->n_in;
    f->inputs[0] = (uint64_t)s->rows * s->n_in;
    f->inputs[1] = (uint64_t)s->n_out * s->n_in;
    f->outputs[0] = (uint64_t)s->rows * s->n_out;
    f->read_elems = m * k + n * k;
    f->written_elems = m * n;
    f->flops = 2 * m * n * k;
}

static enum kg_status linear_launch(void *arg, size_t iteration, struct kg_error *err) {
    const struct work *w = arg;
    const struct shape *s = w->c->shape;
    const struct kg_linear_args args = { .activations = w->c->precision,
                                         .output = w->c->precision,
                                         .x = input(w, 0, iteration),
                                         .weight = { input(w, 1, iteration), kg_bench_dtype(w->c->precision), s->n_out,
                                                     s->n_in },
                                         .y = w->outputs[0].data,
                                         .n_rows = s->rows,
                                         .workspace = w->workspace.data };
    return w->backend->ops->linear(w->backend, &args, err);
}

static void attention_measure(const struct shape *s, struct footprint *f) {
    const double rows = s->rows, keys = s->keys, dim = s->head_dim;
    const double pairs = rows * (keys - rows) + rows * (rows + 1) / 2; /* that the causal mask leaves */
    f->inputs[0] = (uint64_t)s->rows * s->heads * s->head_dim;
    f->inputs[1] = f->inputs[2] = (uint64_t)s->kv_heads * s->keys * s->head_dim;
    f->outputs[0] = f->inputs[0];
    f->read_elems = rows * s->heads * dim + 2 * s->kv_heads * keys * dim;
    f->written_elems = rows * s->heads * dim;
    f->flops = 4 * s->heads * dim * pairs;
}

static enum kg_status attention_launch(void *arg, size_t iteration, struct kg_error *err) {
    const struct work *w = arg;
    const struct shape *s = w->c->shape;
    const struct kg_attention_args args = { .activations = w->c->precision,
                                            .kv = w->c->precision,
                                            .q = input(w, 0, iteration),
                                            .k_cache = input(w, 1, iteration),
                                            .v_cache = input(w, 2, iteration),
                                            .y = w->outputs[0].data,
                                            .n_rows = s->rows,
                                            .n_keys = s->keys,
                                            .n_heads = s->heads,
                                            .n_kv_heads = s->kv_heads,
                                            .head_dim = s->head_dim,
                                            .n_ctx = s->keys,
                                            .scale = s->head_dim == 96 ? 0.10206207f : 0.125f,
                                            .causal = true,
                                            .workspace = w->workspace.data };
    return w->backend->ops->attention(w->backend, &args, err);
}

static void kv_write_measure(const struct shape *s, struct footprint *f) {
    const uint64_t row = (uint64_t)s->kv_heads * s->head_dim;
    f->inputs[0] = f->inputs[1] = s->rows * row;
    f->outputs[0] = f->outputs[1] = s->keys * row;
    f->partly_written = true;
    f->read_elems = f->written_elems = 2.0 * s->rows * (double)row;
}

static enum kg_status kv_write_launch(void *arg, size_t iteration, struct kg_error *err) {
    const struct work *w = arg;
    const struct shape *s = w->c->shape;
    const struct kg_kv_write_args args = { .activations = w->c->precision,
                                           .kv = w->c->precision,
                                           .k = input(w, 0, iteration),
                                           .v = input(w, 1, iteration),
                                           .k_cache = w->outputs[0].data,
                                           .v_cache = w->outputs[1].data,
                                           .n_rows = s->rows,
                                           .n_kv_heads = s->kv_heads,
                                           .head_dim = s->head_dim,
                                           .n_ctx = s->keys,
                                           .position = s->keys - s->rows };
    return w->backend->ops->kv_write(w->backend, &args, err);
}

/* Rows of n_in elements: so many inputs, one output, so many operations an element of it. */
static void rows_measure(const struct shape *s, struct footprint *f, int n_inputs, double flops) {
    const uint64_t n = (uint64_t)s->rows * s->n_in;
    for (int i = 0; i < n_inputs; i++) f->inputs[i] = n;
    f->outputs[0] = n;
    f->read_elems = n_inputs * (double)n;
    f->written_elems = (double)n;
    f->flops = flops * (double)n;
}

static void rmsnorm_measure(const struct shape *s, struct footprint *f) {
    rows_measure(s, f, 1, 4);
}

static enum kg_status rmsnorm_launch(void *arg, size_t iteration, struct kg_error *err) {
    const struct work *w = arg;
    const struct kg_rmsnorm_args args = { .activations = w->c->precision,
                                          .x = input(w, 0, iteration),
                                          .weight = w->weight.data,
                                          .y = w->outputs[0].data,
                                          .n_rows = w->c->shape->rows,
                                          .n_cols = w->c->shape->n_in,
                                          .eps = 1e-6f };
    return w->backend->ops->rmsnorm(w->backend, &args, err);
}

static void rope_measure(const struct shape *s, struct footprint *f) {
    f->inputs[0] = f->outputs[0] = (uint64_t)s->rows * s->heads * s->head_dim;
    f->read_elems = f->written_elems = (double)f->inputs[0];
    f->flops = 3 * f->read_elems;
}

static enum kg_status rope_launch(void *arg, size_t iteration, struct kg_error *err) {
    const struct work *w = arg;
    const struct shape *s = w->c->shape;
    const struct kg_rope_args args = { .activations = w->c->precision,
                                       .x = input(w, 0, iteration),
                                       .y = w->outputs[0].data,
                                       .n_rows = s->rows,
                                       .n_heads = s->heads,
                                       .head_dim = s->head_dim,
                                       .position = 17,
                                       .n_rot = s->head_dim,
                                       .pairing = KG_ROPE_HALF,
                                       .freq_base = 1e6f,
                                       .freq_scale = 1,
                                       .magnitude = 1 };
    return w->backend->ops->rope(w->backend, &args, err);
}

static void swiglu_measure(const struct shape *s, struct footprint *f) {
    rows_measure(s, f, 2, 5);
}

static enum kg_status swiglu_launch(void *arg, size_t iteration, struct kg_error *err) {
    const struct work *w = arg;
    const struct kg_swiglu_args args = { .activations = w->c->precision,
                                         .gate = input(w, 0, iteration),
                                         .up = input(w, 1, iteration),
                                         .y = w->outputs[0].data,
                                         .n_rows = w->c->shape->rows,
                                         .n_cols = w->c->shape->n_in,
                                         .alpha = 1 };
    return w->backend->ops->swiglu(w->backend, &args, err);
}

static void layernorm_measure(const struct shape *s, struct footprint *f) {
    rows_measure(s, f, 1, 7);
}

static enum kg_status layernorm_launch(void *arg, size_t iteration, struct kg_error *err) {
    const struct work *w = arg;
    const struct kg_layernorm_args args = { .activations = w->c->precision,
                                            .x = input(w, 0, iteration),
                                            .weight = w->weight.data,
                                            .bias = w->weight.data,
                                            .y = w->outputs[0].data,
                                            .n_rows = w->c->shape->rows,
                                            .n_cols = w->c->shape->n_in,
                                            .eps = 1e-5f };
    return w->backend->ops->layernorm(w->backend, &args, err);
}

static void gelu_measure(const struct shape *s, struct footprint *f) {
    rows_measure(s, f, 1, 9);
}

static enum kg_status gelu_launch(void *arg, size_t iteration, struct kg_error *err) {
    const struct work *w = arg;
    const struct kg_gelu_args args = { .activations = w->c->precision,
                                       .x = input(w, 0, iteration),
                                       .y = w->outputs[0].data,
                                       .n_rows = w->c->shape->rows,
                                       .n_cols = w->c->shape->n_in,
                                       .form = KG_GELU_TANH };
    return w->backend->ops->gelu(w->backend, &args, err);
}

static void softmax_measure(const struct shape *s, struct footprint *f) {
    rows_measure(s, f, 1, 5);
}

static enum kg_status softmax_launch(void *arg, size_t iteration, struct kg_error *err) {
    const struct work *w = arg;
    const struct kg_softmax_args args = { .activations = w->c->precision,
                                          .x = input(w, 0, iteration),
                                          .y = w->outputs[0].data,
                                          .n_rows = w->c->shape->rows,
                                          .n_cols = w->c->shape->n_in,
                                          .scale = 0.125f };
    return w->backend->ops->softmax(w->backend, &args, err);
}

static void add_measure(const struct shape *s, struct footprint *f) {
    rows_measure(s, f, 2, 1);
}

static enum kg_status add_launch(void *arg, size_t iteration, struct kg_error *err) {
    const struct work *w = arg;
    const struct kg_add_args args = { .activations = w->c->precision,
                                      .a = input(w, 0, iteration),
                                      .b = input(w, 1, iteration),
                                      .y = w->outputs[0].data,
                                      .n_rows = w->c->shape->rows,
                                      .n_cols = w->c->shape->n_in };
    return w->backend->ops->add(w->backend, &args, err);
}

/* name, rows, n_out, n_in, heads, kv_heads, head_dim, keys, quick */
#define LINEAR(name, n_out, n_in, quick)                                                                               \
    { "decode_" name, 1, n_out, n_in, 0, 0, 0, 0, quick }, { "prefill_" name, 32, n_out, n_in, 0, 0, 0, 0, quick },    \
        { "prefill_" name, 128, n_out, n_in, 0, 0, 0, 0, false }, {                                                    \
        "prefill_" name, 512, n_out, n_in, 0, 0, 0, 0, false                                                           \
    }

static const struct shape LINEARS[] = {
    LINEAR("qwen_qkv", 1152, 896, true),        LINEAR("qwen_ffn_gate_up", 9728, 896, false),
    LINEAR("qwen_ffn_down", 896, 4864, false),  LINEAR("qwen_logits", 151936, 896, false),
    LINEAR("phi3_qkv", 9216, 3072, false),      LINEAR("phi3_ffn_gate_up", 16384, 3072, false),
    LINEAR("phi3_ffn_down", 3072, 8192, false),
};

#define ATTENTION(model, heads, kv_heads, dim, quick)                                                                  \
    { "prefill_" model, 32, 0, 0, heads, kv_heads, dim, 32, quick },                                                   \
        { "prefill_" model, 128, 0, 0, heads, kv_heads, dim, 128, false },                                             \
        { "prefill_" model, 512, 0, 0, heads, kv_heads, dim, 512, false },                                             \
        { "prefill_" model, 2048, 0, 0, heads, kv_heads, dim, 2048, false },                                           \
        { "decode_" model, 1, 0, 0, heads, kv_heads, dim, 128, quick },                                                \
        { "decode_" model, 1, 0, 0, heads, kv_heads, dim, 512, false },                                                \
        { "decode_" model, 1, 0, 0, heads, kv_heads, dim, 2048, false }, {                                             \
        "decode_" model, 1, 0, 0, heads, kv_heads, dim, 8192, false                                                    \
    }

static const struct shape ATTENTIONS[] = { ATTENTION("qwen", 14, 2, 64, true), ATTENTION("phi3", 32, 32, 96, false) };

static const struct shape KV_WRITES[] = {
    { "decode_qwen", 1, 0, 0, 14, 2, 64, 8192, true },
    { "prefill_qwen", 512, 0, 0, 14, 2, 64, 8192, false },
    { "decode_phi3", 1, 0, 0, 32, 32, 96, 8192, false },
    { "prefill_phi3", 512, 0, 0, 32, 32, 96, 8192, false },
};
static const struct shape RMSNORMS[] = {
    { "decode_qwen", 1, 0, 896, 0, 0, 0, 0, true },
    { "prefill_qwen", 512, 0, 896, 0, 0, 0, 0, false },
    { "decode_phi3", 1, 0, 3072, 0, 0, 0, 0, false },
    { "prefill_phi3", 512, 0, 3072, 0, 0, 0, 0, false },
};
static const struct shape ROPES[] = {
    { "decode_qwen", 1, 0, 0, 14, 2, 64, 0, true },
    { "prefill_qwen", 512, 0, 0, 14, 2, 64, 0, false },
    { "decode_phi3", 1, 0, 0, 32, 32, 96, 0, false },
    { "prefill_phi3", 512, 0, 0, 32, 32, 96, 0, false },
};
static const struct shape SWIGLUS[] = {
    { "decode_qwen", 1, 0, 4864, 0, 0, 0, 0, true },
    { "prefill_qwen", 512, 0, 4864, 0, 0, 0, 0, false },
    { "decode_phi3", 1, 0, 8192, 0, 0, 0, 0, false },
    { "prefill_phi3", 512, 0, 8192, 0, 0, 0, 0, false },
};

static const struct shape LAYERNORMS[] = { { "decode_gpt2", 1, 0, 768, 0, 0, 0, 0, true },
                                           { "prefill_gpt2", 512, 0, 768, 0, 0, 0, 0, false } };
static const struct shape GELUS[] = { { "decode_gpt2", 1, 0, 3072, 0, 0, 0, 0, true },
                                      { "prefill_gpt2", 512, 0, 3072, 0, 0, 0, 0, false } };
static const struct shape SOFTMAXES[] = { { "scores", 512, 0, 512, 0, 0, 0, 0, true },
                                          { "long_scores", 512, 0, 8192, 0, 0, 0, 0, false } };

static const struct bench_op OPS[] = {
    { "linear", linear_measure, linear_launch, LINEARS, KG_COUNT_OF(LINEARS) },
    { "attention", attention_measure, attention_launch, ATTENTIONS, KG_COUNT_OF(ATTENTIONS) },
    { "kv_write", kv_write_measure, kv_write_launch, KV_WRITES, KG_COUNT_OF(KV_WRITES) },
    { "rmsnorm", rmsnorm_measure, rmsnorm_launch, RMSNORMS, KG_COUNT_OF(RMSNORMS) },
    { "layernorm", layernorm_measure, layernorm_launch, LAYERNORMS, KG_COUNT_OF(LAYERNORMS) },
    { "rope", rope_measure, rope_launch, ROPES, KG_COUNT_OF(ROPES) },
    { "softmax", softmax_measure, softmax_launch, SOFTMAXES, KG_COUNT_OF(SOFTMAXES) },
    { "add", add_measure, add_launch, RMSNORMS, KG_COUNT_OF(RMSNORMS) },
    { "swiglu", swiglu_measure, swiglu_launch, SWIGLUS, KG_COUNT_OF(SWIGLUS) },
    { "gelu", gelu_measure, gelu_launch, GELUS, KG_COUNT_OF(GELUS) },
};

static const struct {
    const char *backend;
    enum kg_precision precision;
    bool quick_only; /* the reference back end is not made for large shapes */
} TARGETS[] = {
    { "cpu", KG_PRECISION_F32, true },
    { "cuda", KG_PRECISION_F32, false },
    { "cuda", KG_PRECISION_F16, false },
};

static uint64_t set_bytes(const struct work *w) {
    uint64_t n = 0;
    for (int i = 0; i < MAX_INPUTS; i++) n += w->f.inputs[i];
    return n * kg_precision_bytes(w->c->precision);
}

static void work_open(struct work *w, struct kg_bench_machine *machine, size_t n_sets) {
    const enum kg_precision p = w->c->precision;
    const struct shape *s = w->c->shape;
    w->backend = machine->backend;
    w->n_sets = n_sets;
    for (int i = 0; i < MAX_INPUTS; i++) {
        w->inputs[i] = kg_bench_alloc(machine, n_sets * w->f.inputs[i] * kg_precision_bytes(p));
        kg_bench_fill(machine, w->inputs[i].data, n_sets * w->f.inputs[i], p, 101 * ((uint64_t)i + 1));
    }
    for (int i = 0; i < MAX_OUTPUTS; i++) {
        w->outputs[i] = kg_bench_alloc(machine, w->f.outputs[i] * kg_precision_bytes(p));
        kg_bench_poison(machine, w->outputs[i].data, w->f.outputs[i], p);
    }
    w->weight = kg_bench_alloc(machine, (uint64_t)s->n_in * sizeof(float));
    kg_bench_fill(machine, w->weight.data, s->n_in, KG_PRECISION_F32, 404);
    const struct kg_attention_args heads = {
        .n_heads = s->heads, .n_kv_heads = s->kv_heads, .head_dim = s->head_dim, .n_ctx = s->keys
    };
    const bool attends = w->c->op->launch == attention_launch;
    const uint32_t width = s->n_in ? s->n_in : s->heads * s->head_dim;
    w->workspace = kg_bench_alloc(
        machine, kg_bench_workspace(machine, p, s->rows, width, s->n_out ? s->n_out : width, attends ? &heads : NULL));
}

static void work_close(struct work *w, struct kg_bench_machine *machine) {
    kg_bench_free(machine, &w->workspace, 1);
    kg_bench_free(machine, &w->weight, 1);
    kg_bench_free(machine, w->outputs, MAX_OUTPUTS);
    kg_bench_free(machine, w->inputs, MAX_INPUTS);
}

static void time_op(struct kg_record *rec, const void *arg) {
    const struct bench_case *c = arg;
    struct kg_bench_machine *const machine = kg_bench_machine_open(rec, c->backend);
    if (!machine) return;
    struct work w = { .c = c };
    c->op->measure(c->shape, &w.f);
    const size_t n_cold = kg_bench_cold_sets(machine, set_bytes(&w));
    work_open(&w, machine, n_cold > 0 ? n_cold : 1);
    const double elem_bytes = (double)kg_precision_bytes(c->precision);
    const struct kg_bench_work work = { .launch = c->op->launch,
                                        .arg = &w,
                                        .n_sets = w.n_sets,
                                        .bytes = (w.f.read_elems + w.f.written_elems) * elem_bytes,
                                        .flops = w.f.flops };
    kg_bench_time_states(rec, machine, c->precision, &work, n_cold > 0, true);
    if (!w.f.partly_written) kg_bench_expect_written(machine, w.outputs[0].data, w.f.outputs[0], c->precision);
    kg_bench_record_counters(rec, machine);
    work_close(&w, machine);
}

/* The canaries as a case: what the shares of this run are shares of. */
static void canaries(struct kg_record *rec, const void *arg) {
    const struct bench_case *c = arg;
    struct kg_bench_machine *const machine = kg_bench_machine_open(rec, c->backend);
    if (!machine) return;
    const struct kg_roofline *const roofline = kg_bench_roofline(machine, c->precision);
    kg_bench_record_roofline(rec, roofline);
    kg_record_metric(rec, "cache", "bytes", (double)machine->cache_bytes);
    ck_assert_msg(roofline->copy_gb_s > 0 && roofline->read_gb_s > 0 && roofline->tflop_s > 0,
                  "a canary took no time: copy %g GB/s, read %g GB/s, GEMM %g TFLOP/s", roofline->copy_gb_s,
                  roofline->read_gb_s, roofline->tflop_s);
}

static const struct bench_case *keep(struct bench_case c) {
    enum { MOST = 512 };
    static struct bench_case kept[MOST];
    static size_t n_kept;
    if (n_kept == MOST) ck_abort_msg("more than %d bench cases", MOST);
    kept[n_kept] = c;
    return &kept[n_kept++];
}

static void shape_text(const struct bench_op *op, const struct shape *s, char *text, size_t size) {
    if (s->n_out) snprintf(text, size, "M=%u N=%u K=%u", s->rows, s->n_out, s->n_in);
    else if (op->launch == attention_launch)
        snprintf(text, size, "rows=%u keys=%u heads=%u/%u D=%u", s->rows, s->keys, s->heads, s->kv_heads, s->head_dim);
    else if (op->launch == kv_write_launch)
        snprintf(text, size, "rows=%u heads=%u D=%u ctx=%u", s->rows, s->kv_heads, s->head_dim, s->keys);
    else if (s->heads) snprintf(text, size, "rows=%u heads=%u D=%u", s->rows, s->heads, s->head_dim);
    else snprintf(text, size, "rows=%u cols=%u", s->rows, s->n_in);
}

static void build(struct kg_case_list *list) {
    for (size_t t = 0; t < KG_COUNT_OF(TARGETS); t++) {
        struct kg_case row = { .layer = "bench",
                               .backend = TARGETS[t].backend,
                               .dtype = kg_precision_name(TARGETS[t].precision),
                               .spec = "FT-054",
                               .timeout_s = 300 };
        struct bench_case c = { .backend = TARGETS[t].backend, .precision = TARGETS[t].precision };
        row.op = "canary";
        row.name = "memory_and_gemm";
        row.definition = kg_bench_quick() ? "quick" : "full";
        row.run = canaries;
        row.arg = keep(c);
        kg_case_list_add(list, &row);
        row.run = time_op;
        row.definition = "normal data; cold: sets beyond twice the last-level cache; bytes: inputs and outputs once";
        for (size_t o = 0; o < KG_COUNT_OF(OPS); o++)
            for (size_t i = 0; i < OPS[o].n_shapes; i++) {
                const struct shape *const s = &OPS[o].shapes[i];
                char text[128];
                if (!s->quick && (TARGETS[t].quick_only || kg_bench_quick())) continue;
                if (OPS[o].launch == attention_launch && s->rows == 1 && strcmp(c.backend, "cuda") == 0)
                    continue; /* bench_attention_step: the operation zeroes its workspace, a step need not */
                c.op = &OPS[o];
                c.shape = s;
                shape_text(c.op, s, text, sizeof text);
                row.op = c.op->name;
                row.name = s->name;
                row.shape = text;
                row.arg = keep(c);
                kg_case_list_add(list, &row);
            }
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
