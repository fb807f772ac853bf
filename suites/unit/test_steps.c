/* Steps in series whose answer is known. */
#include "base/rng.h"
#include "base/size.h"
#include "measure/steps.h"
#include "suites/harness/case.h"
#include "suites/unit/noise_kinds.h"
#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 400 };

static void noise(double *x, size_t n, double sigma, struct kg_rng *rng) {
    for (size_t i = 0; i < n; i++) x[i] = 3 + sigma * kg_rng_normal(rng);
}

static void one_step_where_it_is(struct kg_record *rec, const void *arg) {
    struct kg_step steps[MOST];
    struct kg_rng rng;
    double x[60];
    int n_exact = 0;
    (void)arg;
    kg_rng_init(&rng, 1, 0);
    for (int trial = 0; trial < 100; trial++) {
        noise(x, 60, 0.01, &rng);
        for (size_t i = 35; i < 60; i++) x[i] += 0.05;
        ck_assert_uint_eq(kg_steps_find(x, 60, 0.03, steps), 1);
        ck_assert_uint_ge(steps[0].at, 34);
        ck_assert_uint_le(steps[0].at, 36);
        n_exact += steps[0].at == 35;
        ck_assert_double_eq_tol(steps[0].after - steps[0].before, 0.05, 0.012);
        ck_assert_double_le(steps[0].p, 1e-6);
    }
    kg_record_metric(rec, "placed_exactly", "ratio", n_exact / 100.0);
    ck_assert_int_ge(n_exact, 90);
}

/* Up, down and up again, the last level as short as they may be. */
static void several_steps(struct kg_record *rec, const void *arg) {
    struct kg_step steps[MOST];
    struct kg_rng rng;
    double x[100];
    (void)rec;
    (void)arg;
    kg_rng_init(&rng, 2, 0);
    noise(x, 100, 0.005, &rng);
    for (size_t i = 20; i < 50; i++) x[i] += 0.06;
    for (size_t i = 96; i < 100; i++) x[i] += 0.1;
    ck_assert_uint_eq(kg_steps_find(x, 100, 0.03, steps), 3);
    ck_assert_uint_eq(steps[0].at, 20);
    ck_assert_uint_eq(steps[1].at, 50);
    ck_assert_uint_eq(steps[2].at, 96);
    ck_assert_uint_eq(steps[2].n_after, 4);
}

static void no_step(struct kg_record *rec, const void *arg) {
    enum { N_TRIALS = 300 };
    struct kg_step steps[MOST];
    struct kg_rng rng;
    double x[MOST];
    size_t n_found = 0;
    (void)arg;
    kg_rng_init(&rng, 3, 0);
    for (int trial = 0; trial < N_TRIALS; trial++) {
        const size_t n = 10 + (size_t)kg_rng_below(&rng, 90);
        noise(x, n, 0.03, &rng);
        if (n > 40) x[n / 2] += 5, x[n / 3] -= 5; /* wild values are no level */
        n_found += kg_steps_find(x, n, 0, steps);
    }
    kg_record_metric(rec, "false_steps_per_series", "ratio", (double)n_found / N_TRIALS);
    ck_assert_uint_le(n_found, N_TRIALS / 100);
}

static void edges(struct kg_record *rec, const void *arg) {
    struct kg_step steps[MOST];
    double x[MOST];
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < MOST; i++) x[i] = 1;
    for (size_t n = 0; n < 12; n++) ck_assert_uint_eq(kg_steps_find(x, n, 0.03, steps), 0);
    ck_assert_uint_eq(kg_steps_find(x, MOST, 0.03, steps), 0);
    for (size_t i = MOST / 2; i < MOST; i++) x[i] = 1.02; /* smaller than of interest, and without any noise */
    ck_assert_uint_eq(kg_steps_find(x, MOST, 0.03, steps), 0);
    ck_assert_uint_eq(kg_steps_find(x, MOST, 0.01, steps), 1);
    ck_assert_uint_eq(steps[0].at, MOST / 2);
}

