/* Phase D: how fast each variant of sdpa is, in f16, f8 and i8, and how fast its quantisation. A case's name is the
 * variant; one that does not take the shape, the precision or the device is skipped with its own reason. Timings are
 * recorded, never judged; what fails is an output left unwritten, or off in one of the rows that are held against
 * float64.
 *
 * f8 and i8 inputs are E4M3 and int8 of normal values times KG_BENCH_F8_PER_UNIT and KG_BENCH_I8_PER_UNIT, with another
 * scale for each head, all known; outputs are f16. The share of the roofline is of F16's matrix product for both. */
#include "base/buffer.h"
#include "base/size.h"
#include "ops/sdpa.h"
#include "suites/support/counters.h"
#include "suites/support/machine.h"
#include "suites/bench/sdpa_work.h"
#include "suites/harness/compare.h"
#include "suites/harness/must.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tensor { Q, K, V, N_TENSORS };

struct sdpa_case {
    const char *backend;
    enum kg_precision inputs, output;
    enum kg_sdpa_variant variant;
    const struct kg_sdpa_shape *shape;
};

struct work {
    const struct sdpa_case *c;
    struct kg_bench_machine *machine;
    struct kg_sdpa_args args; /* of set 0 */
    struct kg_block tensors[N_TENSORS], scales[N_TENSORS], y, workspace;
    float *host_scales[N_TENSORS];
    uint64_t n_elems[N_TENSORS]; /* of a set */
    size_t n_sets;
};

static uint32_t n_heads_of(const struct kg_sdpa_shape *s, int t) {
    return t == Q ? s->n_heads : s->n_kv_heads;
}

static uint32_t n_rows_of(const struct kg_sdpa_shape *s, int t) {
    return t == Q ? s->n_queries : s->n_keys;
}

/* A scale for each (batch entry, head), no two neighbours alike, so that one taken from the wrong head shows. */
static void make_scales(struct work *w, int t) {
    const struct kg_sdpa_shape *s = w->c->shape;
    const size_t n = (size_t)s->n_batch * n_heads_of(s, t);
    struct kg_error err;
    const float per_unit = w->c->inputs == KG_PRECISION_F8 ? KG_BENCH_F8_PER_UNIT : KG_BENCH_I8_PER_UNIT;
    w->host_scales[t] = kg_xcalloc(n, sizeof *w->host_scales[t]);
    for (size_t i = 0; i < n; i++) w->host_scales[t][i] = (1 + 0.125f * (float)(i % 3)) / per_unit;
    w->scales[t] = kg_bench_alloc(w->machine, n * sizeof *w->host_scales[t]);
    kg_must(w->machine->backend->ops->upload(w->machine->backend, w->scales[t].data, w->host_scales[t],
                                             n * sizeof *w->host_scales[t], &err),
            &err);
}

/* Zeros, as a workspace wants them before its first use. */
static struct kg_block zeroed(struct kg_bench_machine *machine, uint64_t size_bytes) {
    struct kg_block block = kg_bench_alloc(machine, size_bytes);
    struct kg_error err;
    char *const zeros = kg_xcalloc(size_bytes + 1, 1);
    if (size_bytes > 0)
        kg_must(machine->backend->ops->upload(machine->backend, block.data, zeros, size_bytes, &err), &err);
    free(zeros);
    return block;
}

