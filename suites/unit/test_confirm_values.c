/* What confirm answers to values whose truth is known, and how often it is wrong. */
#include "base/rng.h"
#include "base/size.h"
#include "history/confirm.h"
#include "suites/harness/case.h"
#include "suites/unit/simulation.h"
#include <check.h>
#include <math.h>

enum { N = 10, N_TRIALS = 400 };

struct row {
    double change, sigma, flagged; /* of the second build; of a run; relative */
    size_t n;
    enum kg_confirmed verdict;
    double least_share; /* of trials that say so */
};

static const struct row UNCHANGED = { 0, 0.01, 0.06, N, KG_REFUTED, 0.9 };
static const struct row SLOWER = { 0.08, 0.01, 0.08, N, KG_CONFIRMED, 0.99 };
static const struct row AS_SMALL_AS_MATTERS = { 0.03, 0.01, 0.03, N, KG_CONFIRMED, 0.9 };
static const struct row SMALL = { 0.01, 0.003, 0.05, N, KG_CONFIRMED_SMALL, 0.99 };
static const struct row LARGE_AND_NOISY = { 0.24, 0.25, 0.24, KG_CONFIRM_FEWEST, KG_UNDECIDED, 0.5 };

static void draw(const struct row *row, int worse, struct kg_rng *rng, struct kg_confirmation *c) {
    double x[N], y[N];
    for (size_t i = 0; i < row->n; i++) {
        x[i] = row->sigma * kg_rng_normal(rng);
        y[i] = row->sigma * kg_rng_normal(rng) + log1p(row->change);
    }
    *c = (struct kg_confirmation){ .worse = worse, .flagged = expm1(worse * log1p(row->flagged)) };
    kg_confirm_compare(x, row->n, y, row->n, c);
}

/* Times and speeds alike: what is worse by 8% is a time 8% up, or a speed 7.4% down. */
static void answers(struct kg_record *rec, const void *arg) {
    const struct row *row = arg;
    size_t counts[KG_CONFIRMED_COUNT] = { 0 };
    struct kg_rng rng;
    kg_rng_init(&rng, 11, 0);
    for (int trial = 0; trial < N_TRIALS; trial++) {
        const int worse = trial % 2 ? 1 : -1;
        struct kg_confirmation c;
        draw(row, worse, &rng, &c);
        kg_confirm_decide(&c, 1, 0.03);
        counts[c.verdict]++;
        ck_assert_double_le(c.change_lo, c.change);
        ck_assert_double_le(c.change, c.change_hi);
    }
    for (size_t i = 0; i < KG_CONFIRMED_COUNT; i++)
        kg_record_metric(rec, KG_CONFIRMED_NAMES[i], "ratio", (double)counts[i] / N_TRIALS);
    ck_assert_uint_ge(counts[row->verdict], row->least_share * N_TRIALS);
    if (row->change == 0) ck_assert_uint_le(counts[KG_CONFIRMED], 0.05 * N_TRIALS + 8);
    else if (row->verdict != KG_CONFIRMED_SMALL) ck_assert_uint_le(counts[KG_REFUTED], 0.05 * N_TRIALS);
}

/* The interval holds the true change in 95 of 100. */
static void the_interval_covers_the_change(struct kg_record *rec, const void *arg) {
    struct kg_rng rng;
    size_t n_covered = 0;
    (void)arg;
    kg_rng_init(&rng, 12, 0);
    for (int trial = 0; trial < N_TRIALS; trial++) {
        struct kg_confirmation c;
        draw(&SLOWER, 1, &rng, &c);
        n_covered += c.change_lo <= SLOWER.change && SLOWER.change <= c.change_hi;
    }
    kg_record_metric(rec, "covered", "ratio", (double)n_covered / N_TRIALS);
    ck_assert_uint_ge(n_covered, 0.92 * N_TRIALS);
    ck_assert_uint_le(n_covered, 0.985 * N_TRIALS);
}

/* Differences of 0, 1, 2 ... thousandths: of 10 against 10 the 24th from either end bounds the shift, of 5 against 5
 * the third (tables of Mann and Whitney at 2.5%). */
static void known_intervals(struct kg_record *rec, const void *arg) {
    static const struct {
        size_t n;
        double lo, middle, hi; /* thousandths */
    } ROWS[] = { { 10, 23, 49.5, 76 }, { 5, 2, 12, 22 } };
    (void)rec;
    (void)arg;
    for (size_t r = 0; r < KG_COUNT_OF(ROWS); r++)
        for (int worse = -1; worse <= 1; worse += 2) {
            double x[N], y[N];
            for (size_t i = 0; i < ROWS[r].n; i++) {
                x[i] = -0.001 * (double)(i * ROWS[r].n);
                y[i] = 0.001 * (double)i;
            }
            struct kg_confirmation c = { .worse = worse, .flagged = NAN };
            kg_confirm_compare(x, ROWS[r].n, y, ROWS[r].n, &c);
            const double lo = worse > 0 ? ROWS[r].lo : -ROWS[r].hi, hi = worse > 0 ? ROWS[r].hi : -ROWS[r].lo;
            ck_assert_double_eq_tol(c.change, expm1(0.001 * worse * ROWS[r].middle), 1e-12);
            ck_assert_double_eq_tol(c.change_lo, expm1(0.001 * lo), 1e-12);
            ck_assert_double_eq_tol(c.change_hi, expm1(0.001 * hi), 1e-12);
        }
}

