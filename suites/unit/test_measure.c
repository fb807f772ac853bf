/* Known answers for what a timing becomes: rates, shares, speed-ups; and the rules of timing itself on a back end whose
 * work the case knows. */
#include "base/size.h"
#include "backend/backend.h"
#include "backend/measure.h"
#include "measure/roofline.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include <check.h>
#include <math.h>
#include <string.h>
#include <time.h>

/* 1e9 bytes in a millisecond is 1000 GB/s; 2e12 operations in a second 2 TFLOP/s. */
static void rates_of_known_work(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    ck_assert_double_eq(kg_gb_per_s(1e9, 1e6), 1000);
    ck_assert_double_eq(kg_gb_per_s(4096, 4096), 1);
    ck_assert_double_eq(kg_tflop_per_s(2e12, 1e9), 2);
    ck_assert_double_eq(kg_tflop_per_s(2.0 * 512 * 4096 * 4096, 1e6), 2.0 * 512 * 4096 * 4096 / 1e6 / 1e3);
}

/* Half the time is twice as fast, and never half. */
static void speedup_is_not_inverted(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    ck_assert_double_eq(kg_speedup(200, 100), 2);
    ck_assert_double_eq(kg_speedup(100, 200), 0.5);
    ck_assert_double_eq(kg_speedup(7, 7), 1);
}

static void share_of_the_longer_limit(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    const struct kg_roofline r = { .copy_gb_s = 3000, .read_gb_s = 4000, .tflop_s = 500 };
    /* 4 MB at the faster of the memory rates: 1000 ns. */
    ck_assert_double_eq(kg_roofline_ns(&r, 4e6, 0), 1000);
    ck_assert_double_eq(kg_roofline_share(&r, 4e6, 0, 2000), 0.5);
    /* 1e9 operations: 2000 ns, longer than moving 4 MB. */
    ck_assert_double_eq(kg_roofline_ns(&r, 4e6, 1e9), 2000);
    ck_assert_double_eq(kg_roofline_share(&r, 4e6, 1e9, 2000), 1);
    ck_assert_double_eq(kg_roofline_share(&r, 4e6, 1e6, 4000), 0.25);
}

static void meaningless_figures_are_zero(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    const struct kg_roofline nothing = { 0 };
    ck_assert_double_eq(kg_gb_per_s(1e9, 0), 0);
    ck_assert_double_eq(kg_tflop_per_s(0, 10), 0);
    ck_assert_double_eq(kg_speedup(NAN, 1), 0);
    ck_assert_double_eq(kg_speedup(1, 0), 0);
    ck_assert_double_eq(kg_speedup(INFINITY, 1), 0);
    ck_assert_double_eq(kg_roofline_share(&nothing, 1e9, 1e9, 10), 0);
}

static void sets_exceed_twice_the_cache(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    ck_assert_uint_eq(kg_cold_sets(10, 100), 21); /* 20 sets would be just twice, not more */
    ck_assert_uint_eq(kg_cold_sets(1000, 100), 1);
    ck_assert_uint_eq(kg_cold_sets(200, 100), 2);
    ck_assert_uint_eq(kg_cold_sets(1, 100000), 0); /* too small to be cold */
    ck_assert_uint_eq(kg_cold_sets(0, 100), 0);
}

struct counted {
    size_t iterations[64], n_calls;
    size_t sleep_us;
    size_t fail_at;
};

static enum kg_status count_iteration(void *arg, size_t iteration, struct kg_error *err) {
    struct counted *c = arg;
    if (c->n_calls == c->fail_at) return kg_fail(err, KG_ERR_INTERNAL, "iteration %zu fails", iteration);
    c->iterations[c->n_calls++] = iteration;
    const struct timespec t = { .tv_nsec = (long)c->sleep_us * 1000 };
    if (c->sleep_us) nanosleep(&t, NULL);
    return KG_OK;
}

static struct kg_backend *open_cpu(void) {
    struct kg_backend *backend;
    struct kg_error err = { 0 };
    kg_must(kg_backend_open("cpu", 0, &backend, &err), &err);
    return backend;
}

static void every_turn_once_in_order(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_backend *backend = open_cpu();
    struct counted c = { .fail_at = SIZE_MAX, .sleep_us = 2000 };
    const struct kg_timing_request request = { .launch = count_iteration, .arg = &c, .n_warmup = 3, .n_samples = 10 };
    uint64_t samples[10] = { 0 };
    struct kg_error err = { 0 };
    kg_must(backend->ops->measure->time(backend, &request, samples, &err), &err);
    ck_assert_uint_eq(c.n_calls, 13);
    for (size_t i = 0; i < 13; i++) ck_assert_uint_eq(c.iterations[i], i);
    for (size_t i = 0; i < 10; i++) ck_assert_uint_ge(samples[i], 2000000); /* it slept that long */
    kg_backend_close(backend);
}