static void point_args(struct work *w) {
    const struct sdpa_case *c = w->c;
    const struct kg_sdpa_shape *s = c->shape;
    w->args = (struct kg_sdpa_args){
        .inputs = c->inputs,
        .output = c->output,
        .variant = c->variant,
        .q = w->tensors[Q].data,
        .k = w->tensors[K].data,
        .v = w->tensors[V].data,
        .y = w->y.data,
        .q_strides = kg_sdpa_dense(s->n_heads, s->n_queries, s->head_dim),
        .k_strides = kg_sdpa_dense(s->n_kv_heads, s->n_keys, s->head_dim),
        .v_strides = kg_sdpa_dense(s->n_kv_heads, s->n_keys, s->head_dim),
        .y_strides = kg_sdpa_dense(s->n_heads, s->n_queries, s->head_dim),
        .q_scale = w->scales[Q].data,
        .k_scale = w->scales[K].data,
        .v_scale = w->scales[V].data,
        .n_batch = s->n_batch,
        .n_heads = s->n_heads,
        .n_kv_heads = s->n_kv_heads,
        .n_queries = s->n_queries,
        .n_keys = s->n_keys,
        .head_dim = s->head_dim,
        .scale = kg_sdpa_softmax_scale(s),
        .causal = s->causal,
    };
}

static void work_open(struct work *w, size_t n_sets) {
    const struct sdpa_case *c = w->c;
    w->n_sets = n_sets;
    for (int t = 0; t < N_TENSORS; t++) {
        w->tensors[t] = kg_bench_alloc(w->machine, n_sets * w->n_elems[t] * kg_precision_bytes(c->inputs));
        kg_bench_fill(w->machine, w->tensors[t].data, n_sets * w->n_elems[t], c->inputs, 101 * ((uint64_t)t + 1));
        if (kg_precision_is_quantized(c->inputs)) make_scales(w, t);
    }
    w->y = kg_bench_alloc(w->machine, w->n_elems[Q] * kg_precision_bytes(c->output));
    kg_bench_poison(w->machine, w->y.data, w->n_elems[Q], c->output);
    point_args(w);
    w->workspace = zeroed(w->machine, kg_sdpa_workspace_bytes(&w->args));
    w->args.workspace = w->workspace.data;
}

static void work_close(struct work *w) {
    kg_bench_free(w->machine, &w->workspace, 1);
    kg_bench_free(w->machine, &w->y, 1);
    kg_bench_free(w->machine, w->scales, N_TENSORS);
    kg_bench_free(w->machine, w->tensors, N_TENSORS);
    for (int t = 0; t < N_TENSORS; t++) free(w->host_scales[t]);
}

static enum kg_status launch(void *arg, size_t iteration, struct kg_error *err) {
    const struct work *w = arg;
    const uint64_t set = iteration % w->n_sets, elem = kg_precision_bytes(w->c->inputs);
    struct kg_sdpa_args args = w->args;
    args.q = (const char *)args.q + set * w->n_elems[Q] * elem;
    args.k = (const char *)args.k + set * w->n_elems[K] * elem;
    args.v = (const char *)args.v + set * w->n_elems[V] * elem;
    return w->machine->backend->ops->sdpa(w->machine->backend, &args, err);
}

/* Rows [row, row + n_rows) of head (b, h) of a tensor of set 0, as the numbers they stand for. malloc'ed. */
static float *rows_of(const struct work *w, int t, uint32_t b, uint32_t h, uint32_t row, uint32_t n_rows) {
    const struct kg_sdpa_shape *s = w->c->shape;
    const size_t head = (size_t)b * n_heads_of(s, t) + h;
    const uint64_t from = (head * n_rows_of(s, t) + row) * s->head_dim;
    float *const x = kg_bench_fetch(w->machine, w->tensors[t].data, from, (uint64_t)n_rows * s->head_dim, w->c->inputs);
    for (size_t i = 0; w->host_scales[t] && i < (size_t)n_rows * s->head_dim; i++) x[i] *= w->host_scales[t][head];
    return x;
}