/* The edges, by values without noise: just below what is of interest is small, as a time and as a speed. */
static void just_below_the_least_change(struct kg_record *rec, const void *arg) {
    static const double BELOW = 0.0295, ABOVE = 0.0298; /* as logarithms; log1p(0.03) = 0.02956 */
    (void)rec;
    (void)arg;
    for (int worse = -1; worse <= 1; worse += 2) {
        double x[N] = { 0 }, below[N], above[N];
        for (size_t i = 0; i < N; i++) below[i] = BELOW, above[i] = ABOVE;
        struct kg_confirmation c[] = { { .worse = worse, .flagged = NAN }, { .worse = worse, .flagged = NAN } };
        kg_confirm_compare(x, N, below, N, &c[0]);
        kg_confirm_compare(x, N, above, N, &c[1]);
        kg_confirm_decide(c, KG_COUNT_OF(c), 0.03);
        ck_assert_int_eq(c[0].verdict, KG_CONFIRMED_SMALL);
        ck_assert_int_eq(c[1].verdict, KG_CONFIRMED);
    }
}

/* By kind of noise, of 20 cases whose judged run lies furthest: a run of unchanged ones is red 1 time in 20 (3 standard
 * deviations), a case that is 5% slower is refuted in 1 of 50 at most, and confirmed as often as the kind allows: what
 * a machine does and its canaries show is in nobody's way. */
struct kind_rates {
    size_t kind, fewest; /* of 600 slower ones */
};

static void rates(struct kg_record *rec, const void *arg) {
    const struct kind_rates *of = arg;
    struct kg_simulation s = { .kind = &KG_NOISE[of->kind], .n_trials = 60, .n_cases = 100, .n_baseline = 20 };
    struct kg_simulated_confirm unchanged, slower;
    kg_simulate_confirm(&s, 1, &unchanged);
    s.n_slow = 10;
    s.change = log(1.05);
    kg_simulate_confirm(&s, 2, &slower);
    for (size_t i = 0; i < KG_CONFIRMED_COUNT; i++) {
        kg_record_metric(rec, KG_CONFIRMED_NAMES[i], "ratio", (double)slower.slow[i] / (double)slower.n_slow);
    }
    kg_record_metric(rec, "red_runs", "count", (double)unchanged.n_red);
    ck_assert_uint_eq(unchanged.n_unchanged, 60 * KG_CONFIRM_FLAGGED);
    ck_assert_uint_eq(slower.n_slow, 600);
    ck_assert_uint_le(unchanged.n_red, 8);
    ck_assert_uint_le(slower.slow[KG_REFUTED], 12);
    ck_assert_uint_ge(slower.slow[KG_CONFIRMED], of->fewest);
    ck_assert_uint_le(slower.unchanged[KG_CONFIRMED] * 10, slower.unchanged[KG_CONFIRMED] + slower.slow[KG_CONFIRMED]);
}

#define ROW(name_, row_)                                                                                               \
    { .layer = "unit", .op = "confirm_values", .name = name_, .run = answers, .arg = &row_ }
#define RATES(name_, kind_, fewest_)                                                                                   \
    {                                                                                                                  \
        .layer = "unit", .op = "confirm_values", .name = "rates_" name_, .run = rates,                                 \
        .arg = &(const struct kind_rates) {                                                                            \
            kind_, fewest_                                                                                             \
        }                                                                                                              \
    }
#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "confirm_values", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    ROW("unchanged", UNCHANGED),
    ROW("slower", SLOWER),
    ROW("as_small_as_matters", AS_SMALL_AS_MATTERS),
    ROW("small", SMALL),
    ROW("large_and_noisy", LARGE_AND_NOISY),
    CASE(the_interval_covers_the_change),
    CASE(known_intervals),
    CASE(just_below_the_least_change),
    RATES("normal_2", KG_NOISE_NORMAL_2, 590),
    RATES("correlated_for_long", KG_NOISE_AR_95, 590),
    RATES("common_drift", KG_NOISE_DRIFT, 570),
    RATES("student_2", KG_NOISE_T2, 580),
    RATES("one_sided", KG_NOISE_EXPONENTIAL, 590),
    RATES("mode_of_50_percent", KG_NOISE_MODE_50, 360),
    RATES("uneven_cases", KG_NOISE_UNEVEN, 550),
    RATES("clock", KG_NOISE_CLOCK, 590),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
