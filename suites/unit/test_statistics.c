/* Known answers for the statistics every timing rests on. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/size.h"
#include "history/selfcheck.h"
#include "measure/process_memory.h"
#include "measure/statistics.h"
#include "measure/timing.h"
#include "suites/harness/case.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

struct known {
    double samples[8];
    size_t n;
    double median, mad, min, max;
};

static const struct known ODD = { { 5, 1, 4, 2, 3 }, 5, 3, 1, 1, 5 };
static const struct known EVEN = { { 4, 1, 3, 2 }, 4, 2.5, 1, 1, 4 };
static const struct known ONE = { { 7 }, 1, 7, 0, 7, 7 };
static const struct known OUTLIER = { { 10, 10, 11, 10, 9, 1e9 }, 6, 10, 0.5, 9, 1e9 };
static const struct known CONSTANT = { { 2, 2, 2, 2, 2, 2, 2, 2 }, 8, 2, 0, 2, 2 };

static void known_answer(struct kg_record *rec, const void *arg) {
    (void)rec;
    const struct known *k = arg;
    struct kg_statistics s;
    kg_statistics_compute(k->samples, k->n, &s);
    ck_assert_uint_eq(s.n, k->n);
    ck_assert_double_eq(s.median, k->median);
    ck_assert_double_eq(s.mad, k->mad);
    ck_assert_double_eq(s.min, k->min);
    ck_assert_double_eq(s.max, k->max);
    ck_assert_double_le(s.ci_lo, s.median);
    ck_assert_double_ge(s.ci_hi, s.median);
    ck_assert_double_ge(s.ci_lo, s.min);
    ck_assert_double_le(s.ci_hi, s.max);
}

static void no_samples(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    struct kg_statistics s;
    kg_statistics_compute(NULL, 0, &s);
    ck_assert_uint_eq(s.n, 0);
    ck_assert_double_eq(s.median, 0);
}

static void percentile_between_ranks(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const double x[] = { 10, 20, 30, 40, 50 };
    const struct {
        double p, want;
    } rows[] = { { 0, 10 }, { 25, 20 }, { 50, 30 }, { 90, 46 }, { 99, 49.6 }, { 100, 50 } };
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++)
        ck_assert_double_eq_tol(kg_percentile_sorted(x, KG_COUNT_OF(x), rows[i].p), rows[i].want, 1e-12);
    ck_assert_double_eq(kg_percentile_sorted(x, 1, 73), 10);
}

/* The interval must hold the true median in about 95% of experiments: 91% to 99% of 400 here (400 experiments scatter
 * by 1% around it), for the resampled and for the rank form. */
static void interval_covers_the_median(struct kg_record *rec, const void *arg) {
    const size_t n = *(const size_t *)arg;
    enum { N_EXPERIMENTS = 400 };
    double *x = malloc(n * sizeof *x);
    struct kg_rng rng;
    kg_rng_init(&rng, 42, n);
    int covered = 0;
    for (int e = 0; e < N_EXPERIMENTS; e++) {
        for (size_t i = 0; i < n; i++) x[i] = 100 + kg_rng_normal(&rng);
        struct kg_statistics s;
        kg_statistics_compute(x, n, &s);
        covered += s.ci_lo <= 100 && 100 <= s.ci_hi;
    }
    free(x);
    kg_record_metric(rec, "covered", "ratio", covered / (double)N_EXPERIMENTS);
    ck_assert_int_ge(covered, N_EXPERIMENTS * 91 / 100);
    ck_assert_int_le(covered, N_EXPERIMENTS * 99 / 100);
}

/* The ranks floor(n / 2 - 1.96 sqrt(n) / 2) and ceil(n / 2 + 1.96 sqrt(n) / 2) of 0, 1, 2, ... 1000. */
static void rank_interval_of_known_ranks(struct kg_record *rec, const void *arg) {
    double x[1001];
    struct kg_statistics s;
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(x); i++) x[i] = (double)i;
    kg_statistics_compute(x, KG_COUNT_OF(x), &s);
    ck_assert_double_eq(s.ci_lo, 469);
    ck_assert_double_eq(s.ci_hi, 532);
}

