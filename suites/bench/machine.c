#include "suites/bench/machine.h"
#include "base/buffer.h"
#include "base/rng.h"
#include "backend/gpu.h"
#include "base/size.h"
#include "engine/op_workspace.h"
#include "measure/statistics.h"
#include "model/dtype.h"
#include "suites/bench/counters.h"
#include "suites/harness/must.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SAMPLES = 20, N_WARMUP = 3 };

bool kg_bench_quick(void) {
    const char *scale = getenv("KIGO_BENCH");
    return scale && strcmp(scale, "quick") == 0;
}

struct kg_bench_machine *kg_bench_machine_open(struct kg_record *rec, const char *backend) {
    static struct kg_bench_machine machines[] = { { .name = "cpu" }, { .name = "cuda" } };
    size_t i = 0;
    while (i + 1 < KG_COUNT_OF(machines) && strcmp(machines[i].name, backend) != 0) i++;
    struct kg_bench_machine *const machine = &machines[i];
    ck_assert_msg(strcmp(machine->name, backend) == 0, "no machine is called %s", backend);
    if (machine->backend) return machine;
    struct kg_error err = { 0 };
    const enum kg_status status = kg_backend_open(backend, 0, &machine->backend, &err);
    if (status == KG_ERR_UNSUPPORTED && strcmp(backend, "cpu") != 0) {
        kg_record_skip(rec, "%s", err.message);
        return NULL;
    }
    kg_must(status, &err);
    ck_assert_msg(machine->backend->ops->measure != NULL, "the %s back end cannot time", backend);
    machine->cache_bytes = machine->backend->ops->measure->cache_bytes(machine->backend);
    ck_assert_msg(machine->cache_bytes > 0, "the %s back end does not know its cache", backend);
    return machine;
}

static bool is_cpu(const struct kg_bench_machine *machine) {
    return strcmp(machine->name, "cpu") == 0;
}

struct kg_block kg_bench_alloc(struct kg_bench_machine *machine, uint64_t size_bytes) {
    struct kg_block block = { 0 };
    struct kg_error err = { 0 };
    kg_must(machine->backend->ops->alloc(machine->backend, KG_MEMORY_WORKSPACE, size_bytes, "a bench's array", &block,
                                         &err),
            &err);
    return block;
}

void kg_bench_free(struct kg_bench_machine *machine, struct kg_block *blocks, size_t n_blocks) {
    for (size_t i = n_blocks; i-- > 0;) machine->backend->ops->free(machine->backend, &blocks[i]);
}

/* A period of values that shares no factor with powers of two, so that no row or set is like another. */
enum { N_NORMALS = 1048573 };
struct normals {
    float f32[N_NORMALS];
    uint16_t f16[N_NORMALS];
    uint8_t f8[N_NORMALS];
};

static const struct normals *normals_get(void) {
    static struct normals *made;
    if (made) return made;
    made = kg_xmalloc(sizeof *made);
    struct kg_rng rng;
    kg_rng_init(&rng, 1, 0);
    for (size_t i = 0; i < N_NORMALS; i++) {
        do made->f32[i] = (float)kg_rng_normal(&rng);
        while (made->f32[i] == 0);
        made->f16[i] = kg_f32_to_f16(made->f32[i]);
        made->f8[i] = kg_f32_to_e4m3(KG_BENCH_F8_PER_UNIT * made->f32[i]);
    }
    return made;
}

void kg_bench_fill(struct kg_bench_machine *machine, void *to, uint64_t n_elems, enum kg_precision precision,
                   uint64_t seed) {
    const struct normals *normals = normals_get();
    const size_t elem = (size_t)kg_precision_bytes(precision);
    const char *const tables[] = { [KG_PRECISION_F32] = (const char *)normals->f32,
                                   [KG_PRECISION_F16] = (const char *)normals->f16,
                                   [KG_PRECISION_F8] = (const char *)normals->f8 };
    const char *const from = tables[precision];
    struct kg_error err = { 0 };
    size_t at = (size_t)(seed % N_NORMALS);
    for (uint64_t done = 0; done < n_elems; at = 0) {
        const uint64_t left = n_elems - done, n = left < N_NORMALS - at ? left : N_NORMALS - at;
        kg_must(
            machine->backend->ops->upload(machine->backend, (char *)to + done * elem, from + at * elem, n * elem, &err),
            &err);
        done += n;
    }
}

