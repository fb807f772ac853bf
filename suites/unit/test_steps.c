/* Steps in series whose answer is known. */
#include "base/rng.h"
#include "base/size.h"
#include "history/step_series.h"
#include "measure/partition.h"
#include "measure/steps.h"
#include "suites/harness/case.h"
#include "suites/unit/step_simulation.h"
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

/* A shift as small as is of interest. 85% is about the most that any rule places exactly: at 2.96 sigmas the likelihood
 * is greatest elsewhere in 15%. */
static void small_steps_are_found(struct kg_record *rec, const void *arg) {
    enum { N_TRIALS = 300 };
    static const struct {
        size_t half;
        double least_found;
    } ROWS[] = { { 20, 0.93 }, { 50, 0.97 } };
    struct kg_step steps[MOST];
    double x[MOST];
    (void)arg;
    for (size_t r = 0; r < KG_COUNT_OF(ROWS); r++) {
        const size_t half = ROWS[r].half;
        int n_found = 0, n_exact = 0;
        struct kg_rng rng;
        kg_rng_init(&rng, 4, r);
        for (int trial = 0; trial < N_TRIALS; trial++) {
            noise(x, 2 * half, 0.01, &rng);
            for (size_t i = half; i < 2 * half; i++) x[i] += log(1.03);
            const bool found = kg_steps_find(x, 2 * half, log1p(0.03), steps) == 1;
            n_found += found;
            n_exact += found && steps[0].at == half;
        }
        kg_record_metric(rec, "found", "ratio", n_found / (double)N_TRIALS);
        kg_record_metric(rec, "placed_exactly", "ratio", n_exact / (double)n_found);
        ck_assert_int_ge(n_found, ROWS[r].least_found * N_TRIALS);
        ck_assert_int_ge(n_exact, 0.8 * n_found);
    }
}

/* Histories of 100 runs in which nothing changed, searched as `kigo steps` does, under every kind of noise; the long
 * form, with powers, is suites/unit/simulate_steps.c. */
static void stable_series(struct kg_record *rec, const void *arg) {
    enum { N_CASES = 40 };
    size_t n_false = 0, n_stable = 0;
    (void)arg;
    for (size_t k = 0; k < KG_STEP_NOISE_KINDS; k++) {
        const struct kg_noise_kind kind = kg_step_noise(k);
        const struct kg_step_simulation s = { .kind = &kind, .n_trials = 1, .n_cases = N_CASES, .n_runs = 100 };
        struct kg_step_simulated out;
        kg_simulate_steps(&s, 5 + k, &out);
        kg_record_metric(rec, kind.name, "count", (double)out.n_false);
        ck_assert_msg(out.n_false <= 1, "%s: %zu of %d", kind.name, out.n_false, N_CASES);
        n_false += out.n_false;
        n_stable += out.n_stable;
    }
    ck_assert_uint_eq(n_stable, N_CASES * KG_STEP_NOISE_KINDS);
    ck_assert_uint_le(n_false, 3); /* 1 in 1000 gives four and more in 1 of 150 */
}

/* What all cases do, or most, is no drift where the canaries stand still. least_any: of the slow cases; a stable case
 * has no step in any of them. */
struct event {
    struct kg_step_simulation s;
    double least_found, least_exact, least_any;
};

static void what_cases_share(struct kg_record *rec, const void *arg) {
    const struct event *event = arg;
    struct kg_step_simulation s = event->s;
    struct kg_step_simulated out;
    s.kind = &KG_NOISE[KG_NOISE_NORMAL];
    s.n_trials = 1;
    kg_simulate_steps(&s, 31, &out);
    kg_record_metric(rec, "found", "count", (double)out.n_found);
    kg_record_metric(rec, "placed_exactly", "count", (double)out.n_exact);
    kg_record_metric(rec, "with_a_step", "count", (double)out.n_any);
    kg_record_metric(rec, "false", "count", (double)out.n_false);
    ck_assert_uint_eq(out.n_slow + out.n_stable, s.n_cases);
    ck_assert_uint_eq(out.n_false, 0);
    ck_assert_double_ge((double)out.n_found, event->least_found * (double)out.n_slow);
    ck_assert_double_ge((double)out.n_exact, event->least_exact * (double)out.n_slow);
    ck_assert_double_ge((double)out.n_any, event->least_any * (double)out.n_slow);
}

/* log 1.03, 1.05, 1.1, 1.005 */
#define PERCENT_3 0.0295588
#define PERCENT_5 0.0487902
#define PERCENT_10 0.0953102
#define HALF_PERCENT 0.00498754

