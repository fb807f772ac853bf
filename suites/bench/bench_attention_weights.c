/* FT-055: attention_weights, scores and softmax in one operation, beside what it replaces, `unfused`: a product for
 * each KV head that leaves scores in memory, and softmax in place. Head shapes of published models; one query, and 512.
 * Each query sees all keys, since softmax has no mask. The unfused operations get q and k by heads, which is their best
 * layout. Timings are of graphs, in which several launches cost the host no more than one; they are recorded, never
 * judged. What is timed has given what the other way gives.
 *
 * Cold iterations go round sets of q and k beyond twice the last-level cache. Bytes count q, k and the weights once. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/bench/fused_work.h"
#include "suites/harness/compare.h"
#include "suites/harness/must.h"
#include "suites/support/counters.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum kg_precision PRECISION = KG_PRECISION_F16;

static const struct shape {
    const char *model;
    uint32_t n_heads, n_kv_heads, head_dim, n_queries, n_keys;
} SHAPES[] = {
    { "qwen2.5-0.5b", 14, 2, 64, 1, 512 },    { "qwen2.5-0.5b", 14, 2, 64, 1, 4096 },
    { "qwen2.5-0.5b", 14, 2, 64, 512, 512 },  { "qwen2.5-0.5b", 14, 2, 64, 512, 4096 },
    { "llama-3.1-8b", 32, 8, 128, 1, 512 },   { "llama-3.1-8b", 32, 8, 128, 1, 4096 },
    { "llama-3.1-8b", 32, 8, 128, 512, 512 }, { "llama-3.1-8b", 32, 8, 128, 512, 4096 },
};

struct bench_case {
    const struct shape *shape;
    bool fused;
};

/* q and k of a way, as often as there are sets: rows by position for the fused operation, by heads for the others. */
struct way {
    bool fused;
    size_t n_sets;
    struct kg_block q, k, y;
};

struct work {
    const struct shape *shape;
    struct kg_bench_machine *machine;
    struct kg_block workspace;
    struct way way;
};

static uint64_t q_elems(const struct shape *s) {
    return (uint64_t)s->n_queries * s->n_heads * s->head_dim;
}

static uint64_t k_elems(const struct shape *s) {
    return (uint64_t)s->n_keys * s->n_kv_heads * s->head_dim;
}

static uint64_t y_elems(const struct shape *s) {
    return (uint64_t)s->n_heads * s->n_queries * s->n_keys;
}

static float scale_of(const struct shape *s) {
    return 1 / sqrtf((float)s->head_dim);
}

static char *at_elem(const struct kg_block *block, uint64_t elem) {
    return (char *)block->data + elem * kg_precision_bytes(PRECISION);
}

static enum kg_status run_fused(const struct work *w, const struct way *way, size_t set, struct kg_error *err) {
    const struct shape *s = w->shape;
    const struct kg_attention_weights_args args = { .activations = PRECISION,
                                                    .q = at_elem(&way->q, set * q_elems(s)),
                                                    .k = at_elem(&way->k, set * k_elems(s)),
                                                    .y = way->y.data,
                                                    .n_queries = s->n_queries,
                                                    .n_keys = s->n_keys,
                                                    .n_heads = s->n_heads,
                                                    .n_kv_heads = s->n_kv_heads,
                                                    .head_dim = s->head_dim,
                                                    .scale = scale_of(s) };
    return w->machine->backend->ops->attention_weights(w->machine->backend, &args, err);
}

