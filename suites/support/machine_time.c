/* The timings of machine.h, and the canaries that a roofline is made of. */
#include "backend/gpu.h"
#include "base/size.h"
#include "measure/statistics.h"
#include "suites/support/counters.h"
#include "suites/support/machine.h"
#include "suites/harness/must.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { N_SAMPLES = 20, N_WARMUP = 3 };

static bool is_cpu(const struct kg_bench_machine *machine) {
    return strcmp(machine->name, "cpu") == 0;
}

static double median_of(const uint64_t *samples_ns, size_t n) {
    double values[N_SAMPLES];
    for (size_t i = 0; i < n; i++) values[i] = (double)samples_ns[i];
    return kg_median(values, n);
}

/* What one iteration takes, roughly. */
static double iteration_ns(struct kg_bench_machine *machine, const struct kg_bench_work *work) {
    enum { N_TRIES = 3 };
    const struct kg_timing_request request = {
        .kind = KG_TIMING_KERNEL, .launch = work->launch, .arg = work->arg, .n_warmup = 1, .n_samples = N_TRIES
    };
    uint64_t samples_ns[N_TRIES];
    struct kg_error err = { 0 };
    kg_must(machine->backend->ops->measure->time(machine->backend, &request, samples_ns, &err), &err);
    return fmax(median_of(samples_ns, N_TRIES), 1);
}

/* How often a graph repeats: through all sets, and long enough that its own start does not show. */
static size_t repeats_for(const struct kg_bench_work *work, double one_ns) {
    enum { MOST = 64, ENOUGH_NS = 1000000 };
    const double iterations = ceil(ENOUGH_NS / one_ns);
    const size_t n = iterations < 2 ? 2 : iterations > MOST ? MOST : (size_t)iterations;
    return work->cold && work->n_sets > n ? work->n_sets : n;
}

/* Work that keeps the tensor cores busy for long meets the power limit within some tens of milliseconds, and is slowed
 * down from then on. */
static bool meets_power_limit(const struct kg_bench_work *work, double one_ns) {
    return work->bursts_from_ns > 0 && one_ns > work->bursts_from_ns && kg_tflop_per_s(work->flops, one_ns) > 100;
}

struct timed {
    struct kg_backend *backend;
    struct kg_timing_request request;
    bool in_bursts; /* a sample, and a pause in which the machine cools down */
    uint64_t *samples_ns;
};

static enum kg_status time_once(void *arg, struct kg_error *err) {
    const struct timed *t = arg;
    const struct timespec pause = { .tv_nsec = 40000000 };
    if (!t->in_bursts) return t->backend->ops->measure->time(t->backend, &t->request, t->samples_ns, err);
    struct kg_timing_request one = t->request;
    one.n_warmup = one.n_samples = 1;
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < t->request.n_samples && status == KG_OK; i++) {
        nanosleep(&pause, NULL);
        status = t->backend->ops->measure->time(t->backend, &one, t->samples_ns + i, err);
    }
    return status;
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
    struct timed timed = {
        .backend = machine->backend,
        .request = { .kind = kind,
                     .launch = work->launch,
                     .arg = work->arg,
                     .n_warmup = N_WARMUP,
                     .n_samples = N_SAMPLES },
        .samples_ns = samples_ns,
    };
    if (kind == KG_TIMING_GRAPH) {
        const double one_ns = iteration_ns(machine, work);
        timed.request.n_repeats = repeats_for(work, one_ns);
        timed.in_bursts = meets_power_limit(work, one_ns);
    }
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

static enum kg_status launch_copy(void *arg, size_t iteration, struct kg_error *err) {
    const struct canary *c = arg;
    (void)iteration;
    return c->machine->backend->ops->measure->copy(c->machine->backend, c->to.data, c->from.data, c->size_bytes, err);
}

static enum kg_status launch_read(void *arg, size_t iteration, struct kg_error *err) {
    const struct canary *c = arg;
    (void)iteration;
    return c->machine->backend->ops->measure->read(c->machine->backend, c->from.data, c->size_bytes, c->to.data, err);
}

static enum kg_status launch_gemm(void *arg, size_t iteration, struct kg_error *err) {
    const struct canary *c = arg;
    (void)iteration;
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

const struct kg_roofline *kg_bench_roofline(struct kg_bench_machine *machine, enum kg_precision precision) {
    if (kg_precision_is_quantized(precision)) /* of which there is no matrix product to measure */
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

static enum kg_status launch_first_iteration(void *arg, size_t iteration, struct kg_error *err) {
    const struct kg_bench_work *work = arg;
    (void)iteration;
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
    warm.launch = launch_first_iteration;
    warm.arg = &cold;
    if (has_cold) kg_bench_time(rec, machine, roofline, kind, &cold);
    if (has_cold && kernel_too && !is_cpu(machine)) kg_bench_time(rec, machine, roofline, KG_TIMING_KERNEL, &cold);
    kg_bench_time(rec, machine, roofline, kind, &warm);
    kg_bench_record_roofline(rec, roofline);
    kg_record_metric(rec, "sets", "count", (double)work->n_sets);
}
