/* Steps in series whose answer is known. */
#include "base/rng.h"
#include "measure/steps.h"
#include "suites/harness/case.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

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

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "steps", .name = #function, .run = function }

static const struct kg_case CASES[] = { CASE(one_step_where_it_is), CASE(several_steps), CASE(no_step), CASE(edges) };

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, sizeof CASES / sizeof *CASES);
}