/* Of a KV head the queries of all its heads are rows of one product. */
static enum kg_status run_unfused(const struct work *w, const struct way *way, size_t set, struct kg_error *err) {
    const struct shape *s = w->shape;
    struct kg_backend *backend = w->machine->backend;
    const uint32_t n_rows = s->n_heads / s->n_kv_heads * s->n_queries;
    const struct kg_softmax_args softmax = { .activations = PRECISION,
                                             .x = way->y.data,
                                             .y = way->y.data,
                                             .n_rows = s->n_heads * s->n_queries,
                                             .n_cols = s->n_keys,
                                             .scale = scale_of(s) };
    enum kg_status status = KG_OK;
    for (uint32_t g = 0; g < s->n_kv_heads && !status; g++) {
        const char *k = at_elem(&way->k, set * k_elems(s) + (uint64_t)g * s->n_keys * s->head_dim);
        const struct kg_linear_args scores = {
            .activations = PRECISION,
            .output = PRECISION,
            .x = at_elem(&way->q, set * q_elems(s) + (uint64_t)g * n_rows * s->head_dim),
            .weight = { k, kg_bench_dtype(PRECISION), s->n_keys, s->head_dim },
            .y = at_elem(&way->y, (uint64_t)g * n_rows * s->n_keys),
            .n_rows = n_rows,
            .workspace = w->workspace.data,
        };
        status = backend->ops->linear(backend, &scores, err);
    }
    return status ? status : backend->ops->softmax(backend, &softmax, err);
}

static enum kg_status run(const struct work *w, const struct way *way, size_t set, struct kg_error *err) {
    return way->fused ? run_fused(w, way, set, err) : run_unfused(w, way, set, err);
}

static enum kg_status launch(void *arg, size_t iteration, struct kg_error *err) {
    const struct work *w = arg;
    return run(w, &w->way, iteration % w->way.n_sets, err);
}

/* Normal values of a tensor (n_rows, n_heads, head_dim), or of the same one as (n_heads, n_rows, head_dim). Scores of
 * such values have deviation 1. */
static uint16_t *make_values(uint32_t n_rows, uint32_t n_heads, uint32_t head_dim, uint64_t seed, bool by_heads) {
    const size_t n = (size_t)n_rows * n_heads * head_dim;
    float *values = kg_xcalloc(n, sizeof *values);
    uint16_t *halves = kg_xcalloc(n, sizeof *halves);
    kg_fill_normal(values, n, seed, 0, 1);
    for (size_t r = 0; r < n_rows; r++)
        for (size_t h = 0; h < n_heads; h++)
            for (size_t d = 0; d < head_dim; d++) {
                const size_t from = (r * n_heads + h) * head_dim + d;
                halves[by_heads ? (h * n_rows + r) * head_dim + d : from] = kg_f32_to_f16(values[from]);
            }
    free(values);
    return halves;
}

/* n_sets copies of a tensor's values. */
static struct kg_block put(const struct work *w, const struct way *way, uint32_t n_rows, uint32_t n_heads,
                           uint64_t seed) {
    const uint64_t n = (uint64_t)n_rows * n_heads * w->shape->head_dim, n_bytes = n * kg_precision_bytes(PRECISION);
    struct kg_backend *backend = w->machine->backend;
    struct kg_block block = kg_bench_alloc(w->machine, way->n_sets * n_bytes);
    uint16_t *values = make_values(n_rows, n_heads, w->shape->head_dim, seed, !way->fused);
    struct kg_error err;
    for (size_t i = 0; i < way->n_sets; i++)
        kg_must(backend->ops->upload(backend, at_elem(&block, i * n), values, n_bytes, &err), &err);
    free(values);
    return block;
}

static void way_open(const struct work *w, bool fused, size_t n_sets, struct way *way) {
    const struct shape *s = w->shape;
    *way = (struct way){ .fused = fused, .n_sets = n_sets };
    way->q = put(w, way, s->n_queries, s->n_heads, 1);
    way->k = put(w, way, s->n_keys, s->n_kv_heads, 2);
    way->y = kg_bench_alloc(w->machine, y_elems(s) * kg_precision_bytes(PRECISION));
    kg_bench_poison(w->machine, way->y.data, y_elems(s), PRECISION);
}

static void way_close(const struct work *w, struct way *way) {
    struct kg_block blocks[] = { way->q, way->k, way->y };
    kg_bench_free(w->machine, blocks, KG_COUNT_OF(blocks));
}

