/* FT-054: the attention of a decode step as the engine has it (attention_step.h): LAYERS layers one after another, each
 * with its own cache, at contexts of the models' sizes. Timings are recorded, never judged. Times are of all layers. */
#include "base/size.h"
#include "suites/support/attention_step.h"
#include "suites/support/machine.h"
#include "suites/harness/must.h"
#include <math.h>
#include <stdio.h>

enum { LAYERS = 24 };

struct shape {
    const char *name;
    uint32_t heads, kv_heads, head_dim, window, n_ctx, n_keys;
    bool sinks;
    const char *kernel; /* in float16, on GPUs of compute capability 9.0; float32 has cuda_cores */
};
static const struct shape SHAPES[] = {
    { "qwen", 14, 2, 64, 0, 1024, 128, false, "few_keys, split" },
    { "qwen", 14, 2, 64, 0, 1024, 512, false, "few_keys, split" },
    { "qwen", 14, 2, 64, 0, 1024, 1000, false, "few_keys, split" },
    { "gpt_oss", 64, 8, 64, 0, 1024, 128, true, "few_keys, split" },
    { "gpt_oss", 64, 8, 64, 0, 1024, 1000, true, "few_keys, split" },
    { "qwen", 14, 2, 64, 0, 4096, 128, false, "few_keys, split" },
    { "qwen", 14, 2, 64, 0, 4096, 512, false, "few_keys, split" },
    { "qwen", 14, 2, 64, 0, 4096, 2048, false, "few_keys, split" },
    { "qwen", 14, 2, 64, 0, 32768, 128, false, "few_keys, split" },
    { "qwen", 14, 2, 64, 0, 32768, 2048, false, "few_keys, split" },
    { "qwen", 14, 2, 64, 0, 32768, 8192, false, "few_keys, split" },
    { "qwen", 14, 2, 64, 0, 32768, 32768, false, "few_keys, split" },
    { "gpt_oss", 64, 8, 64, 0, 4096, 128, true, "few_keys, split" },
    { "gpt_oss", 64, 8, 64, 0, 4096, 512, true, "few_keys, split" },
    { "gpt_oss", 64, 8, 64, 0, 4096, 2048, true, "few_keys, split" },
    { "gpt_oss", 64, 8, 64, 128, 4096, 2048, true, "few_keys" },
    { "gpt_oss", 64, 8, 64, 0, 32768, 128, true, "few_keys, split" },
    { "gpt_oss", 64, 8, 64, 0, 32768, 8192, true, "few_keys, split" },
    { "gpt_oss", 64, 8, 64, 128, 32768, 8192, true, "few_keys" },
    { "phi3", 32, 32, 96, 0, 4096, 128, false, "few_keys, split" },
    { "phi3", 32, 32, 96, 0, 4096, 2048, false, "few_keys, split" },
    { "phi3", 32, 32, 96, 0, 8192, 8192, false, "few_keys, split" },
    { "qwen3", 32, 8, 128, 0, 4096, 128, false, "few_keys, split" },
    { "qwen3", 32, 8, 128, 0, 4096, 2048, false, "few_keys, split" },
    { "qwen3", 32, 8, 128, 0, 32768, 8192, false, "few_keys, split" },
    { "gemma3", 4, 1, 256, 0, 4096, 128, false, "cuda_cores" },
    { "gemma3", 4, 1, 256, 0, 4096, 2048, false, "cuda_cores" },
    { "gemma3", 4, 1, 256, 0, 32768, 8192, false, "cuda_cores" },
};

struct bench_case {
    const struct shape *shape;
    enum kg_precision precision;
};

struct work {
    struct kg_attention_step step;
    uint32_t n_keys;
};

static enum kg_status launch(void *arg, size_t iteration, struct kg_error *err) {
    struct work *w = arg;
    (void)iteration;
    return kg_attention_step_run(&w->step, w->n_keys, err);
}

