/* The statistics that judge the history: known answers, and the same figures by the GNU Scientific Library. */
#include "base/rng.h"
#include "base/size.h"
#include "measure/rank_test.h"
#include "measure/robust.h"
#include "measure/statistics.h"
#include "suites/harness/case.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_GSL
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_combination.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#endif

enum { MOST = 64 };

static void expect_near(const char *what, double got, double want, double relative) {
    ck_assert_msg(fabs(got - want) <= relative * fmax(fabs(want), 1e-300), "%s: %.17g, not %.17g", what, got, want);
}

/* Mann-Whitney by hand: the share of the C(n, n_y) labellings. */
static void mann_whitney_known(struct kg_record *rec, const void *arg) {
    static const struct {
        double x[4], y[4];
        size_t n_x, n_y;
        double p;
    } ROWS[] = {
        { { 1, 2, 3 }, { 4, 5, 6 }, 3, 3, 1.0 / 20 },
        { { 4, 5, 6 }, { 1, 2, 3 }, 3, 3, 1 },
        { { 1, 2, 4 }, { 3, 5, 6 }, 3, 3, 2.0 / 20 },
        { { 1 }, { 2, 3, 4, 5 }, 1, 4, 1.0 / 5 },
        { { 1, 1, 1 }, { 1, 1, 1 }, 3, 3, 1 },
        { { 1, 2 }, { 2, 3 }, 2, 2, 2.0 / 6 },
        { { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, 4, 4, 1.0 / 70 },
        { { 0 }, { 1 }, 0, 1, 1 },
    };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        expect_near("p", kg_mann_whitney_greater(ROWS[i].x, ROWS[i].n_x, ROWS[i].y, ROWS[i].n_y), ROWS[i].p, 1e-12);
    static const double MANY[KG_RANK_TEST_MOST];
    ck_assert(isnan(kg_mann_whitney_greater(MANY, KG_RANK_TEST_MOST, MANY, 1)));
    ck_assert(isnan(kg_mann_whitney_greater((const double[]){ NAN }, 1, MANY, 1)));
}

/* Under the null hypothesis a p of at most 5% comes in at most 5% of experiments: 4000 here, which scatter by 0.35%. */
static void mann_whitney_keeps_its_level(struct kg_record *rec, const void *arg) {
    enum { N_EXPERIMENTS = 4000, N = 10 };
    struct kg_rng rng;
    int n_small = 0;
    (void)arg;
    kg_rng_init(&rng, 11, 0);
    for (int e = 0; e < N_EXPERIMENTS; e++) {
        double x[N], y[N];
        for (int i = 0; i < N; i++) {
            x[i] = exp(kg_rng_normal(&rng));
            y[i] = exp(kg_rng_normal(&rng));
        }
        n_small += kg_mann_whitney_greater(x, N, y, N) <= 0.05;
    }
    kg_record_metric(rec, "level", "ratio", n_small / (double)N_EXPERIMENTS);
    ck_assert_int_le(n_small, N_EXPERIMENTS * 6 / 100);
    ck_assert_int_ge(n_small, N_EXPERIMENTS * 3 / 100);
}

/* p.adjust(c(0.01, 0.04, 0.03, 0.005, 0.2), "BH") of R. */
static void benjamini_hochberg_known(struct kg_record *rec, const void *arg) {
    static const double P[] = { 0.01, 0.04, 0.03, 0.005, 0.2 }, WANT[] = { 0.025, 0.05, 0.05, 0.025, 0.2 };
    double got[KG_COUNT_OF(P)];
    (void)rec;
    (void)arg;
    kg_benjamini_hochberg(P, KG_COUNT_OF(P), got);
    for (size_t i = 0; i < KG_COUNT_OF(P); i++) expect_near("adjusted p", got[i], WANT[i], 1e-12);
    kg_benjamini_hochberg(P, 0, got);
}

/* The definition: the k smallest are rejected for the largest k with p_(k) <= k q / n. */
static void benjamini_hochberg_is_the_step_up(struct kg_record *rec, const void *arg) {
    struct kg_rng rng;
    (void)rec;
    (void)arg;
    kg_rng_init(&rng, 5, 0);
    for (int trial = 0; trial < 200; trial++) {
        const size_t n = 1 + (size_t)kg_rng_below(&rng, MOST);
        const double q = 0.01 + 0.3 * kg_rng_uniform(&rng);
        double p[MOST], sorted[MOST], adjusted[MOST], limit = -1;
        for (size_t i = 0; i < n; i++) p[i] = sorted[i] = pow(kg_rng_uniform(&rng), 3);
        for (size_t k = 0; k < n; k++)
            if (kg_nth(sorted, n, k) <= (double)(k + 1) * q / (double)n) limit = sorted[k];
        kg_benjamini_hochberg(p, n, adjusted);
        for (size_t i = 0; i < n; i++) ck_assert_int_eq(adjusted[i] <= q, p[i] <= limit);
    }
}

static void hodges_lehmann_known(struct kg_record *rec, const void *arg) {
    static const double FEW[] = { 1, 5, 2 }, WILD[] = { 10, 11, 9, 10, 1e9, 10, 10, 11, 9, 10 };
    (void)rec;
    (void)arg;
    expect_near("centre", kg_hodges_lehmann(FEW, KG_COUNT_OF(FEW)), 2.5, 1e-12); /* of 1 1.5 2 3 3.5 5 */
    expect_near("centre of one", kg_hodges_lehmann(FEW, 1), 1, 0);
    expect_near("centre with a wild value", kg_hodges_lehmann(WILD, KG_COUNT_OF(WILD)), 10, 0.06);
}

/* Unbiased at the sizes that a history has; 20000 samples scatter by 0.5% of the mean. */
static void robust_sigma_is_unbiased(struct kg_record *rec, const void *arg) {
    static const size_t SIZES[] = { 5, 10, 20, 40 };
    enum { N_EXPERIMENTS = 20000 };
    (void)rec;
    (void)arg;
    for (size_t k = 0; k < KG_COUNT_OF(SIZES); k++) {
        struct kg_rng rng;
        double sum = 0, values[MOST];
        kg_rng_init(&rng, 3, k);
        for (int e = 0; e < N_EXPERIMENTS; e++) {
            for (size_t i = 0; i < SIZES[k]; i++) values[i] = 7 + 2 * kg_rng_normal(&rng);
            sum += kg_robust_sigma(values, SIZES[k]);
        }
        expect_near("mean of sigma", sum / N_EXPERIMENTS, 2, 0.03);
    }
    ck_assert_double_eq(kg_robust_sigma((const double[]){ 4 }, 1), 0);
}

#ifdef HAVE_GSL
static void fill(struct kg_rng *rng, double *values, size_t n, double steps) {
    for (size_t i = 0; i < n; i++) values[i] = steps > 0 ? floor(steps * kg_rng_uniform(rng)) : kg_rng_normal(rng);
}

/* Every labelling that gsl_combination can name, ranked by counting: no recurrence, no sorting. */
static double by_enumeration(const double *all, size_t n_x, size_t n_y) {
    const size_t n = n_x + n_y;
    double ranks[MOST] = { 0 }, observed = 0;
    size_t n_all = 0, n_tail = 0;
    for (size_t i = 0; i < n; i++) {
        ranks[i] = 0.5;
        for (size_t k = 0; k < n; k++) ranks[i] += all[k] < all[i] ? 1 : all[k] == all[i] ? 0.5 : 0;
    }
    for (size_t i = n_x; i < n; i++) observed += ranks[i];
    gsl_combination *chosen = gsl_combination_calloc(n, n_y);
    do {
        double sum = 0;
        for (size_t i = 0; i < n_y; i++) sum += ranks[gsl_combination_get(chosen, i)];
        n_all++;
        n_tail += sum >= observed - 1e-9;
    } while (gsl_combination_next(chosen) == GSL_SUCCESS);
    gsl_combination_free(chosen);
    return (double)n_tail / (double)n_all;
}

static void mann_whitney_by_gsl(struct kg_record *rec, const void *arg) {
    struct kg_rng rng;
    (void)rec;
    (void)arg;
    kg_rng_init(&rng, 1, 0);
    for (int trial = 0; trial < 150; trial++) {
        const size_t n_x = 1 + (size_t)kg_rng_below(&rng, 7), n_y = 1 + (size_t)kg_rng_below(&rng, 7);
        double all[MOST];
        fill(&rng, all, n_x + n_y, trial % 3 ? 0 : 5); /* a third with many ties */
        expect_near("p", kg_mann_whitney_greater(all, n_x, all + n_x, n_y), by_enumeration(all, n_x, n_y), 1e-12);
    }
}

/* Large sides: the normal approximation with its continuity correction, good to 4% of p where p is above 1%. */
static void mann_whitney_of_many_by_gsl(struct kg_record *rec, const void *arg) {
    enum { N = 60 };
    struct kg_rng rng;
    (void)rec;
    (void)arg;
    kg_rng_init(&rng, 2, 0);
    for (int trial = 0; trial < 5; trial++) {
        double x[N], y[N], u = 0;
        fill(&rng, x, N, 0);
        fill(&rng, y, N, 0);
        for (int i = 0; i < N; i++) y[i] += 0.1 * trial;
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++) u += y[i] > x[k];
        const double sigma = sqrt(N * N * (2 * N + 1) / 12.0);
        const double want = gsl_cdf_ugaussian_Q((u - 0.5 - N * N / 2.0) / sigma);
        if (want > 0.01) expect_near("p", kg_mann_whitney_greater(x, N, y, N), want, 0.04);
    }
}