/* The first set, as timed and the other way. A weight is of the size 1 / n_keys. */
static void expect_same(const struct work *w) {
    enum { CHUNK_ELEMS = 1 << 20 };
    const struct shape *s = w->shape;
    struct way other;
    struct kg_error err;
    way_open(w, !w->way.fused, 1, &other);
    kg_must(run(w, &w->way, 0, &err), &err);
    kg_must(run(w, &other, 0, &err), &err);
    const struct way *fused = w->way.fused ? &w->way : &other, *unfused = w->way.fused ? &other : &w->way;
    for (uint64_t at = 0, n; at < y_elems(s); at += n) {
        n = y_elems(s) - at < CHUNK_ELEMS ? y_elems(s) - at : CHUNK_ELEMS;
        float *got = kg_bench_fetch(w->machine, fused->y.data, at, n, PRECISION);
        float *want = kg_bench_fetch(w->machine, unfused->y.data, at, n, PRECISION);
        kg_fused_expect_same(got, want, n, 1.0 / s->n_keys);
        free(want), free(got);
    }
    way_close(w, &other);
    kg_bench_poison(w->machine, w->way.y.data, y_elems(s), PRECISION);
}

static void time_weights(struct kg_record *rec, const void *arg) {
    const struct bench_case *c = arg;
    const struct shape *s = c->shape;
    struct work w = { .shape = s, .machine = kg_bench_machine_open(rec, "cuda") };
    if (!w.machine) return;
    const uint64_t elem = kg_precision_bytes(PRECISION);
    const size_t n_cold = kg_bench_cold_sets(w.machine, elem * (q_elems(s) + k_elems(s)));
    const uint32_t n_rows = s->n_heads / s->n_kv_heads * s->n_queries;
    w.workspace =
        kg_bench_alloc(w.machine, kg_bench_workspace(w.machine, PRECISION, n_rows, s->head_dim, s->n_keys, NULL));
    way_open(&w, c->fused, n_cold > 0 ? n_cold : 1, &w.way);
    const struct kg_bench_work work = { .launch = launch,
                                        .arg = &w,
                                        .n_sets = w.way.n_sets,
                                        .bytes = (double)(elem * (q_elems(s) + k_elems(s) + y_elems(s))),
                                        .flops = 2 * (double)y_elems(s) * s->head_dim,
                                        .bursts_from_ns = 5e4 };
    if (!kg_bench_counted()) expect_same(&w);
    kg_bench_time_states(rec, w.machine, PRECISION, &work, n_cold > 0, false);
    if (!kg_bench_counted()) kg_bench_expect_written(w.machine, w.way.y.data, y_elems(s), PRECISION);
    kg_bench_record_counters(rec, w.machine);
    way_close(&w, &w.way);
    kg_bench_free(w.machine, &w.workspace, 1);
}

static void build(struct kg_case_list *cases) {
    static struct bench_case kept[2 * KG_COUNT_OF(SHAPES)];
    size_t n_kept = 0;
    for (size_t i = 0; i < KG_COUNT_OF(SHAPES); i++)
        for (int fused = 0; fused < 2; fused++) {
            const struct shape *s = &SHAPES[i];
            char name[48], shape[96];
            if (kg_bench_quick() && y_elems(s) > 1 << 16) continue;
            snprintf(name, sizeof name, "%s_attention_weights", s->n_queries == 1 ? "decode" : "prefill");
            snprintf(shape, sizeof shape, "%s queries=%u keys=%u heads=%u/%u D=%u full", s->model, s->n_queries,
                     s->n_keys, s->n_heads, s->n_kv_heads, s->head_dim);
            kept[n_kept] = (struct bench_case){ s, fused == 1 };
            kg_case_list_add(cases, &(struct kg_case){ .layer = "bench",
                                                       .op = fused ? "fused" : "unfused",
                                                       .name = name,
                                                       .backend = "cuda",
                                                       .dtype = "f16",
                                                       .shape = shape,
                                                       .spec = "FT-055",
                                                       .definition = "normal data; cold: sets of q and k beyond twice "
                                                                     "the last-level cache; bytes: q, k and weights",
                                                       .timeout_s = 300,
                                                       .run = time_weights,
                                                       .arg = &kept[n_kept++] });
        }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