enum { CHUNK_BYTES = 4 << 20 };

void kg_bench_poison(struct kg_bench_machine *machine, void *to, uint64_t n_elems, enum kg_precision precision) {
    const uint64_t size_bytes = n_elems * kg_precision_bytes(precision);
    char *nan = kg_xmalloc(CHUNK_BYTES);
    struct kg_error err = { 0 };
    memset(nan, 0xff, CHUNK_BYTES); /* all bits set is a NaN in F32, F16 and E4M3 */
    for (uint64_t done = 0; done < size_bytes; done += CHUNK_BYTES) {
        const uint64_t n = size_bytes - done < CHUNK_BYTES ? size_bytes - done : CHUNK_BYTES;
        kg_must(machine->backend->ops->upload(machine->backend, (char *)to + done, nan, n, &err), &err);
    }
    free(nan);
}

float *kg_bench_fetch(struct kg_bench_machine *machine, const void *from, uint64_t first, uint64_t n,
                      enum kg_precision precision) {
    const size_t elem = (size_t)kg_precision_bytes(precision);
    float *const values = kg_xcalloc(n + 1, sizeof *values);
    char *const host = kg_xmalloc(n * elem + 1);
    struct kg_error err = { 0 };
    kg_must(machine->backend->ops->download(machine->backend, host, (const char *)from + first * elem, n * elem, &err),
            &err);
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        if (precision == KG_PRECISION_F32) memcpy(&values[i], host + i * elem, sizeof values[i]);
        else if (precision == KG_PRECISION_F8) values[i] = kg_e4m3_to_f32((uint8_t)host[i]);
        else {
            memcpy(&half, host + i * elem, sizeof half);
            values[i] = kg_f16_to_f32(half);
        }
    }
    free(host);
    return values;
}

void kg_bench_expect_written(struct kg_bench_machine *machine, const void *from, uint64_t n_elems,
                             enum kg_precision precision) {
    enum { CHUNK_ELEMS = 1 << 20 };
    uint64_t first_bad = n_elems;
    for (uint64_t done = 0; done < n_elems && first_bad == n_elems; done += CHUNK_ELEMS) {
        const uint64_t n = n_elems - done < CHUNK_ELEMS ? n_elems - done : CHUNK_ELEMS;
        float *values = kg_bench_fetch(machine, from, done, n, precision);
        for (uint64_t i = 0; i < n && first_bad == n_elems; i++)
            if (!isfinite(values[i])) first_bad = done + i;
        free(values);
    }
    ck_assert_msg(first_bad == n_elems, "element %llu of %llu was not written or is not finite",
                  (unsigned long long)first_bad, (unsigned long long)n_elems);
}

size_t kg_bench_cold_sets(const struct kg_bench_machine *machine, uint64_t set_bytes) {
    const uint64_t most_bytes = (uint64_t)(kg_bench_quick() ? 512 : 8192) << 20;
    const size_t n = kg_bench_counted() ? 0 : kg_cold_sets(set_bytes, machine->cache_bytes);
    return n * set_bytes <= most_bytes ? n : 0;
}

static double median_of(const uint64_t *samples_ns, size_t n) {
    double values[N_SAMPLES];
    for (size_t i = 0; i < n; i++) values[i] = (double)samples_ns[i];
    return kg_median(values, n);
}

