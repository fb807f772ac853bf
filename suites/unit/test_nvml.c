/* NVML by a library of the suites' own (fake_nvml.c): what it tells, what it does not, and where it is missing. */
#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"
#include "measure/nvml.h"
#include "measure/telemetry.h"
#include "measure/throttle.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/support/fake_nvml.h"
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char HEADER[] = "utc_us,gpu,sm_mhz,memory_mhz,power_mw,power_limit_mw,temperature_c,throttle_reasons,"
                             "memory_used_bytes,utilization_percent\n";

static void use_fake(const char *wrong) {
    setenv("KIGO_NVML", kg_fake_nvml_path(), 1);
    setenv("FAKE_NVML", wrong, 1);
}

static struct kg_nvml *open_fake(const char *wrong) {
    struct kg_nvml *nvml;
    struct kg_error err;
    use_fake(wrong);
    kg_must(kg_nvml_open(&nvml, &err), &err);
    return nvml;
}

static void tells_devices(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    static const unsigned char UUID[16] = { 0x01, 0x23, 0x45, 0x61, 0x89, 0xab, 0xcd, 0xef,
                                            0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef };
    struct kg_nvml *nvml = open_fake("");
    struct kg_nvml_device d;
    struct kg_error err;
    ck_assert_str_eq(kg_nvml_driver(nvml), "123.45.67");
    ck_assert_uint_eq(kg_nvml_n_devices(nvml), 2);
    kg_must(kg_nvml_describe(nvml, 1, &d, &err), &err);
    ck_assert_str_eq(d.name, "Fake GPU 1");
    ck_assert_int_eq(memcmp(d.uuid, UUID, sizeof UUID), 0);
    ck_assert_int_eq(d.max_sm_mhz, 1980);
    ck_assert_int_eq(d.max_memory_mhz, 3201);
    ck_assert_int_eq(d.power_limit_mw, 700000);
    ck_assert_int_eq(d.ecc, 1);
    kg_must_fail(kg_nvml_describe(nvml, 2, &d, &err), KG_ERR_RANGE, &err, "2 devices", NULL);
    kg_nvml_close(nvml);
}

static void tells_samples(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_nvml *nvml = open_fake("");
    struct kg_nvml_sample s;
    struct kg_error err;
    kg_must(kg_nvml_sample(nvml, 1, &s, &err), &err);
    ck_assert_int_eq(s.sm_mhz, 1501);
    ck_assert_int_eq(s.memory_mhz, 2600);
    ck_assert_int_eq(s.power_mw, 123456);
    ck_assert_int_eq(s.power_limit_mw, 700000);
    ck_assert_int_eq(s.temperature_c, 41);
    ck_assert_int_eq(s.throttle_reasons, KG_NVML_THROTTLE_POWER_CAP | KG_NVML_THROTTLE_SW_THERMAL);
    ck_assert_int_eq(s.memory_used_bytes, 1000000000);
    ck_assert_int_eq(s.utilization_percent, 77);
    kg_nvml_close(nvml);
}

static void what_is_not_told_is_minus_one(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_nvml *nvml = open_fake("power");
    struct kg_nvml_sample s;
    struct kg_nvml_device d;
    struct kg_error err;
    kg_must(kg_nvml_sample(nvml, 0, &s, &err), &err);
    kg_must(kg_nvml_describe(nvml, 0, &d, &err), &err);
    ck_assert_int_eq(s.power_mw, -1);
    ck_assert_int_eq(s.power_limit_mw, -1);
    ck_assert_int_eq(d.power_limit_mw, -1);
    ck_assert_int_eq(s.sm_mhz, 1500);
    kg_nvml_close(nvml);
}

static void refuses(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_nvml *nvml;
    struct kg_error err;
    use_fake("init");
    kg_must_fail(kg_nvml_open(&nvml, &err), KG_ERR_UNSUPPORTED, &err, "nvmlInit_v2", NULL);
    setenv("KIGO_NVML", "/nowhere/libnvidia-ml.so.1", 1);
    kg_must_fail(kg_nvml_open(&nvml, &err), KG_ERR_UNSUPPORTED, &err, "/nowhere/libnvidia-ml.so.1", NULL);
    setenv("KIGO_NVML", "libdl.so.2", 1); /* a library, but another one */
    kg_must_fail(kg_nvml_open(&nvml, &err), KG_ERR_UNSUPPORTED, &err, "libdl.so.2", "nvmlInit_v2", NULL);
}