static void interval_is_repeatable(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const double x[] = { 3.2, 1.1, 9.4, 2.2, 5.8, 4.1, 7.7 };
    struct kg_statistics a, b;
    kg_statistics_compute(x, KG_COUNT_OF(x), &a);
    kg_statistics_compute(x, KG_COUNT_OF(x), &b);
    ck_assert_double_eq(a.ci_lo, b.ci_lo);
    ck_assert_double_eq(a.ci_hi, b.ci_hi);
    ck_assert_double_lt(a.ci_lo, a.ci_hi);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The interval as its definition says, each resample drawn, sorted and halved: 2000 of them by the seed "kigo". */
static void plain_bootstrap(const double *samples, size_t n, double *ci_lo, double *ci_hi) {
    enum { N_RESAMPLES = 2000, MOST = 512 };
    static double medians[N_RESAMPLES];
    double drawn[MOST] = { 0 };
    struct kg_rng rng;
    kg_rng_init(&rng, 0x6b69676f, 0);
    for (size_t r = 0; r < N_RESAMPLES; r++) {
        double sorted[MOST] = { 0 };
        for (size_t i = 0; i < n; i++) sorted[i] = samples[i];
        qsort(sorted, n, sizeof *sorted, ascending);
        for (size_t i = 0; i < n; i++) drawn[i] = sorted[kg_rng_below(&rng, n)];
        qsort(drawn, n, sizeof *drawn, ascending);
        medians[r] = drawn[(n - 1) / 2] + (drawn[n / 2] - drawn[(n - 1) / 2]) / 2;
    }
    qsort(medians, N_RESAMPLES, sizeof *medians, ascending);
    *ci_lo = kg_percentile_sorted(medians, N_RESAMPLES, 2.5);
    *ci_hi = kg_percentile_sorted(medians, N_RESAMPLES, 97.5);
}

/* Sealed intervals are computed again when a bundle is verified: bit for bit, whichever sizes came before. */
static void interval_is_the_plain_bootstraps(struct kg_record *rec, const void *arg) {
    static const size_t SIZES[] = { 20, 20, 2, 3, 20, 41, 40, 512 };
    double x[512];
    struct kg_rng rng;
    (void)rec;
    (void)arg;
    kg_rng_init(&rng, 11, 0);
    for (size_t k = 0; k < KG_COUNT_OF(SIZES); k++) {
        const size_t n = SIZES[k];
        struct kg_statistics s;
        double ci_lo, ci_hi;
        for (size_t i = 0; i < n; i++) x[i] = 1e4 * kg_rng_uniform(&rng);
        kg_statistics_compute(x, n, &s);
        plain_bootstrap(x, n, &ci_lo, &ci_hi);
        ck_assert_double_eq(s.ci_lo, ci_lo);
        ck_assert_double_eq(s.ci_hi, ci_hi);
    }
}

static void sleep_5_ms(void *arg) {
    ++*(int *)arg;
    const struct timespec t = { .tv_nsec = 5000000 };
    nanosleep(&t, NULL);
}

static void host_timing_counts_and_measures(struct kg_record *rec, const void *arg) {
    (void)arg;
    uint64_t samples_ns[4] = { 0 };
    int n_calls = 0;
    kg_timing_host(sleep_5_ms, &n_calls, 2, KG_COUNT_OF(samples_ns), samples_ns);
    ck_assert_int_eq(n_calls, 6);
    for (size_t i = 0; i < KG_COUNT_OF(samples_ns); i++) ck_assert_uint_ge(samples_ns[i], 5000000);
    kg_record_timing(rec, "sleep of 5 ms", "host", "warm", samples_ns, KG_COUNT_OF(samples_ns), 0, 0);
}

/* The peak grows by what is touched: 64 MiB here, which nothing else in this small program reaches. */
/* What is touched is more than the peak so far: less could fit into memory that earlier cases gave back. */
static void peak_memory_grows_by_what_is_touched(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    enum { MORE_BYTES = 32 << 20, PAGE_BYTES = 4096 };
    const uint64_t before = kg_process_peak_bytes();
    const uint64_t size_bytes = before + MORE_BYTES;
    volatile char *p = malloc(size_bytes);
    ck_assert_ptr_nonnull((void *)p);
    for (uint64_t i = 0; i < size_bytes; i += PAGE_BYTES) p[i] = 1;
    const uint64_t after = kg_process_peak_bytes();
    free((void *)p);
    ck_assert_uint_gt(before, 0);
    ck_assert_uint_ge(after, size_bytes);
}

static const size_t SMALL_N = 41, LARGE_N = 1001;

/* The highest rate at which so few of m come up in one of twenty draws, where it has a closed form: none, and all but
 * one. */
static void highest_rates(struct kg_record *rec, const void *arg) {
    static const size_t M[] = { 1, 7, 100 };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(M); i++) {
        const double m = (double)M[i];
        ck_assert_double_eq_tol(kg_rate_most(0, M[i]), 1 - pow(0.05, 1 / m), 1e-9);
        ck_assert_double_eq_tol(kg_rate_most(M[i] - 1, M[i]), pow(0.95, 1 / m), 1e-9);
        ck_assert_double_eq(kg_rate_most(M[i], M[i]), 1);
    }
}

