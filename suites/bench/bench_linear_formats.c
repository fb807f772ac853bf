/* How fast linear of many rows is with weights of block formats, at shapes of Llama-3.1-8B and Qwen2.5-1.5B, beside the
 * same products with float16 weights in the same run. f16 activations on a device, f32 on the reference back end.
 * Timings are recorded, never judged. Cold iterations go round sets of weights beyond twice the last-level cache. */
#include "base/size.h"
#include "suites/support/counters.h"
#include "suites/support/machine.h"
#include "suites/harness/must.h"
#include <stdio.h>
#include <string.h>

struct shape {
    uint32_t rows, n_out, n_in;
    bool quick; /* for the reference back end, and under --quick; the others where it is neither */
};

#define ROWS(n_out, n_in)                                                                                              \
    { 16, n_out, n_in, false }, { 64, n_out, n_in, false }, { 512, n_out, n_in, false }, {                             \
        4096, n_out, n_in, false                                                                                       \
    }
static const struct shape SHAPES[] = {
    { 16, 256, 512, true }, ROWS(4096, 4096), ROWS(1024, 4096), ROWS(14336, 4096), ROWS(4096, 14336), ROWS(1536, 8960),
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
    struct kg_block weights, x, y, workspace;
    uint64_t stride_bytes; /* from set to set */
    size_t n_sets;
};

static enum kg_status launch(void *arg, size_t iteration, struct kg_error *err) {
    const struct work *w = arg;
    const struct shape *s = w->c->shape;
    const char *weights = (const char *)w->weights.data + iteration % w->n_sets * w->stride_bytes;
    const struct kg_linear_args args = { .activations = w->precision,
                                         .output = w->precision,
                                         .x = w->x.data,
                                         .weight = { weights, w->c->weight, s->n_out, s->n_in },
                                         .y = w->y.data,
                                         .n_rows = s->rows,
                                         .workspace = w->workspace.data };
    return w->machine->backend->ops->linear(w->machine->backend, &args, err);
}

static void work_open(struct work *w) {
    const struct shape *s = w->c->shape;
    const uint64_t n_x = (uint64_t)s->rows * s->n_in, n_y = (uint64_t)s->rows * s->n_out;
    struct kg_bench_machine *m = w->machine;
    w->weights = kg_bench_alloc(m, w->n_sets * w->stride_bytes);
    w->x = kg_bench_alloc(m, n_x * kg_precision_bytes(w->precision));
    w->y = kg_bench_alloc(m, n_y * kg_precision_bytes(w->precision));
    w->workspace = kg_bench_alloc(m, kg_bench_workspace(m, w->precision, s->rows, s->n_in, s->n_out, NULL));
    kg_bench_fill_blocks(m, w->c->weight, w->weights.data, w->n_sets * w->stride_bytes);
    kg_bench_fill(m, w->x.data, n_x, w->precision, 11);
    kg_bench_poison(m, w->y.data, n_y, w->precision);
}

static void time_product(struct kg_record *rec, const void *arg) {
    const struct bench_case *c = arg;
    const struct shape *s = c->shape;
    struct work w = { .c = c, .machine = kg_bench_machine_open(rec, c->backend) };
    if (!w.machine) return;
    const struct kg_weight matrix = { NULL, c->weight, s->n_out, s->n_in };
    const double m = s->rows, n = s->n_out, k = s->n_in;
    const uint64_t matrix_bytes = kg_weight_row_bytes(&matrix) * s->n_out;
    w.precision = strcmp(c->backend, "cpu") == 0 ? KG_PRECISION_F32 : KG_PRECISION_F16;
    w.stride_bytes = (matrix_bytes + 255) / 256 * 256;
    const size_t n_cold = kg_bench_cold_sets(w.machine, matrix_bytes);
    w.n_sets = n_cold > 0 ? n_cold : 1;
    work_open(&w);
    const struct kg_bench_work work = { .launch = launch,
                                        .arg = &w,
                                        .n_sets = w.n_sets,
                                        .bytes = (double)matrix_bytes +
                                                 (double)kg_precision_bytes(w.precision) * (m * k + m * n),
                                        .flops = 2 * m * n * k,
                                        .bursts_from_ns = 5e4 };
    kg_bench_time_states(rec, w.machine, w.precision, &work, n_cold > 0, true);
    kg_bench_expect_written(w.machine, w.y.data, (uint64_t)s->rows * s->n_out, w.precision);
    kg_bench_record_counters(rec, w.machine);
    struct kg_block blocks[] = { w.weights, w.x, w.y, w.workspace };
    kg_bench_free(w.machine, blocks, KG_COUNT_OF(blocks));
}

static void build(struct kg_case_list *list) {
    static const char *const BACKENDS[] = { "cpu", "cuda" };
    static const struct {
        enum kg_dtype dtype;
        const char *name;
    } WEIGHTS[] = { { KG_DTYPE_F16, "f16" },   { KG_DTYPE_Q4_0, "q4_0" }, { KG_DTYPE_Q5_0, "q5_0" },
                    { KG_DTYPE_Q8_0, "q8_0" }, { KG_DTYPE_Q4_K, "q4_k" }, { KG_DTYPE_Q5_K, "q5_k" },
                    { KG_DTYPE_Q6_K, "q6_k" } };
    static struct bench_case cases[KG_COUNT_OF(SHAPES) * KG_COUNT_OF(BACKENDS) * KG_COUNT_OF(WEIGHTS)];
    size_t n_cases = 0;
    for (size_t b = 0; b < KG_COUNT_OF(BACKENDS); b++)
        for (size_t i = 0; i < KG_COUNT_OF(SHAPES); i++)
            for (size_t t = 0; t < KG_COUNT_OF(WEIGHTS); t++) {
                const struct shape *s = &SHAPES[i];
                char shape[64];
                if (s->quick != (kg_bench_quick() || strcmp(BACKENDS[b], "cpu") == 0)) continue;
                snprintf(shape, sizeof shape, "M=%u N=%u K=%u", s->rows, s->n_out, s->n_in);
                cases[n_cases] = (struct bench_case){ s, BACKENDS[b], WEIGHTS[t].dtype };
                kg_case_list_add(
                    list, &(struct kg_case){ .layer = "bench",
                                             .op = "linear_formats",
                                             .name = "gemm",
                                             .backend = BACKENDS[b],
                                             .dtype = WEIGHTS[t].name,
                                             .shape = shape,
                                             .spec = "FT-051",
                                             .definition = "normal data; cold: sets beyond twice the last-level cache; "
                                                           "bytes: weights, inputs and outputs once",
                                             .timeout_s = 300,
                                             .run = time_product,
                                             .arg = &cases[n_cases++] });
            }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