/* A shift as small as is of interest; 86% is about the most that any rule places exactly at three sigmas. */
static void small_steps_are_found(struct kg_record *rec, const void *arg) {
    enum { N_TRIALS = 200, HALF = 40 };
    struct kg_step steps[MOST];
    struct kg_rng rng;
    double x[2 * HALF];
    int n_found = 0, n_exact = 0;
    (void)arg;
    kg_rng_init(&rng, 4, 0);
    for (int trial = 0; trial < N_TRIALS; trial++) {
        noise(x, 2 * HALF, 0.01, &rng);
        for (size_t i = HALF; i < 2 * HALF; i++) x[i] += log(1.03);
        const bool found = kg_steps_find(x, 2 * HALF, log1p(0.03), steps) == 1;
        n_found += found;
        n_exact += found && steps[0].at == HALF;
    }
    kg_record_metric(rec, "found", "ratio", n_found / (double)N_TRIALS);
    kg_record_metric(rec, "placed_exactly", "ratio", n_exact / (double)N_TRIALS);
    ck_assert_int_ge(n_found, 0.95 * N_TRIALS);
    ck_assert_int_ge(n_exact, 0.77 * N_TRIALS);
}

/* Series of 100 runs, as they are where nothing changed. */
static void stable_series(struct kg_record *rec, const void *arg) {
    enum { N_SERIES = 150, N_LONG = 100 };
    static const enum kg_noise KINDS[] = { KG_NOISE_NORMAL,   KG_NOISE_AR_5,    KG_NOISE_AR_95,
                                           KG_NOISE_T3,       KG_NOISE_T2,      KG_NOISE_EXPONENTIAL,
                                           KG_NOISE_OUTLIERS, KG_NOISE_MODE_15, KG_NOISE_MODE_50 };
    struct kg_step steps[MOST];
    (void)arg;
    for (size_t k = 0; k < KG_COUNT_OF(KINDS); k++) {
        struct kg_made_times times;
        struct kg_rng rng;
        size_t n_found = 0;
        kg_rng_init(&rng, 5, k);
        kg_made_times_open(&times, N_SERIES, N_LONG);
        kg_made_times_fill(&times, &KG_NOISE[KINDS[k]], &rng);
        for (size_t i = 0; i < N_SERIES; i++)
            n_found += kg_steps_find(times.figures[i].by_run, N_LONG, log1p(0.03), steps) > 0;
        kg_made_times_close(&times);
        kg_record_metric(rec, KG_NOISE[KINDS[k]].name, "count", (double)n_found);
        ck_assert_msg(n_found <= (KINDS[k] == KG_NOISE_AR_95), "%s: %zu of %d", KG_NOISE[KINDS[k]].name, n_found,
                      N_SERIES);
    }
}

/* Three values at the end are a level, although their gain over four would not be. */
static void three_values_are_a_level(struct kg_record *rec, const void *arg) {
    struct kg_step steps[MOST];
    double x[67];
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < 67; i++) x[i] = 3 + (i % 2 ? 0.01 : -0.01) + (i >= 64 ? 0.12 : 0);
    ck_assert_uint_eq(kg_steps_find(x, 67, 0.03, steps), 1);
    ck_assert_uint_eq(steps[0].at, 64);
    ck_assert_uint_eq(steps[0].n_after, 3);
}

/* 500 runs with four steps: the tests of each must not cost more than finding it. */
static void five_hundred_runs(struct kg_record *rec, const void *arg) {
    struct kg_step steps[500];
    struct kg_rng rng;
    double x[500];
    (void)arg;
    kg_rng_init(&rng, 6, 0);
    noise(x, 500, 0.01, &rng);
    for (size_t i = 0; i < 500; i++) x[i] += 0.06 * (double)(i / 100 % 2);
    const clock_t begin = clock();
    ck_assert_uint_eq(kg_steps_find(x, 500, 0.03, steps), 4);
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    kg_record_metric(rec, "processor_s", "s", seconds);
    ck_assert_double_le(seconds, 0.3);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "steps", .name = #function, .run = function }

static const struct kg_case CASES[] = { CASE(one_step_where_it_is),
                                        CASE(several_steps),
                                        CASE(no_step),
                                        CASE(edges),
                                        CASE(small_steps_are_found),
                                        CASE(stable_series),
                                        CASE(three_values_are_a_level),
                                        CASE(five_hundred_runs) };

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, sizeof CASES / sizeof *CASES);
}