/* An empty name is none: the driver's library is opened, or is what is missing. */
static void without_a_name_it_is_the_drivers(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    for (int empty = 0; empty < 2; empty++) {
        struct kg_nvml *nvml;
        struct kg_error err;
        if (empty) setenv("KIGO_NVML", "", 1);
        else unsetenv("KIGO_NVML");
        if (kg_nvml_open(&nvml, &err) == KG_OK) kg_nvml_close(nvml);
        else ck_assert_msg(strstr(err.message, "libnvidia-ml.so.1") != NULL, "%s", err.message);
    }
}

static char *telemetry_path(const struct kg_record *rec) {
    return kg_path_join(kg_scratch_dir(rec), "telemetry.csv");
}

static char *record_for(const struct kg_record *rec, uint32_t interval_ms, long ms) {
    struct kg_telemetry *telemetry;
    struct kg_error err;
    char *path = telemetry_path(rec), *text;
    size_t len;
    const struct timespec pause = { 0, ms * 1000000 };
    kg_must(kg_telemetry_start(path, interval_ms, &telemetry, &err), &err);
    nanosleep(&pause, NULL);
    kg_must(kg_telemetry_stop(telemetry, &err), &err);
    kg_must(kg_file_read(path, &text, &len, &err), &err);
    free(path);
    return text;
}

static size_t count(const char *text, char c) {
    size_t n = 0;
    for (; *text; text++) n += *text == c;
    return n;
}

/* At least the first and the last sample of both GPUs; every line whole. */
static void telemetry_has_a_line_a_gpu(struct kg_record *rec, const void *arg) {
    (void)arg;
    use_fake("");
    char *text = record_for(rec, 20, 200);
    const size_t n_lines = count(text, '\n');
    ck_assert_uint_ge(n_lines, 1 + 2 * 4);
    ck_assert_uint_eq(n_lines % 2, 1);
    ck_assert_uint_eq(count(text, ','), 9 * n_lines);
    ck_assert_int_eq(strncmp(text, HEADER, sizeof HEADER - 1), 0);
    ck_assert_ptr_nonnull(strstr(text, ",0,1500,2600,123456,700000,40,0x0,1000000000,77\n"));
    ck_assert_ptr_nonnull(strstr(text, ",1,1501,2600,123456,700000,41,0x24,1000000000,77\n"));
    free(text);
}

static void a_short_run_has_telemetry_too(struct kg_record *rec, const void *arg) {
    (void)arg;
    use_fake("power");
    char *text = record_for(rec, 60000, 0);
    ck_assert_uint_eq(count(text, '\n'), 1 + 2 * 2); /* the first sample, which the start waits for, and the last */
    ck_assert_ptr_nonnull(strstr(text, ",0,1500,2600,,,40,0x0,1000000000,77\n"));
    free(text);
}