static void time_step(struct kg_record *rec, const void *arg) {
    const struct bench_case *c = arg;
    const struct shape *s = c->shape;
    struct kg_bench_machine *const machine = kg_bench_machine_open(rec, "cuda");
    if (!machine) return;
    const uint64_t elem = kg_precision_bytes(c->precision), row = (uint64_t)s->heads * s->head_dim;
    const uint64_t cache = (uint64_t)s->kv_heads * s->n_ctx * s->head_dim;
    struct kg_attention_args layers[LAYERS];
    enum { Q, Y, SINKS, WORKSPACE, CACHES, N_BLOCKS = CACHES + 2 };
    const struct kg_attention_args extent = {
        .n_heads = s->heads, .n_kv_heads = s->kv_heads, .head_dim = s->head_dim, .n_ctx = s->n_ctx
    };
    struct kg_block blocks[N_BLOCKS] = {
        [Q] = kg_bench_alloc(machine, row * elem),
        [Y] = kg_bench_alloc(machine, row * elem),
        [SINKS] = kg_bench_alloc(machine, s->heads * sizeof(float)),
        [WORKSPACE] = kg_bench_alloc(
            machine, kg_bench_workspace(machine, c->precision, 1, (uint32_t)row, (uint32_t)row, &extent)),
        [CACHES] = kg_bench_alloc(machine, LAYERS * cache * elem),
        [CACHES + 1] = kg_bench_alloc(machine, LAYERS * cache * elem),
    };
    kg_bench_fill(machine, blocks[Q].data, row, c->precision, 101);
    kg_bench_fill(machine, blocks[SINKS].data, s->heads, KG_PRECISION_F32, 202);
    for (int i = 0; i < 2; i++)
        kg_bench_fill(machine, blocks[CACHES + i].data, LAYERS * cache, c->precision, 303 + (uint64_t)i);
    kg_bench_poison(machine, blocks[Y].data, row, c->precision);
    for (int i = 0; i < LAYERS; i++) {
        const uint64_t at = (uint64_t)i * cache * elem;
        layers[i] = extent;
        layers[i].activations = layers[i].kv = c->precision;
        layers[i].q = blocks[Q].data;
        layers[i].k_cache = (const char *)blocks[CACHES].data + at;
        layers[i].v_cache = (const char *)blocks[CACHES + 1].data + at;
        layers[i].y = blocks[Y].data;
        layers[i].scale = 1 / sqrtf((float)s->head_dim);
        layers[i].causal = true;
        layers[i].window = s->window;
        layers[i].workspace = blocks[WORKSPACE].data;
        layers[i].sinks = s->sinks ? blocks[SINKS].data : NULL;
    }
    struct work w = { .n_keys = s->n_keys };
    kg_attention_step_open(machine->backend, layers, LAYERS, &w.step);
    kg_attention_step_expect(rec, &w.step, c->precision == KG_PRECISION_F16 ? s->kernel : "cuda_cores");
    const double n_seen = s->window > 0 && s->window < s->n_keys ? s->window : s->n_keys;
    const struct kg_bench_work work = {
        .launch = launch,
        .arg = &w,
        .n_sets = 1,
        .bytes = LAYERS * (2.0 * (double)row + 2 * n_seen * s->kv_heads * s->head_dim) * (double)elem,
        .flops = LAYERS * 4 * (double)row * n_seen,
    };
    const double ns = kg_bench_time(rec, machine, kg_bench_roofline(machine, c->precision), KG_TIMING_KERNEL, &work);
    kg_record_metric(rec, "layer", "ns", ns / LAYERS);
    kg_bench_expect_written(machine, blocks[Y].data, row, c->precision);
    kg_attention_step_close(&w.step);
    kg_bench_free(machine, blocks, N_BLOCKS);
}

static void build(struct kg_case_list *cases) {
    static const enum kg_precision PRECISIONS[] = { KG_PRECISION_F16, KG_PRECISION_F32 };
    static struct bench_case kept[KG_COUNT_OF(PRECISIONS) * KG_COUNT_OF(SHAPES)];
    size_t n_kept = 0;
    for (size_t p = 0; p < KG_COUNT_OF(PRECISIONS); p++)
        for (size_t i = 0; i < KG_COUNT_OF(SHAPES); i++) {
            const struct shape *s = &SHAPES[i];
            char name[32], shape[80];
            snprintf(name, sizeof name, "step_%s", s->name);
            snprintf(shape, sizeof shape, "layers=%d keys=%u ctx=%u heads=%u/%u D=%u window=%u", LAYERS, s->n_keys,
                     s->n_ctx, s->heads, s->kv_heads, s->head_dim, s->window);
            kept[n_kept] = (struct bench_case){ s, PRECISIONS[p] };
            kg_case_list_add(cases, &(struct kg_case){ .layer = "bench",
                                                       .op = "attention",
                                                       .name = name,
                                                       .backend = "cuda",
                                                       .dtype = PRECISIONS[p] == KG_PRECISION_F16 ? "f16" : "f32",
                                                       .shape = shape,
                                                       .spec = "FT-054",
                                                       .timeout_s = 120,
                                                       .run = time_step,
                                                       .arg = &kept[n_kept] });
            n_kept++;
        }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