/* Holds what is in y, of set 0, against float64 in some rows. */
static void expect_right(struct kg_record *rec, const struct work *w) {
    static const struct kg_tolerance TOLERANCES[] = {
        [KG_PRECISION_F32] = { .max_abs = 1e-5, .nmse = 1e-12, .why = "float32 out of sums in double" },
        [KG_PRECISION_F16] = { .max_abs = 1e-2, .nmse = 1e-6, .why = "FP16 attention against float64" },
        [KG_PRECISION_F8] = { .max_abs = 5e-3,
                              .nmse = 1e-4,
                              .why = "FP8 attention against float64 on the dequantised inputs; probabilities in one "
                                     "E4M3 part would give an NMSE of 6e-4" },
        [KG_PRECISION_I8] = { .max_abs = 5e-3, .nmse = 1e-4, .why = "as FP8, with exact sums of scores" },
    };
    const struct kg_sdpa_shape *s = w->c->shape;
    const size_t dim = s->head_dim;
    struct kg_sdpa_row rows[KG_SDPA_SPOTS];
    float *const got = kg_xcalloc(KG_SDPA_SPOTS * dim, sizeof *got);
    double *const want = kg_xcalloc(KG_SDPA_SPOTS * dim, sizeof *want);
    kg_sdpa_spots(s, kg_record_seed(rec), rows);
    for (size_t r = 0; r < KG_SDPA_SPOTS; r++) {
        const uint32_t b = rows[r].b, h = rows[r].h, g = h / (s->n_heads / s->n_kv_heads);
        const uint64_t at = (((uint64_t)b * s->n_heads + h) * s->n_queries + rows[r].i) * dim;
        float *q = rows_of(w, Q, b, h, rows[r].i, 1), *k = rows_of(w, K, b, g, 0, s->n_keys);
        float *v = rows_of(w, V, b, g, 0, s->n_keys), *y = kg_bench_fetch(w->machine, w->y.data, at, dim, w->c->output);
        kg_sdpa_float64(s, rows[r].i, q, k, v, want + r * dim);
        memcpy(got + r * dim, y, dim * sizeof *y);
        free(y);
        free(v);
        free(k);
        free(q);
    }
    kg_expect_close_f64(rec, "rows_from_float64", got, want, KG_SDPA_SPOTS * dim, &TOLERANCES[w->c->inputs]);
    free(want);
    free(got);
}

/* False, with the case skipped, if the variant does not take this; any other failure fails the case. */
static bool takes(struct kg_record *rec, struct work *w) {
    struct kg_error err;
    const enum kg_status status = launch(w, 0, &err);
    if (status == KG_ERR_UNSUPPORTED) kg_record_skip(rec, "%s", err.message);
    else kg_must(status, &err);
    return status == KG_OK;
}

static uint64_t set_bytes(const struct work *w) {
    uint64_t n = 0;
    for (int t = 0; t < N_TENSORS; t++) n += w->n_elems[t];
    return n * kg_precision_bytes(w->c->inputs);
}

static void sdpa(struct kg_record *rec, const void *arg) {
    const struct sdpa_case *c = arg;
    struct work w = { .c = c, .machine = kg_bench_machine_open(rec, c->backend) };
    if (!w.machine) return;
    w.n_elems[Q] = kg_sdpa_query_elems(c->shape);
    w.n_elems[K] = w.n_elems[V] = kg_sdpa_key_elems(c->shape);
    const size_t n_cold = kg_bench_cold_sets(w.machine, set_bytes(&w));
    work_open(&w, n_cold > 0 ? n_cold : 1);
    if (takes(rec, &w)) {
        const struct kg_bench_work work = { .launch = launch,
                                            .arg = &w,
                                            .n_sets = w.n_sets,
                                            .bytes = kg_sdpa_bytes(c->shape, c->inputs, c->output),
                                            .flops = kg_sdpa_flops(c->shape),
                                            .bursts_from_ns = 3e5 };
        kg_bench_time_states(rec, w.machine, c->inputs, &work, n_cold > 0, false);
        kg_bench_expect_written(w.machine, w.y.data, w.n_elems[Q], c->output);
        expect_right(rec, &w);
        kg_bench_record_counters(rec, w.machine);
    }
    work_close(&w);
}

/* sdpa_quantize: the keys of a shape. */

struct quantize_work {
    struct kg_bench_machine *machine;
    struct kg_sdpa_quantize_args args; /* of set 0 */
    uint64_t n_elems;
    size_t n_sets;
};

