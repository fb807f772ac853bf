/* What regress says that it cannot see: a change as large is found in nine of ten runs, half of it hardly ever. */
#include "base/buffer.h"
#include "base/size.h"
#include "history/detectable.h"
#include "measure/rank_test.h"
#include "suites/harness/case.h"
#include "suites/unit/noise_kinds.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

enum { N_FIGURES = 100, N_RUNS = 21, N_TRIALS = 60 };

static void judge(const struct kg_made_times *times, size_t n_runs, struct kg_noisy_runs *runs,
                  struct kg_noisy *noisy) {
    static double floors[N_FIGURES];
    for (size_t i = 0; i < N_FIGURES; i++) floors[i] = log1p(0.03);
    *runs = (struct kg_noisy_runs){ .figures = times->figures,
                                    .floors = floors,
                                    .n_figures = N_FIGURES,
                                    .canaries = times->canaries,
                                    .n_canaries = KG_MADE_CANARIES,
                                    .n_runs = n_runs,
                                    .least_change = log1p(0.03) };
    kg_noisy_judge(runs, noisy);
}

/* The share of trials that find a change of the group's worst figure by `share` of what is said to be needed. */
static double found(enum kg_noise kind, double share) {
    struct kg_made_times times;
    size_t n_found = 0;
    kg_made_times_open(&times, N_FIGURES, N_RUNS);
    for (size_t trial = 0; trial < N_TRIALS; trial++) {
        struct kg_unseen groups[KG_UNSEEN_MOST];
        struct kg_noisy_runs runs;
        struct kg_noisy noisy;
        struct kg_rng rng;
        kg_rng_init(&rng, 31, trial);
        kg_made_times_fill(&times, &KG_NOISE[kind], &rng);
        judge(&times, N_RUNS, &runs, &noisy);
        const size_t n = kg_unseen_find(&runs, &noisy, groups);
        ck_assert_uint_gt(n, 0);
        kg_noisy_free(&noisy);
        const struct kg_unseen *last = &groups[n - 1];
        ck_assert(isfinite(last->below));
        /* With the noise of another run in the place of the judged one. */
        double *value = &times.figures[last->worst].by_run[0];
        *value = times.figures[last->worst].by_run[1 + trial % (N_RUNS - 1)] + share * log1p(last->below);
        judge(&times, N_RUNS, &runs, &noisy);
        n_found += noisy.figures[last->worst].verdict == KG_SCREEN_WORSE;
        kg_noisy_free(&noisy);
    }
    kg_made_times_close(&times);
    return (double)n_found / N_TRIALS;
}

static void as_large_as_is_said(struct kg_record *rec, const void *arg) {
    static const enum kg_noise KINDS[] = { KG_NOISE_NORMAL, KG_NOISE_NORMAL_2, KG_NOISE_UNEVEN };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(KINDS); i++) {
        const double whole = found(KINDS[i], 1), half = found(KINDS[i], 0.5);
        kg_record_metric(rec, "whole", "ratio", whole);
        kg_record_metric(rec, "half", "ratio", half);
        ck_assert_double_ge(whole, 0.75);
        ck_assert_double_le(half, 0.25);
    }
}

/* So many runs of each build show 3% among hundreds of suspects. */
static void as_many_runs_as_are_said(struct kg_record *rec, const void *arg) {
    enum { MOST = KG_RANK_TEST_MOST / 2 };
    struct kg_made_times times;
    struct kg_unseen groups[KG_UNSEEN_MOST];
    struct kg_noisy_runs runs;
    struct kg_noisy noisy;
    struct kg_rng rng;
    (void)arg;
    kg_rng_init(&rng, 32, 0);
    kg_made_times_open(&times, N_FIGURES, N_RUNS);
    kg_made_times_fill(&times, &KG_NOISE[KG_NOISE_NORMAL_2], &rng);
    judge(&times, N_RUNS, &runs, &noisy);
    const size_t n_groups = kg_unseen_find(&runs, &noisy, groups), n = groups[n_groups - 1].n_runs;
    const double sigma = noisy.family.unit[groups[n_groups - 1].worst];
    kg_record_metric(rec, "runs", "count", (double)n);
    ck_assert_uint_le(n, MOST);
    size_t n_found = 0, n_with_a_third = 0;
    for (int trial = 0; trial < N_TRIALS; trial++) {
        double x[MOST], y[MOST];
        for (size_t i = 0; i < n; i++) {
            x[i] = sigma * kg_rng_normal(&rng);
            y[i] = sigma * kg_rng_normal(&rng) + log1p(0.03);
        }
        n_found += kg_mann_whitney_greater(x, n, y, n) <= 1.0 / 30000;
        n_with_a_third += kg_mann_whitney_greater(x, n / 3, y, n / 3) <= 1.0 / 30000;
    }
    ck_assert_uint_ge(n_found, 0.75 * N_TRIALS);
    ck_assert_uint_le(n_with_a_third, 0.3 * N_TRIALS);
    kg_noisy_free(&noisy);
    kg_made_times_close(&times);
}

static void too_few_runs(struct kg_record *rec, const void *arg) {
    struct kg_made_times times;
    struct kg_unseen groups[KG_UNSEEN_MOST];
    struct kg_noisy_runs runs;
    struct kg_noisy noisy;
    struct kg_rng rng;
    (void)rec;
    (void)arg;
    kg_rng_init(&rng, 33, 0);
    kg_made_times_open(&times, N_FIGURES, 4);
    kg_made_times_fill(&times, &KG_NOISE[KG_NOISE_NORMAL], &rng);
    judge(&times, 4, &runs, &noisy);
    ck_assert_uint_eq(kg_unseen_find(&runs, &noisy, groups), 1);
    ck_assert(isinf(groups[0].below));
    ck_assert_uint_eq(groups[0].n_figures, N_FIGURES);
    ck_assert_uint_eq(groups[0].n_runs, 2); /* 3 of 5 are there */
    kg_noisy_free(&noisy);
    kg_made_times_close(&times);
}

/* Three that are alike: the group's figure is that of which least can be seen, wherever it stands. */
static void worst_of_a_group(struct kg_record *rec, const void *arg) {
    struct kg_screen_figure figures[3];
    double units[] = { 0.010, 0.012, 0.011 };
    const struct kg_noisy noisy = { .figures = figures, .family = { .unit = units, .red = 3 } };
    const struct kg_noisy_runs runs = { .n_figures = KG_COUNT_OF(figures), .least_change = log1p(0.03) };
    struct kg_unseen groups[KG_UNSEEN_MOST];
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(figures); i++)
        figures[i] = (struct kg_screen_figure){ .n_baseline = 20, .z_limit = 3, .sigma = 0.01, .floor = log1p(0.03) };
    ck_assert_uint_eq(kg_unseen_find(&runs, &noisy, groups), 1);
    ck_assert_uint_eq(groups[0].n_figures, KG_COUNT_OF(figures));
    ck_assert_uint_eq(groups[0].worst, 1);
    /* 3 of its units, and 9 of 10 values lie less than 1.28 above */
    ck_assert_double_eq_tol(log1p(groups[0].below), (3 + 1.2815515655446004) * units[1], 1e-12);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "detectable", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(as_large_as_is_said),
    CASE(as_many_runs_as_are_said),
    CASE(too_few_runs),
    CASE(worst_of_a_group),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