/* A child that is forked while another thread is inside NVML or an allocator inherits a lock that nobody gives back. */
static void no_fork_meets_a_sample(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_telemetry *telemetry;
    struct kg_error err;
    char *path = telemetry_path(rec);
    const struct timespec pause = { 0, 3000000 };
    use_fake("slow");
    kg_must(kg_telemetry_start(path, 1, &telemetry, &err), &err);
    void *const library = dlopen(kg_fake_nvml_path(), RTLD_NOW | RTLD_NOLOAD);
    ck_assert_ptr_nonnull(library);
    const volatile int *const busy = dlsym(library, "fake_nvml_busy");
    ck_assert_ptr_nonnull((const void *)(uintptr_t)busy);
    int n_seen_busy = 0;
    for (int i = 0; i < 10; i++) {
        int status;
        n_seen_busy += *busy;
        const pid_t child = fork();
        if (child == 0) _exit(*busy);
        ck_assert_int_gt(child, 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
        nanosleep(&pause, NULL);
    }
    ck_assert_int_gt(n_seen_busy, 0);
    kg_must(kg_telemetry_stop(telemetry, &err), &err);
    dlclose(library);
    free(path);
}

static void no_device_makes_no_file(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_telemetry *telemetry;
    struct kg_error err;
    char *path = telemetry_path(rec);
    use_fake("none");
    kg_must_fail(kg_telemetry_start(path, 10, &telemetry, &err), KG_ERR_UNSUPPORTED, &err, "no device", NULL);
    ck_assert(!kg_path_exists(path));
    kg_must(kg_telemetry_stop(NULL, &err), &err);
    free(path);
}

static const unsigned char UUID_0[16] = { 0x01, 0x23, 0x45, 0x60, 0x89, 0xab, 0xcd, 0xef,
                                          0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef };

static enum kg_status count_call(void *arg, struct kg_error *err) {
    size_t *n_left = arg; /* the call that makes it 0 breaks */
    return --*n_left == 0 ? kg_fail(err, KG_ERR_INTERNAL, "the work breaks") : KG_OK;
}

enum { MOST_CALLS = 8 };
struct calls {
    size_t n;
    uint64_t at_ns[MOST_CALLS];
};

static enum kg_status note_call(void *arg, struct kg_error *err) {
    struct calls *calls = arg;
    (void)err;
    ck_assert_uint_lt(calls->n, MOST_CALLS);
    calls->at_ns[calls->n++] = kg_clock_monotonic_ns();
    return KG_OK;
}

/* How often something is measured on a GPU that is hot the first times it is asked, at both ends of each measurement.
 */
static void throttled_measurements_are_taken_again(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *wrong;
        size_t n_calls, n_discarded;
        bool known, throttled;
    } ROWS[] = {
        { "hot:0", 1, 0, true, false }, { "hot:1", 2, 1, true, false },   { "hot:2", 2, 1, true, false },
        { "hot:3", 3, 2, true, false }, { "hot:6", 4, 3, true, false },   { "hot:7", 4, 3, true, true },
        { "hot:99", 4, 3, true, true }, { "untold", 1, 0, false, false },
    };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        struct kg_throttle *throttle;
        struct kg_throttle_findings f;
        struct kg_error err;
        struct calls calls = { 0 };
        use_fake(ROWS[i].wrong);
        kg_must(kg_throttle_open(UUID_0, &throttle, &err), &err);
        kg_must(kg_throttle_guard(throttle, note_call, &calls, &f, &err), &err);
        ck_assert_msg(calls.n == ROWS[i].n_calls && f.n_discarded == ROWS[i].n_discarded && f.known == ROWS[i].known &&
                          f.throttled == ROWS[i].throttled,
                      "%s: %zu calls, %zu discarded, known %d, throttled %d", ROWS[i].wrong, calls.n, f.n_discarded,
                      f.known, f.throttled);
        for (size_t k = 1; k < calls.n; k++) /* a pause of 100 ms, and twice as long each time */
            ck_assert_uint_ge(calls.at_ns[k] - calls.at_ns[k - 1], UINT64_C(100000000) << (k - 1));
        ck_assert_int_eq(f.mhz_before, 1500);
        ck_assert_int_eq(f.mhz_after, 1500);
        ck_assert_int_eq(f.reasons, ROWS[i].n_discarded ? KG_NVML_THROTTLE_HW_THERMAL : 0); /* idle is none */
        kg_throttle_close(throttle);
    }
}

static void work_that_breaks_is_not_taken_again(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_throttle *throttle;
    struct kg_throttle_findings f;
    struct kg_error err;
    size_t n_left = 2;
    use_fake("hot:99");
    kg_must(kg_throttle_open(UUID_0, &throttle, &err), &err);
    kg_must_fail(kg_throttle_guard(throttle, count_call, &n_left, &f, &err), KG_ERR_INTERNAL, &err, "breaks", NULL);
    ck_assert_uint_eq(n_left, 0);
    kg_throttle_close(throttle);
}

/* Nothing to ask: the work is done once, and nothing is known. */
static void without_nvml_nothing_is_known(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    static const unsigned char OTHER[16] = { 1 };
    struct kg_throttle *throttle = NULL;
    struct kg_throttle_findings f;
    struct kg_error err;
    size_t n_left = 9;
    kg_must(kg_throttle_guard(NULL, count_call, &n_left, &f, &err), &err);
    ck_assert_uint_eq(n_left, 8);
    ck_assert(!f.known && !f.throttled && f.n_discarded == 0);
    use_fake("");
    kg_must_fail(kg_throttle_open(OTHER, &throttle, &err), KG_ERR_UNSUPPORTED, &err, "UUID", NULL);
    use_fake("init");
    kg_must_fail(kg_throttle_open(UUID_0, &throttle, &err), KG_ERR_UNSUPPORTED, &err, "nvmlInit_v2", NULL);
    ck_assert_ptr_null(throttle);
}

#define CASE(f)                                                                                                        \
    { .layer = "unit", .op = "nvml", .name = #f, .spec = "FT-054", .run = f }
static const struct kg_case CASES[] = {
    CASE(tells_devices),
    CASE(tells_samples),
    CASE(what_is_not_told_is_minus_one),
    CASE(refuses),
    CASE(without_a_name_it_is_the_drivers),
    CASE(telemetry_has_a_line_a_gpu),
    CASE(a_short_run_has_telemetry_too),
    CASE(no_fork_meets_a_sample),
    CASE(no_device_makes_no_file),
    CASE(throttled_measurements_are_taken_again),
    CASE(work_that_breaks_is_not_taken_again),
    CASE(without_nvml_nothing_is_known),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
