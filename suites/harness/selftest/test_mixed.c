/* A suite that fails in every way a case can, to show that the harness says so; run by test_check_e2e, never by the
 * normal search for suites. */
#include "base/size.h"
#include "suites/harness/compare.h"
#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void passes(struct kg_record *rec, const void *arg) {
    (void)arg;
    puts("this goes to the log");
    kg_record_metric(rec, "answer", "count", 42);
    ck_assert(kg_record_seed(rec) != 0);
}

static void fails(struct kg_record *rec, const void *arg) {
    (void)arg;
    const float got[] = { 1, 2, 30, 4 }, want[] = { 1, 2, 3, 4 };
    const struct kg_tolerance tol = { .max_abs = 0.5, .why = "a self-test" };
    kg_record_attach(rec, "got.bin", got, sizeof got);
    kg_expect_close_f32(rec, "numbers", got, want, KG_COUNT_OF(got), &tol);
}

static void skips(struct kg_record *rec, const void *arg) {
    (void)arg;
    kg_record_skip(rec, "nothing to test with");
}

static void segfaults(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    raise(SIGSEGV);
}

static void hangs(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    for (;;) pause();
}

static void exits_early(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    _exit(0);
}

static void no_why(struct kg_record *rec, const void *arg) {
    (void)arg;
    const float x[] = { 1 };
    const struct kg_tolerance tol = { .max_abs = 0.5 };
    kg_expect_close_f32(rec, "x", x, x, 1, &tol);
}

static void no_limit(struct kg_record *rec, const void *arg) {
    (void)arg;
    const float x[] = { 1 };
    const struct kg_tolerance tol = { .why = "none" };
    kg_expect_close_f32(rec, "x", x, x, 1, &tol);
}

static void nothing_compared(struct kg_record *rec, const void *arg) {
    (void)arg;
    const float x[] = { 1 };
    const struct kg_tolerance tol = { .max_abs = 0.5, .why = "a self-test" };
    kg_record_skip(rec, "nothing to compare"); /* a failure outweighs a skip */
    kg_expect_close_f32(rec, "x", x, x, 0, &tol);
}

static void nan_in_both(struct kg_record *rec, const void *arg) {
    (void)arg;
    const float x[] = { 1, NAN, 2 };
    const struct kg_tolerance tol = { .max_abs = 0.5, .nmse = 1, .mixed_rel = 1, .why = "a self-test" };
    kg_expect_close_f32(rec, "x", x, x, KG_COUNT_OF(x), &tol);
}

/* which element of a guarded buffer of 5 is left out or written too much */
static void writes_guarded(struct kg_record *rec, const void *arg) {
    (void)rec;
    const int odd_one = *(const int *)arg;
    struct kg_guarded g;
    kg_guarded_init(&g, 5);
    volatile float *data = g.data;
    for (int i = 0; i < 5; i++)
        if (i != odd_one) data[i] = (float)i;
    if (odd_one < 0 || odd_one >= 5) data[odd_one] = 1;
    kg_guarded_expect_written(&g, "buffer");
    kg_guarded_free(&g);
}

static const int LEFT_OUT = 3, BEFORE = -1, AFTER = 5;
#define CASE(name_, run_, ...)                                                                                         \
    { .layer = "unit", .op = "mixed", .name = name_, .run = run_, __VA_ARGS__ }

static const struct kg_case CASES[] = {
    CASE("passes_first", passes, .spec = "SELF-1"),
    CASE("fails", fails, .dtype = "f32", .shape = "M=3 N='x' $(5)"),
    CASE("skips", skips),
    CASE("skips_gpu", skips, .backend = "cuda"),
    CASE("segfaults", segfaults),
    CASE("hangs", hangs, .timeout_s = 0.3),
    CASE("exits_early", exits_early),
    CASE("tolerance_without_why", no_why),
    CASE("tolerance_without_limit", no_limit),
    CASE("nothing_compared", nothing_compared),
    CASE("nan_in_both", nan_in_both),
    CASE("element_left_out", writes_guarded, .arg = &LEFT_OUT),
    CASE("written_before", writes_guarded, .arg = &BEFORE),
    CASE("written_after", writes_guarded, .arg = &AFTER),
    CASE("passes_last", passes, .spec = "SELF-1"),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