/* How often a graph repeats: through all sets, and long enough that its own start does not show. */
static size_t repeats_for(struct kg_bench_machine *machine, const struct kg_bench_work *work) {
    enum { MOST = 64, ENOUGH_NS = 1000000, N_TRIES = 3 };
    const struct kg_timing_request request = {
        .kind = KG_TIMING_KERNEL, .launch = work->launch, .arg = work->arg, .n_warmup = 1, .n_samples = N_TRIES
    };
    uint64_t samples_ns[N_TRIES];
    struct kg_error err = { 0 };
    kg_must(machine->backend->ops->measure->time(machine->backend, &request, samples_ns, &err), &err);
    const double turns = ceil(ENOUGH_NS / fmax(median_of(samples_ns, N_TRIES), 1));
    const size_t n = turns < 2 ? 2 : turns > MOST ? MOST : (size_t)turns;
    return work->cold && work->n_sets > n ? work->n_sets : n;
}

struct timed {
    struct kg_backend *backend;
    const struct kg_timing_request *request;
    uint64_t *samples_ns;
};

static enum kg_status time_once(void *arg, struct kg_error *err) {
    const struct timed *t = arg;
    return t->backend->ops->measure->time(t->backend, t->request, t->samples_ns, err);
}

/* NVML's watch over the GPU that back ends open, the first; NULL where there is none to ask. */
static struct kg_throttle *watch_of(const char *backend) {
    static struct kg_throttle *watch;
    static bool was_asked;
    struct kg_gpu_info gpu;
    size_t n_gpus;
    if (strcmp(backend, "cuda") != 0) return NULL;
    if (!was_asked && kg_gpu_list(&gpu, 1, &n_gpus, NULL) == KG_OK && kg_throttle_open(gpu.uuid, &watch, NULL) != KG_OK)
        watch = NULL;
    was_asked = true;
    return watch;
}

struct kg_throttle_findings kg_bench_guard(const char *backend, enum kg_status (*measure)(void *, struct kg_error *),
                                           void *arg) {
    struct kg_throttle_findings findings;
    struct kg_error err = { 0 };
    kg_must(kg_throttle_guard(watch_of(backend), measure, arg, &findings, &err), &err);
    return findings;
}

void kg_bench_record_guarded(struct kg_record *rec, const char *name, const struct kg_throttle_findings *findings,
                             size_t n_samples) {
    char metric[64];
    if (!findings->known) return;
    snprintf(metric, sizeof metric, "%s.discarded", name);
    kg_record_metric(rec, metric, "count", (double)(findings->n_discarded * n_samples));
    snprintf(metric, sizeof metric, "%s.sm_clock_before", name);
    if (findings->mhz_before >= 0) kg_record_metric(rec, metric, "MHz", (double)findings->mhz_before);
    snprintf(metric, sizeof metric, "%s.sm_clock_after", name);
    if (findings->mhz_after >= 0) kg_record_metric(rec, metric, "MHz", (double)findings->mhz_after);
    if (findings->throttled) kg_record_timing_invalid(rec);
}

static struct kg_throttle_findings time_samples(struct kg_bench_machine *machine, enum kg_timing_kind kind,
                                                const struct kg_bench_work *work, uint64_t samples_ns[N_SAMPLES]) {
    struct kg_timing_request request = {
        .kind = kind, .launch = work->launch, .arg = work->arg, .n_warmup = N_WARMUP, .n_samples = N_SAMPLES
    };
    if (kind == KG_TIMING_GRAPH) request.n_repeats = repeats_for(machine, work);
    struct timed timed = { machine->backend, &request, samples_ns };
    return kg_bench_guard(machine->name, time_once, &timed);
}

static void record_rate(struct kg_record *rec, const char *kind, const char *state, const char *figure,
                        const char *unit, double value) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s.%s", kind, state, figure);
    if (value > 0) kg_record_metric(rec, name, unit, value);
}