static void descriptive_by_gsl(struct kg_record *rec, const void *arg) {
    struct kg_rng rng;
    (void)rec;
    (void)arg;
    kg_rng_init(&rng, 3, 0);
    for (size_t n = 1; n <= MOST; n++) {
        double values[MOST], sorted[MOST], work[MOST];
        struct kg_statistics s;
        fill(&rng, values, n, n % 4 ? 0 : 6);
        memcpy(sorted, values, sizeof sorted);
        gsl_sort(sorted, 1, n);
        kg_statistics_compute(values, n, &s);
        ck_assert_double_eq_tol(s.median, gsl_stats_median_from_sorted_data(sorted, 1, n), 1e-12);
        ck_assert_double_eq_tol(s.mad, gsl_stats_mad0(values, 1, n, work), 1e-12);
        for (int eighths = 0; eighths <= 8; eighths++)
            ck_assert_double_eq_tol(kg_percentile_sorted(sorted, n, 12.5 * eighths),
                                    gsl_stats_quantile_from_sorted_data(sorted, 1, n, 0.125 * eighths), 1e-12);
        if (n > 9) /* GSL's scale has no factor for few values: it is taken out */
            ck_assert_double_eq_tol(kg_robust_sigma(values, n) * ((double)n - 0.8) / (double)n,
                                    gsl_stats_mad(values, 1, n, work), 1e-3);
    }
}

