/* GT-033, GT-037: how fast products with MXFP4 weights are at GPT-OSS-20B's shapes, beside the same products with
 * float16 weights in the same run: cases whose keys differ in the dtype only, so that `kigo signoff` divides one by the
 * other. f16 activations on a device, f32 on the reference back end. Timings are recorded, never judged.
 *
 * Weights lie as a model's do: tag weights, repacked as the back end likes. weight_bytes is what the allocator counted
 * for one of them. Cold iterations go round all sets; of experts, for one row, a set is four of the 32 matrices, and an
 * iteration reads another four. Many rows draw theirs at random, so that an iteration reads all matrices. */
#include "base/buffer.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/support/counters.h"
#include "suites/support/machine.h"
#include "suites/harness/compare.h"
#include "suites/harness/must.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shape {
    const char *name;
    uint32_t rows, n_out, n_in;
    uint32_t n_experts, n_used; /* 0: a linear */
    bool quick;                 /* for the reference back end, and under --quick; the others where it is neither */
};

#define GEMM(n_out, n_in)                                                                                              \
    { "gemm", 16, n_out, n_in, 0, 0, false }, { "gemm", 64, n_out, n_in, 0, 0, false },                                \
        { "gemm", 512, n_out, n_in, 0, 0, false }, {                                                                   \
        "gemm", 4096, n_out, n_in, 0, 0, false                                                                         \
    }
static const struct shape SHAPES[] = {
    { "gemv", 1, 288, 320, 0, 0, true },
    { "gemm", 16, 288, 320, 0, 0, true },
    { "gemv_experts", 1, 160, 192, 8, 2, true },
    { "gemm_experts", 64, 160, 192, 8, 2, true },
    { "gemv", 1, 4096, 4096, 0, 0, false },
    GEMM(4096, 4096),
    GEMM(2880, 2880),
    { "gemv", 1, 201088, 2880, 0, 0, false },
    { "gemv_experts", 1, 2880, 2880, 32, 4, false },
    { "gemm_experts", 512, 2880, 2880, 32, 4, false },
};

struct bench_case {
    const struct shape *shape;
    const char *backend;
    enum kg_dtype weight;
};

struct work {
    const struct bench_case *c;
    struct kg_bench_machine *machine;
    enum kg_precision precision;
    struct kg_block weights, x, y, ids, workspace;
    uint64_t matrix_bytes, stride_bytes; /* of one matrix; from set to set */
    size_t n_sets;
};

static bool has_experts(const struct work *w) {
    return w->c->shape->n_experts > 0;
}

static enum kg_status launch(void *arg, size_t iteration, struct kg_error *err) {
    const struct work *w = arg;
    const struct shape *s = w->c->shape;
    const size_t set = iteration % w->n_sets;
    const struct kg_backend_ops *ops = w->machine->backend->ops;
    if (has_experts(w)) {
        const struct kg_experts_linear_args args = { .activations = w->precision,
                                                     .x = w->x.data,
                                                     .weight = { w->weights.data, w->c->weight, s->n_experts * s->n_out,
                                                                 s->n_in },
                                                     .n_experts = s->n_experts,
                                                     .ids = (const int32_t *)w->ids.data + set * s->n_used,
                                                     .y = w->y.data,
                                                     .n_rows = s->rows * s->n_used,
                                                     .n_sharing = s->n_used,
                                                     .workspace = w->workspace.data };
        return ops->experts_linear(w->machine->backend, &args, err);
    }
    const struct kg_linear_args args = { .activations = w->precision,
                                         .output = w->precision,
                                         .x = w->x.data,
                                         .weight = { (const char *)w->weights.data + set * w->stride_bytes,
                                                     w->c->weight, s->n_out, s->n_in },
                                         .y = w->y.data,
                                         .n_rows = s->rows,
                                         .workspace = w->workspace.data };
    return ops->linear(w->machine->backend, &args, err);
}