double kg_bench_time(struct kg_record *rec, struct kg_bench_machine *machine, const struct kg_roofline *roofline,
                     enum kg_timing_kind kind, const struct kg_bench_work *work) {
    uint64_t samples_ns[N_SAMPLES];
    const struct kg_throttle_findings findings = time_samples(machine, kind, work, samples_ns);
    const double median_ns = median_of(samples_ns, N_SAMPLES);
    char guarded[32];
    const char *name = kg_timing_kind_name(kind), *state = work->cold ? "cold" : "warm";
    kg_record_timing(rec, "time", name, state, samples_ns, N_SAMPLES, work->bytes, work->flops);
    snprintf(guarded, sizeof guarded, "%s.%s", name, state);
    kg_bench_record_guarded(rec, guarded, &findings, N_SAMPLES);
    record_rate(rec, name, state, "gb_per_s", "GB/s", kg_gb_per_s(work->bytes, median_ns));
    record_rate(rec, name, state, "tflop_per_s", "TFLOP/s", kg_tflop_per_s(work->flops, median_ns));
    if (roofline)
        record_rate(rec, name, state, "roofline_share", "ratio",
                    kg_roofline_share(roofline, work->bytes, work->flops, median_ns));
    return median_ns;
}

/* The canaries. */

struct canary {
    struct kg_bench_machine *machine;
    struct kg_block from, to;
    uint64_t size_bytes;
    struct kg_linear_args linear;
};

static enum kg_status launch_copy(void *arg, size_t turn, struct kg_error *err) {
    const struct canary *c = arg;
    (void)turn;
    return c->machine->backend->ops->measure->copy(c->machine->backend, c->to.data, c->from.data, c->size_bytes, err);
}

static enum kg_status launch_read(void *arg, size_t turn, struct kg_error *err) {
    const struct canary *c = arg;
    (void)turn;
    return c->machine->backend->ops->measure->read(c->machine->backend, c->from.data, c->size_bytes, c->to.data, err);
}

static enum kg_status launch_gemm(void *arg, size_t turn, struct kg_error *err) {
    const struct canary *c = arg;
    (void)turn;
    return c->machine->backend->ops->linear(c->machine->backend, &c->linear, err);
}

static double canary_ns(struct canary *c, enum kg_status (*launch)(void *, size_t, struct kg_error *)) {
    uint64_t samples_ns[N_SAMPLES];
    const struct kg_bench_work work = { .launch = launch, .arg = c, .n_sets = 1 };
    (void)time_samples(c->machine, is_cpu(c->machine) ? KG_TIMING_HOST : KG_TIMING_KERNEL, &work, samples_ns);
    return median_of(samples_ns, N_SAMPLES);
}

static void measure_memory(struct kg_bench_machine *machine, struct kg_roofline *roofline) {
    /* Larger than any cache; on processors, whose caches may be larger, what their threads reach together. */
    struct canary c = { .machine = machine, .size_bytes = kg_bench_quick() || is_cpu(machine) ? 32 << 20 : 512 << 20 };
    c.from = kg_bench_alloc(machine, c.size_bytes);
    c.to = kg_bench_alloc(machine, c.size_bytes);
    kg_bench_fill(machine, c.from.data, c.size_bytes / sizeof(float), KG_PRECISION_F32, 1);
    kg_bench_fill(machine, c.to.data, c.size_bytes / sizeof(float), KG_PRECISION_F32, 2);
    roofline->copy_gb_s = kg_gb_per_s(2.0 * (double)c.size_bytes, canary_ns(&c, launch_copy));
    roofline->read_gb_s = kg_gb_per_s((double)c.size_bytes, canary_ns(&c, launch_read));
    struct kg_block blocks[] = { c.from, c.to };
    kg_bench_free(machine, blocks, KG_COUNT_OF(blocks));
}

static double measure_gemm(struct kg_bench_machine *machine, enum kg_precision precision) {
    const uint32_t n = is_cpu(machine) ? 256 : kg_bench_quick() ? 1024 : 4096;
    const uint64_t n_elems = (uint64_t)n * n, size_bytes = n_elems * kg_precision_bytes(precision);
    struct kg_block blocks[] = { kg_bench_alloc(machine, size_bytes), kg_bench_alloc(machine, size_bytes),
                                 kg_bench_alloc(machine, size_bytes),
                                 kg_bench_alloc(machine, kg_bench_workspace(machine, precision, n, n, n, NULL)) };
    kg_bench_fill(machine, blocks[0].data, n_elems, precision, 3);
    kg_bench_fill(machine, blocks[1].data, n_elems, precision, 4);
    struct canary c = { .machine = machine,
                        .linear = { .activations = precision,
                                    .output = precision,
                                    .x = blocks[0].data,
                                    .weight = { blocks[1].data, kg_bench_dtype(precision), n, n },
                                    .y = blocks[2].data,
                                    .n_rows = n,
                                    .workspace = blocks[3].data } };
    const double ns = canary_ns(&c, launch_gemm);
    kg_bench_free(machine, blocks, KG_COUNT_OF(blocks));
    return kg_tflop_per_s(2.0 * n * n * n, ns);
}