/* The bootstrap of a median has a limit that needs no resampling: the order statistics between the 2.5% and 97.5%
 * points of a binomial. The two may differ by one rank at each end. */
static void bootstrap_by_gsl(struct kg_record *rec, const void *arg) {
    struct kg_rng rng;
    (void)rec;
    (void)arg;
    kg_rng_init(&rng, 4, 0);
    for (size_t n = 11; n <= 61; n += 10) {
        double values[MOST], sorted[MOST];
        struct kg_statistics s;
        size_t low = 0;
        fill(&rng, values, n, 0);
        memcpy(sorted, values, sizeof sorted);
        gsl_sort(sorted, 1, n);
        kg_statistics_compute(values, n, &s);
        while (gsl_cdf_binomial_P((unsigned)low, 0.5, (unsigned)n) < 0.025) low++;
        const size_t high = n - 1 - low;
        ck_assert_msg(s.ci_lo >= sorted[low - 1] && s.ci_lo <= sorted[low + 1], "n %zu: low end %g", n, s.ci_lo);
        ck_assert_msg(s.ci_hi >= sorted[high - 1] && s.ci_hi <= sorted[high + 1], "n %zu: high end %g", n, s.ci_hi);
    }
}

static void student_limit_by_gsl(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    for (int quarters = 0; quarters <= 14; quarters++)
        for (int power = 0; power <= 14; power++) {
            const double z = 0.25 * quarters, df = 6 * pow(1.7, power);
            expect_near("t", kg_student_limit(z, df), gsl_cdf_tdist_Qinv(gsl_cdf_ugaussian_Q(z), df), 0.02);
        }
    ck_assert_double_eq(kg_student_limit(3, INFINITY), 3);
}
#else
#define NO_GSL(name)                                                                                                   \
    static void name(struct kg_record *rec, const void *arg) {                                                         \
        (void)arg;                                                                                                     \
        kg_record_skip(rec, "built without the GNU Scientific Library (Debian: libgsl-dev)");                          \
    }
NO_GSL(mann_whitney_by_gsl)
NO_GSL(mann_whitney_of_many_by_gsl)
NO_GSL(descriptive_by_gsl)
NO_GSL(bootstrap_by_gsl)
NO_GSL(student_limit_by_gsl)
#endif

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "rank_test", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(mann_whitney_known),       CASE(mann_whitney_keeps_its_level),
    CASE(benjamini_hochberg_known), CASE(benjamini_hochberg_is_the_step_up),
    CASE(hodges_lehmann_known),     CASE(robust_sigma_is_unbiased),
    CASE(mann_whitney_by_gsl),      CASE(mann_whitney_of_many_by_gsl),
    CASE(descriptive_by_gsl),       CASE(bootstrap_by_gsl),
    CASE(student_limit_by_gsl),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