/* The sets' weights, and the bytes that the back end counts for one: of experts, for all of them. */
static void put_weights(struct kg_record *rec, struct work *w) {
    const struct shape *s = w->c->shape;
    struct kg_backend *b = w->machine->backend;
    struct kg_error err = { 0 };
    struct kg_memory_use before, after;
    const size_t n_matrices = has_experts(w) ? s->n_experts : 1, n_weights = has_experts(w) ? 1 : w->n_sets;
    kg_backend_memory(b, &before);
    kg_must(b->ops->alloc(b, KG_MEMORY_WEIGHTS, n_weights * w->stride_bytes, "a bench's weights", &w->weights, &err),
            &err);
    kg_backend_memory(b, &after);
    kg_record_metric(rec, "weight_bytes", "bytes",
                     (double)(after.current_bytes[KG_MEMORY_WEIGHTS] - before.current_bytes[KG_MEMORY_WEIGHTS]) /
                         (double)n_weights);
    for (size_t i = 0; i < n_weights; i++) {
        char *at = (char *)w->weights.data + i * w->stride_bytes;
        struct kg_weight weight = { at, w->c->weight, (uint32_t)(n_matrices * s->n_out), s->n_in };
        if (w->c->weight == KG_DTYPE_MXFP4)
            kg_bench_fill_blocks(w->machine, w->c->weight, at, n_matrices * w->matrix_bytes);
        else kg_bench_fill(w->machine, at, n_matrices * s->n_out * (uint64_t)s->n_in, KG_PRECISION_F16, 101 + i);
        if (b->ops->repack_weight && !b->ops->weights_in_place)
            kg_must(b->ops->repack_weight(b, &weight, (uint32_t)n_matrices, &err), &err);
    }
}

/* malloc'ed: of one row all experts, from which each iteration takes its own; of more, n_used different ones each. */
static int32_t *route(const struct shape *s, size_t n_ids) {
    struct kg_rng rng;
    int32_t *ids = kg_xcalloc(n_ids, sizeof *ids);
    kg_rng_init(&rng, 17, 0);
    for (size_t i = 0; i < n_ids; i++) {
        const size_t first = s->rows == 1 ? 0 : i / s->n_used * s->n_used;
        bool taken;
        do {
            ids[i] = s->rows == 1 ? (int32_t)i : (int32_t)kg_rng_below(&rng, s->n_experts);
            taken = false;
            for (size_t j = first; j < i; j++) taken = taken || ids[j] == ids[i];
        } while (taken);
    }
    return ids;
}

static void work_open(struct kg_record *rec, struct work *w) {
    const struct shape *s = w->c->shape;
    const uint32_t n_rows = has_experts(w) ? s->rows * s->n_used : s->rows;
    struct kg_error err = { 0 };
    put_weights(rec, w);
    w->x = kg_bench_alloc(w->machine, (uint64_t)s->rows * s->n_in * kg_precision_bytes(w->precision));
    kg_bench_fill(w->machine, w->x.data, (uint64_t)s->rows * s->n_in, w->precision, 11);
    w->y = kg_bench_alloc(w->machine, (uint64_t)n_rows * s->n_out * kg_precision_bytes(w->precision));
    kg_bench_poison(w->machine, w->y.data, (uint64_t)n_rows * s->n_out, w->precision);
    w->workspace =
        kg_bench_alloc(w->machine, kg_bench_workspace(w->machine, w->precision, n_rows, s->n_in, s->n_out, NULL));
    if (!has_experts(w)) return;
    const size_t n_ids = s->rows == 1 ? s->n_experts : n_rows;
    int32_t *ids = route(s, n_ids);
    w->ids = kg_bench_alloc(w->machine, n_ids * sizeof *ids);
    kg_must(w->machine->backend->ops->upload(w->machine->backend, w->ids.data, ids, n_ids * sizeof *ids, &err), &err);
    free(ids);
}

static void work_close(struct work *w) {
    struct kg_block blocks[] = { w->weights, w->x, w->y, w->ids, w->workspace };
    kg_bench_free(w->machine, blocks, KG_COUNT_OF(blocks));
}