/* Every rank of random values, with ties and without, and the median, as a sort has them. */
static void ranks_as_a_sort_has_them(struct kg_record *rec, const void *arg) {
    enum { MOST = 40 };
    struct kg_rng rng;
    (void)rec;
    (void)arg;
    kg_rng_init(&rng, 8, 0);
    for (int trial = 0; trial < 200; trial++) {
        double x[MOST], sorted[MOST];
        const size_t n = 1 + (size_t)kg_rng_below(&rng, MOST), n_values = trial % 2 ? 5 : 1000000;
        for (size_t i = 0; i < n; i++) x[i] = sorted[i] = (double)kg_rng_below(&rng, n_values);
        qsort(sorted, n, sizeof *sorted, ascending);
        const double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
        ck_assert_double_eq(kg_median(x, n), median);
        for (size_t k = n; k-- > 0;) {
            ck_assert_double_eq(kg_nth(x, n, k), sorted[k]);
            for (size_t i = 0; i < n; i++) ck_assert(i < k ? x[i] <= x[k] : x[i] >= x[k]);
        }
        ck_assert_double_eq(kg_median(sorted, n), median);
    }
}

/* Values in orders for which one choice of the pivot or another takes the square of their number, some minutes here:
 * two values many times, ascending, descending, and distances from a middle. NaN has no rank, and ends all the same. */
static void any_order_ends(struct kg_record *rec, const void *arg) {
    enum { N = 1000000, HALF = N / 2, QUARTER = N / 4, N_ORDERS = 4 };
    double *x = kg_xcalloc(N, sizeof *x);
    (void)rec;
    (void)arg;
    const uint64_t start_ns = kg_clock_monotonic_ns();
    for (int order = 0; order < N_ORDERS; order++) {
        for (int i = 0; i < N; i++)
            x[i] = order == 0 ? i % 2 * HALF : order == 1 ? i : order == 2 ? N - i : abs(i - HALF);
        const double expected[N_ORDERS] = { HALF, HALF, HALF + 1, QUARTER };
        ck_assert_double_eq(kg_nth(x, N, HALF), expected[order]);
    }
    ck_assert_uint_lt(kg_clock_monotonic_ns() - start_ns, 5000000000u);
    for (size_t i = 0; i < 9; i++) x[i] = i % 3 ? NAN : (double)i;
    (void)kg_nth(x, 9, 4);
    free(x);
}

#define UNIT(op_, name_, run_, arg_)                                                                                   \
    { .layer = "unit", .op = op_, .name = name_, .run = run_, .arg = arg_ }

static const struct kg_case CASES[] = {
    UNIT("statistics", "odd_count", known_answer, &ODD),
    UNIT("statistics", "even_count", known_answer, &EVEN),
    UNIT("statistics", "one_sample", known_answer, &ONE),
    UNIT("statistics", "outlier_moves_no_median", known_answer, &OUTLIER),
    UNIT("statistics", "constant_samples", known_answer, &CONSTANT),
    UNIT("statistics", "no_samples", no_samples, NULL),
    UNIT("statistics", "any_order_ends", any_order_ends, NULL),
    UNIT("statistics", "percentile_between_ranks", percentile_between_ranks, NULL),
    UNIT("statistics", "ranks_as_a_sort_has_them", ranks_as_a_sort_has_them, NULL),
    UNIT("statistics", "highest_rates", highest_rates, NULL),
    UNIT("statistics", "bootstrap_interval_covers_the_median", interval_covers_the_median, &SMALL_N),
    UNIT("statistics", "rank_interval_covers_the_median", interval_covers_the_median, &LARGE_N),
    UNIT("statistics", "rank_interval_of_known_ranks", rank_interval_of_known_ranks, NULL),
    UNIT("statistics", "interval_is_repeatable", interval_is_repeatable, NULL),
    UNIT("statistics", "interval_is_the_plain_bootstraps", interval_is_the_plain_bootstraps, NULL),
    UNIT("timing", "host_timing_counts_and_measures", host_timing_counts_and_measures, NULL),
    UNIT("process_memory", "peak_grows_by_what_is_touched", peak_memory_grows_by_what_is_touched, NULL),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