static void work_that_fails_is_no_timing(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_backend *backend = open_cpu();
    struct counted c = { .fail_at = 4 };
    const struct kg_timing_request request = { .launch = count_iteration, .arg = &c, .n_warmup = 3, .n_samples = 10 };
    uint64_t samples[10];
    struct kg_error err = { 0 };
    kg_must_fail(backend->ops->measure->time(backend, &request, samples, &err), KG_ERR_INTERNAL, &err,
                 "iteration 4 fails", NULL);
    kg_backend_close(backend);
}

static void requests_without_sense_are_refused(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_backend *backend = open_cpu();
    struct counted c = { .fail_at = SIZE_MAX };
    uint64_t samples[1];
    struct kg_error err = { 0 };
    const struct kg_timing_request good = { .launch = count_iteration, .arg = &c, .n_warmup = 1, .n_samples = 1 };
    struct kg_timing_request r = good;
    r.n_warmup = 0;
    kg_must_fail(backend->ops->measure->time(backend, &r, samples, &err), KG_ERR_USAGE, &err, "0 warm-up iterations",
                 NULL);
    r = good;
    r.n_samples = 0;
    kg_must_fail(backend->ops->measure->time(backend, &r, samples, &err), KG_ERR_USAGE, &err, "0 samples", NULL);
    r = good;
    r.launch = NULL;
    kg_must_fail(backend->ops->measure->time(backend, &r, samples, &err), KG_ERR_USAGE, &err, "without work", NULL);
    r = good;
    r.kind = KG_TIMING_GRAPH;
    kg_must_fail(kg_timing_request_check(&r, &err), KG_ERR_USAGE, &err, "without launches", NULL);
    r.n_repeats = 4;
    kg_must_fail(backend->ops->measure->time(backend, &r, samples, &err), KG_ERR_UNSUPPORTED, &err, "graph", NULL);
    r.kind = KG_TIMING_KIND_COUNT;
    kg_must_fail(backend->ops->measure->time(backend, &r, samples, &err), KG_ERR_USAGE, &err, "a timing of kind", NULL);
    ck_assert_uint_eq(c.n_calls, 0);
    kg_backend_close(backend);
}

/* The canaries do the work they are timed for: every byte is copied, every word is in the sum. */
static void canaries_touch_every_byte(struct kg_record *rec, const void *arg) {
    (void)rec;
    const char *name = arg;
    struct kg_backend *backend;
    struct kg_error err = { 0 };
    const enum kg_status status = kg_backend_open(name, 0, &backend, &err);
    if (status == KG_ERR_UNSUPPORTED && strcmp(name, "cpu") != 0) {
        kg_record_skip(rec, "%s", err.message);
        return;
    }
    kg_must(status, &err);
    enum { N = 3 * 8192 + 2 }; /* words; no multiple of a thread's share */
    static uint64_t host[N], back[N];
    const struct kg_backend_ops *ops = backend->ops;
    struct kg_block from, to, check;
    kg_must(ops->alloc(backend, KG_MEMORY_WORKSPACE, sizeof host, "a canary", &from, &err), &err);
    kg_must(ops->alloc(backend, KG_MEMORY_WORKSPACE, sizeof host, "a canary", &to, &err), &err);
    kg_must(ops->alloc(backend, KG_MEMORY_WORKSPACE, 16, "a canary", &check, &err), &err);
    for (size_t i = 0; i < N; i++) host[i] = i * 0x9E3779B97F4A7C15u + 1;
    kg_must(ops->upload(backend, from.data, host, sizeof host, &err), &err);
    kg_must(ops->measure->copy(backend, to.data, from.data, sizeof host, &err), &err);
    kg_must(ops->download(backend, back, to.data, sizeof back, &err), &err);
    ck_assert(memcmp(host, back, sizeof host) == 0);
    /* A change of the first and of the last word is seen: each is read, once. */
    const size_t changed[] = { 0, N - 1 };
    for (size_t round = 0; round < 3; round++) {
        uint64_t want = 0, got = 0;
        if (round > 0) host[changed[round - 1]] += 12345;
        for (size_t i = 0; i < N; i++) want += host[i];
        kg_must(ops->upload(backend, from.data, host, sizeof host, &err), &err);
        kg_must(ops->measure->read(backend, from.data, sizeof host, check.data, &err), &err);
        kg_must(ops->download(backend, &got, check.data, sizeof got, &err), &err);
        ck_assert_uint_eq(got, want);
    }
    ck_assert_uint_gt(ops->measure->cache_bytes(backend), 0);
    ops->free(backend, &check);
    ops->free(backend, &to);
    ops->free(backend, &from);
    kg_backend_close(backend);
}