static void time_product(struct kg_record *rec, const void *arg) {
    const struct bench_case *c = arg;
    const struct shape *s = c->shape;
    struct work w = { .c = c, .machine = kg_bench_machine_open(rec, c->backend) };
    if (!w.machine) return;
    const struct kg_weight matrix = { NULL, c->weight, s->n_out, s->n_in };
    const uint32_t n_used = has_experts(&w) ? s->n_used : 1,
                   n_read = s->rows == 1 || !has_experts(&w) ? n_used : s->n_experts;
    const double m = s->rows, n = s->n_out, k = s->n_in;
    w.precision = strcmp(c->backend, "cpu") == 0 ? KG_PRECISION_F32 : KG_PRECISION_F16;
    w.matrix_bytes = kg_weight_row_bytes(&matrix) * s->n_out;
    w.stride_bytes = has_experts(&w) ? s->n_experts * w.matrix_bytes : (w.matrix_bytes + 255) / 256 * 256;
    const size_t n_cold = kg_bench_cold_sets(w.machine, n_read * w.matrix_bytes);
    bool cold = n_cold > 0;
    w.n_sets = cold ? n_cold : 1;
    if (has_experts(&w)) { /* as many sets as there are experts for: one, where an iteration reads all */
        const size_t most = s->n_experts / n_read;
        cold = cold && n_cold <= most;
        w.n_sets = cold ? most : 1;
    }
    work_open(rec, &w);
    const double elem_bytes = (double)kg_precision_bytes(w.precision);
    const struct kg_bench_work work = { .launch = launch,
                                        .arg = &w,
                                        .n_sets = w.n_sets,
                                        .bytes =
                                            n_read * (double)w.matrix_bytes + elem_bytes * (m * k + m * n * n_used),
                                        .flops = 2 * m * n * k * n_used,
                                        .bursts_from_ns = 5e4 };
    kg_bench_time_states(rec, w.machine, w.precision, &work, cold, true);
    kg_bench_expect_written(w.machine, w.y.data, (uint64_t)s->rows * n_used * s->n_out, w.precision);
    kg_bench_record_counters(rec, w.machine);
    work_close(&w);
}

static void build(struct kg_case_list *list) {
    static const char *const BACKENDS[] = { "cpu", "cuda" };
    static const struct {
        enum kg_dtype dtype;
        const char *name;
    } WEIGHTS[] = { { KG_DTYPE_F16, "f16" }, { KG_DTYPE_MXFP4, "mxfp4" } };
    static struct bench_case cases[KG_COUNT_OF(SHAPES) * KG_COUNT_OF(BACKENDS) * KG_COUNT_OF(WEIGHTS)];
    size_t n = 0;
    for (size_t b = 0; b < KG_COUNT_OF(BACKENDS); b++)
        for (size_t i = 0; i < KG_COUNT_OF(SHAPES); i++)
            for (size_t t = 0; t < KG_COUNT_OF(WEIGHTS); t++) {
                const struct shape *s = &SHAPES[i];
                char shape[96];
                if (s->quick != (kg_bench_quick() || strcmp(BACKENDS[b], "cpu") == 0)) continue;
                const int length = snprintf(shape, sizeof shape, "M=%u N=%u K=%u", s->rows, s->n_out, s->n_in);
                if (s->n_experts)
                    snprintf(shape + length, sizeof shape - (size_t)length, " experts=%u/%u", s->n_used, s->n_experts);
                cases[n] = (struct bench_case){ s, BACKENDS[b], WEIGHTS[t].dtype };
                kg_case_list_add(
                    list, &(struct kg_case){ .layer = "bench",
                                             .op = "mxfp4_gemm",
                                             .name = s->name,
                                             .backend = BACKENDS[b],
                                             .dtype = WEIGHTS[t].name,
                                             .shape = shape,
                                             .spec = "GT-033",
                                             .definition = "normal data; cold: sets beyond twice the last-level cache; "
                                                           "bytes: weights, inputs and outputs once",
                                             .timeout_s = 300,
                                             .run = time_product,
                                             .arg = &cases[n++] });
            }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