static enum kg_status launch_quantize(void *arg, size_t iteration, struct kg_error *err) {
    const struct quantize_work *w = arg;
    struct kg_sdpa_quantize_args args = w->args;
    args.x = (const char *)args.x + iteration % w->n_sets * w->n_elems * kg_precision_bytes(args.input);
    return w->machine->backend->ops->sdpa_quantize(w->machine->backend, &args, err);
}

/* Every code times its scale is within half a step of its value: at most 2^-4 of the value, or 2^-10 of the scale below
 * E4M3's least normal number; float32's own rounding comes on top. */
static void expect_quantized(const struct quantize_work *w, const uint8_t *codes, const float *scales) {
    const struct kg_sdpa_quantize_args *a = &w->args;
    float *const x = kg_bench_fetch(w->machine, a->x, 0, w->n_elems, a->input);
    float *const y = kg_bench_fetch(w->machine, codes, 0, w->n_elems, KG_PRECISION_F8);
    const uint64_t n_heads = (uint64_t)a->n_batch * a->n_heads, head_elems = w->n_elems / n_heads;
    float *const scale = kg_bench_fetch(w->machine, scales, 0, n_heads, KG_PRECISION_F32);
    for (uint64_t i = 0; i < w->n_elems; i++) {
        const double s = scale[i / head_elems], off = fabs((double)y[i] * s - (double)x[i]);
        ck_assert_msg(off <= 1.000001 * fmax(fabs((double)x[i]) / 16, s / 1024),
                      "element %llu: %.9g became %.9g times %.9g", (unsigned long long)i, (double)x[i], (double)y[i],
                      s);
    }
    free(scale);
    free(y);
    free(x);
}

static void quantize(struct kg_record *rec, const void *arg) {
    const struct sdpa_case *c = arg;
    const struct kg_sdpa_shape *s = c->shape;
    struct quantize_work w = { .machine = kg_bench_machine_open(rec, c->backend), .n_elems = kg_sdpa_key_elems(s) };
    if (!w.machine) return;
    const uint64_t bytes = w.n_elems * kg_precision_bytes(c->inputs), n_heads = (uint64_t)s->n_batch * s->n_kv_heads;
    const size_t n_cold = kg_bench_cold_sets(w.machine, bytes);
    w.n_sets = n_cold > 0 ? n_cold : 1;
    struct kg_block blocks[] = { kg_bench_alloc(w.machine, w.n_sets * bytes), kg_bench_alloc(w.machine, w.n_elems),
                                 kg_bench_alloc(w.machine, n_heads * sizeof(float)) };
    kg_bench_fill(w.machine, blocks[0].data, w.n_sets * w.n_elems, c->inputs, 101);
    kg_bench_poison(w.machine, blocks[1].data, w.n_elems, KG_PRECISION_F8);
    w.args = (struct kg_sdpa_quantize_args){ .input = c->inputs,
                                             .output = KG_PRECISION_F8,
                                             .x = blocks[0].data,
                                             .y = blocks[1].data,
                                             .x_strides = kg_sdpa_dense(s->n_kv_heads, s->n_keys, s->head_dim),
                                             .y_strides = kg_sdpa_dense(s->n_kv_heads, s->n_keys, s->head_dim),
                                             .scale = blocks[2].data,
                                             .n_batch = s->n_batch,
                                             .n_heads = s->n_kv_heads,
                                             .n_rows = s->n_keys,
                                             .head_dim = s->head_dim };
    const struct kg_bench_work work = { .launch = launch_quantize,
                                        .arg = &w,
                                        .n_sets = w.n_sets,
                                        .bytes = (double)(bytes + w.n_elems + n_heads * sizeof(float)),
                                        .flops = 2.0 * (double)w.n_elems };
    kg_bench_time_states(rec, w.machine, c->inputs, &work, n_cold > 0, false);
    expect_quantized(&w, blocks[1].data, blocks[2].data);
    kg_bench_record_counters(rec, w.machine);
    kg_bench_free(w.machine, blocks, KG_COUNT_OF(blocks));
}