struct copying {
    struct kg_backend *backend;
    void *to, *from;
    uint64_t size_bytes;
    size_t n_launches;
};

static enum kg_status launch_copy(void *arg, size_t iteration, struct kg_error *err) {
    struct copying *c = arg;
    (void)iteration;
    c->n_launches++;
    return c->backend->ops->measure->copy(c->backend, c->to, c->from, c->size_bytes, err);
}

/* No kind of timing ends before the work does: a copy is not faster than any machine's memory, 20 TB/s; and each
 * launches as often as it says, a graph once before it and once each of its repeats. */
static void every_kind_waits_for_the_work(struct kg_record *rec, const void *arg) {
    enum { N_WARMUP = 2, N_SAMPLES = 5, N_REPEATS = 4, SIZE_CPU = 16 << 20, SIZE_GPU = 256 << 20 };
    const char *name = arg;
    const bool gpu = strcmp(name, "cpu") != 0;
    struct kg_backend *backend;
    struct kg_error err = { 0 };
    const enum kg_status status = kg_backend_open(name, 0, &backend, &err);
    if (status == KG_ERR_UNSUPPORTED && gpu) {
        kg_record_skip(rec, "%s", err.message);
        return;
    }
    kg_must(status, &err);
    struct kg_block blocks[2];
    struct copying c = { .backend = backend, .size_bytes = gpu ? SIZE_GPU : SIZE_CPU };
    for (size_t i = 0; i < 2; i++)
        kg_must(backend->ops->alloc(backend, KG_MEMORY_WORKSPACE, c.size_bytes, "a copy", &blocks[i], &err), &err);
    c.from = blocks[0].data;
    c.to = blocks[1].data;
    for (int kind = 0; kind < (gpu ? KG_TIMING_KIND_COUNT : KG_TIMING_HOST + 1); kind++) {
        const struct kg_timing_request request = { .kind = (enum kg_timing_kind)kind,
                                                   .launch = launch_copy,
                                                   .arg = &c,
                                                   .n_warmup = N_WARMUP,
                                                   .n_samples = N_SAMPLES,
                                                   .n_repeats = N_REPEATS };
        uint64_t samples_ns[N_SAMPLES] = { 0 };
        c.n_launches = 0;
        kg_must(backend->ops->measure->time(backend, &request, samples_ns, &err), &err);
        ck_assert_uint_eq(c.n_launches, kind == KG_TIMING_GRAPH ? 1 + N_REPEATS : N_WARMUP + N_SAMPLES);
        for (size_t i = 0; i < N_SAMPLES; i++)
            ck_assert_msg(kg_gb_per_s(2.0 * (double)c.size_bytes, (double)samples_ns[i]) < 20000 && samples_ns[i] > 0,
                          "%s: %llu bytes copied in %llu ns", kg_timing_kind_name(request.kind),
                          (unsigned long long)c.size_bytes, (unsigned long long)samples_ns[i]);
        kg_record_timing(rec, "copy", kg_timing_kind_name(request.kind), "cold", samples_ns, N_SAMPLES,
                         2.0 * (double)c.size_bytes, 0);
    }
    for (size_t i = 2; i-- > 0;) backend->ops->free(backend, &blocks[i]);
    kg_backend_close(backend);
}

#define MEASURE(function)                                                                                              \
    { .layer = "unit", .op = "measure", .name = #function, .spec = "FT-054", .run = function }
static const struct kg_case CASES[] = {
    MEASURE(rates_of_known_work),
    MEASURE(speedup_is_not_inverted),
    MEASURE(share_of_the_longer_limit),
    MEASURE(meaningless_figures_are_zero),
    MEASURE(sets_exceed_twice_the_cache),
    MEASURE(every_turn_once_in_order),
    MEASURE(work_that_fails_is_no_timing),
    MEASURE(requests_without_sense_are_refused),
#define MEASURE_ON(function, backend_)                                                                                 \
    {                                                                                                                  \
        .layer = "unit", .op = "measure", .name = #function, .backend = backend_, .spec = "FT-054", .run = function,   \
        .arg = backend_                                                                                                \
    }
    MEASURE_ON(canaries_touch_every_byte, "cpu"),
    MEASURE_ON(canaries_touch_every_byte, "cuda"),
    MEASURE_ON(every_kind_waits_for_the_work, "cpu"),
    MEASURE_ON(every_kind_waits_for_the_work, "cuda"),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