enum kg_dtype kg_bench_dtype(enum kg_precision precision) {
    return precision == KG_PRECISION_F32 ? KG_DTYPE_F32 : KG_DTYPE_F16;
}

uint64_t kg_bench_workspace(struct kg_bench_machine *machine, enum kg_precision precision, uint32_t n_rows,
                            uint32_t n_in, uint32_t n_out, const struct kg_attention_args *attention) {
    struct kg_op_extent extent = { precision, precision, n_rows, n_in, n_out, 0, 0, 0, 0 };
    if (attention) {
        extent.n_heads = attention->n_heads;
        extent.n_kv_heads = attention->n_kv_heads;
        extent.head_dim = attention->head_dim;
        extent.n_ctx = attention->n_ctx;
    }
    uint64_t size_bytes = 0;
    struct kg_error err = { 0 };
    kg_must(kg_op_workspace_bytes(machine->backend, &extent, &size_bytes, &err), &err);
    return size_bytes;
}

const struct kg_roofline *kg_bench_roofline(struct kg_bench_machine *machine, enum kg_precision precision) {
    if (precision == KG_PRECISION_F8) /* of which there is no matrix product to measure */
        precision = is_cpu(machine) ? KG_PRECISION_F32 : KG_PRECISION_F16;
    struct kg_roofline *roofline = &machine->roofline[precision];
    if (machine->has_roofline[precision]) return roofline;
    const enum kg_precision other = precision == KG_PRECISION_F32 ? KG_PRECISION_F16 : KG_PRECISION_F32;
    if (machine->has_roofline[other]) *roofline = machine->roofline[other]; /* memory is the same for both */
    else measure_memory(machine, roofline);
    roofline->tflop_s = measure_gemm(machine, precision);
    machine->has_roofline[precision] = true;
    return roofline;
}

void kg_bench_record_roofline(struct kg_record *rec, const struct kg_roofline *roofline) {
    kg_record_metric(rec, "roofline.copy", "GB/s", roofline->copy_gb_s);
    kg_record_metric(rec, "roofline.read", "GB/s", roofline->read_gb_s);
    kg_record_metric(rec, "roofline.gemm", "TFLOP/s", roofline->tflop_s);
}

static enum kg_status launch_first_turn(void *arg, size_t turn, struct kg_error *err) {
    const struct kg_bench_work *work = arg;
    (void)turn;
    return work->launch(work->arg, 0, err);
}

void kg_bench_time_states(struct kg_record *rec, struct kg_bench_machine *machine, enum kg_precision precision,
                          const struct kg_bench_work *work, bool has_cold, bool kernel_too) {
    if (kg_bench_counted()) {
        kg_bench_launch_counted(machine, work);
        return;
    }
    const struct kg_roofline *const roofline = kg_bench_roofline(machine, precision);
    const enum kg_timing_kind kind = is_cpu(machine) ? KG_TIMING_HOST : KG_TIMING_GRAPH;
    struct kg_bench_work cold = *work, warm = *work;
    cold.cold = true;
    warm.launch = launch_first_turn;
    warm.arg = &cold;
    if (has_cold) kg_bench_time(rec, machine, roofline, kind, &cold);
    if (has_cold && kernel_too && !is_cpu(machine)) kg_bench_time(rec, machine, roofline, KG_TIMING_KERNEL, &cold);
    kg_bench_time(rec, machine, roofline, kind, &warm);
    kg_bench_record_roofline(rec, roofline);
    kg_record_metric(rec, "sets", "count", (double)work->n_sets);
}