static const struct event EVENTS[] = {
    { { .n_cases = 100, .n_runs = 40, .n_slow = 100, .change = PERCENT_5, .together = true }, 0.99, 0.99, 1 },
    { { .n_cases = 100, .n_runs = 40, .n_slow = 60, .change = PERCENT_10, .together = true }, 1, 1, 1 },
    { { .n_cases = 100, .n_runs = 20, .n_slow = 100, .creep = HALF_PERCENT }, 0, 0, 0.8 },
    { { .n_cases = 100, .n_runs = 40, .n_slow = 100, .creep = HALF_PERCENT }, 0, 0, 0.99 },
    { { .n_cases = 100, .n_runs = 40, .machine = PERCENT_5 }, 0, 0, 0 },
    { { .n_cases = 100, .n_runs = 100, .n_slow = 8, .change = PERCENT_3, .together = true }, 0.85, 0.85, 0.85 },
};

/* Three runs of each commit: a step lies between commits. */
static void a_step_lies_between_commits(struct kg_record *rec, const void *arg) {
    enum { N_RUNS = 60, N_TRIALS = 100, AT = 30 };
    double x[N_RUNS];
    size_t commits[N_RUNS], n_found = 0;
    const size_t cases[] = { 0 };
    struct kg_rng rng;
    (void)arg;
    kg_rng_init(&rng, 9, 0);
    for (size_t i = 0; i < N_RUNS; i++) commits[i] = i / 3;
    for (int trial = 0; trial < N_TRIALS; trial++) {
        struct kg_series series = { "cuda", x };
        struct kg_series_step *steps;
        const struct kg_step_figures figures = {
            .series = &series, .cases = cases, .n = 1, .n_runs = N_RUNS, .commits = commits, .least_change = PERCENT_3
        };
        noise(x, N_RUNS, 0.01, &rng);
        for (size_t i = AT; i < N_RUNS; i++) x[i] += PERCENT_3;
        const size_t n = kg_series_steps(&figures, &steps);
        for (size_t i = 0; i < n; i++) {
            ck_assert_uint_eq(steps[i].first_after % 3, 0);
            ck_assert_uint_eq(steps[i].last_before + 1, steps[i].first_after);
            ck_assert_uint_eq(steps[i].n_before, steps[i].first_after);
            ck_assert_uint_eq(steps[i].n_before + steps[i].n_after, N_RUNS);
            n_found += steps[i].first_after == AT;
        }
        free(steps);
    }
    kg_record_metric(rec, "placed_exactly", "ratio", n_found / (double)N_TRIALS);
    ck_assert_uint_ge(n_found, 0.95 * N_TRIALS);
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

/* A creep shows in all of its first and its last third: two values that lie wrong at each end do not hide it. */
static void a_creep_with_wild_ends(struct kg_record *rec, const void *arg) {
    enum { N = 38 };
    struct kg_step steps[N];
    double x[N];
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < N; i++) x[i] = 3 + 0.005 * (double)i + 0.03 * (fmod(0.618034 * (double)(i + 1), 1) - 0.5);
    ck_assert_uint_gt(kg_steps_find(x, N, 0.03, steps), 0);
    x[0] = x[1] = x[N - 2] = x[N - 1] = 3 + 0.005 * (N - 1) / 2;
    ck_assert_uint_gt(kg_steps_find(x, N, 0.03, steps), 0);
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

/* A level has as many values as it is to have, whatever fewer would explain. */
static void levels_are_no_shorter(struct kg_record *rec, const void *arg) {
    static const double VALUES[] = { 0, 0.01, -0.01, 0.005, 0, 10, 10.01, 0.01, 0, -0.005, 0.01, 0 };
    enum { N = KG_COUNT_OF(VALUES) };
    size_t from[N + 1] = { 0 };
    (void)rec;
    (void)arg;
    for (size_t shortest = 2; shortest <= 4; shortest++) {
        size_t n_levels = 0;
        kg_partition(VALUES, N, shortest, from);
        for (size_t end = N; end > 0; end = from[end], n_levels++) ck_assert_uint_ge(end - from[end], shortest);
        if (shortest == 2) ck_assert_uint_eq(n_levels, 3);
    }
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "steps", .name = #function, .run = function }

#define EVENT(name_, row)                                                                                              \
    { .layer = "unit", .op = "steps", .name = name_, .run = what_cases_share, .arg = &EVENTS[row] }

static const struct kg_case CASES[] = { CASE(one_step_where_it_is),
                                        CASE(several_steps),
                                        CASE(no_step),
                                        CASE(edges),
                                        CASE(small_steps_are_found),
                                        CASE(stable_series),
                                        EVENT("all_cases_slower", 0),
                                        EVENT("most_cases_slower", 1),
                                        EVENT("a_creep_of_20_runs", 2),
                                        EVENT("a_creep_of_40_runs", 3),
                                        EVENT("the_machine_is_slower", 4),
                                        EVENT("a_few_cases_share_a_commit", 5),
                                        CASE(a_step_lies_between_commits),
                                        CASE(three_values_are_a_level),
                                        CASE(levels_are_no_shorter),
                                        CASE(a_creep_with_wild_ends),
                                        CASE(five_hundred_runs) };

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, sizeof CASES / sizeof *CASES);
}