static const struct target {
    const char *backend;
    enum kg_precision inputs, output;
    const char *spec;
} TARGETS[] = {
    { "cpu", KG_PRECISION_F32, KG_PRECISION_F32, "Phase D" },
    { "cpu", KG_PRECISION_F8, KG_PRECISION_F32, "Phase D.3" },
    { "cpu", KG_PRECISION_I8, KG_PRECISION_F32, "Phase D.3" },
    { "cuda", KG_PRECISION_F16, KG_PRECISION_F16, "Phase D" },
    { "cuda", KG_PRECISION_F8, KG_PRECISION_F16, "Phase D.3" },
    { "cuda", KG_PRECISION_I8, KG_PRECISION_F16, "Phase D.3" },
};

/* A call on the CUDA cores, which reach about 2 TFLOP/s here, that would take longer than 100 ms is left out: a timing
 * makes a hundred of them. */
static bool too_slow(enum kg_sdpa_variant variant, const struct kg_sdpa_shape *s) {
    const double ordinary_flop_s = 2e12, most_s = 0.1;
    return variant == KG_SDPA_SCALAR && kg_sdpa_flops(s) > ordinary_flop_s * most_s;
}

/* Arguments live as long as the process, like the cases they belong to. */
static const struct sdpa_case *keep(struct sdpa_case c) {
    struct kept {
        struct sdpa_case c;
        struct kept *next;
    } *const kept = kg_xmalloc(sizeof *kept);
    static struct kept *all;
    *kept = (struct kept){ c, all };
    all = kept;
    return &kept->c;
}

static void add(struct kg_case_list *list, const struct target *t, const struct kg_sdpa_shape *s,
                enum kg_sdpa_variant variant, bool quantizes) {
    char shape[KG_SDPA_PROBLEM_TEXT], rows[KG_SDPA_PROBLEM_TEXT];
    kg_sdpa_shape_text(s, shape);
    snprintf(rows, sizeof rows, "B=%u H=%u S=%u D=%u", s->n_batch, s->n_kv_heads, s->n_keys, s->head_dim);
    kg_case_list_add(
        list,
        &(struct kg_case){ .layer = "bench",
                           .op = quantizes ? "sdpa_quantize" : "sdpa",
                           .name = quantizes ? "keys" : kg_sdpa_variant_name(variant),
                           .backend = t->backend,
                           .dtype = kg_precision_name(t->inputs),
                           .shape = quantizes ? rows : shape,
                           .spec = quantizes ? "Phase D.3" : t->spec,
                           .definition = "normal data; cold: sets beyond twice the last-level cache; bytes: inputs and "
                                         "outputs once; flops: pairs that are seen",
                           .timeout_s = 300,
                           .run = quantizes ? quantize : sdpa,
                           .arg = keep((struct sdpa_case){ t->backend, t->inputs, t->output, variant, s }) });
}

static void build(struct kg_case_list *list) {
    for (size_t t = 0; t < KG_COUNT_OF(TARGETS); t++) {
        const bool device = strcmp(TARGETS[t].backend, "cpu") != 0;
        for (size_t i = 0; i < KG_N_SDPA_SHAPES; i++) {
            const struct kg_sdpa_shape *const s = &KG_SDPA_SHAPES[i];
            if (!s->quick && (!device || kg_bench_quick())) continue;
            for (int v = 0; v < (device ? KG_SDPA_VARIANT_COUNT : KG_SDPA_AUTO + 1); v++)
                if (!too_slow((enum kg_sdpa_variant)v, s)) add(list, &TARGETS[t], s, (enum kg_sdpa_variant)v, false);
            if (!kg_precision_is_quantized(TARGETS[t].inputs) && (!s->causal || s->quick))
                add(list, &TARGETS[t], s, KG_SDPA_AUTO, true);
        }
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
