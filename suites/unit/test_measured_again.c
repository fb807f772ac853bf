/* Suspects measured again: how often that cries wolf, by kind of noise, and what it finds; what `make
 * check-statistics` measures, with fewer cases and runs. */
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/unit/simulation.h"
#include <check.h>
#include <math.h>

enum { N_CASES = 120 };

static void record(struct kg_record *rec, const struct kg_simulated *out) {
    kg_record_metric(rec, "false_alarms", "count", (double)out->n_false);
    kg_record_metric(rec, "runs_in_doubt", "count", (double)out->n_doubtful);
    kg_record_metric(rec, "found", "ratio", (double)out->n_found / (double)(out->n_slow ? out->n_slow : 1));
    kg_record_metric(rec, "measured_cases", "count", (double)out->n_measured);
}

/* 1 red run in 20 at most: 3 of 12 are within the scatter of that (2%). Nor is an unchanged program often in doubt. */
static void unchanged(struct kg_record *rec, const void *arg) {
    const struct kg_simulation s = { .kind = arg, .n_trials = 12, .n_cases = N_CASES, .n_baseline = 20, .again = true };
    struct kg_simulated out;
    kg_simulate(&s, 1, &out);
    record(rec, &out);
    ck_assert_uint_le(out.n_red, 3);
    ck_assert_uint_le(out.n_false, 3);
    ck_assert_uint_le(out.n_doubtful, 4);
}

struct power {
    enum kg_noise kind;
    double change, canary_sigma, least;
    bool all;
};
static const struct power FIVE_AT_TWO = { KG_NOISE_NORMAL_2, 0.05, 0, 0.95, false };
static const struct power THREE_AT_ONE = { KG_NOISE_NORMAL, 0.03, 0, 0.9, false };
static const struct power FIVE_OF_ALL = { KG_NOISE_NORMAL, 0.05, 0.02, 0.99, true };
static const struct power FIVE_IN_TAILS = { KG_NOISE_T3, 0.05, 0, 0.9, false };
static const struct power FIVE_IN_DRIFT = { KG_NOISE_DRIFT, 0.05, 0, 0.9, false };

/* Two standard deviations below the share that is promised. */
static void found(struct kg_record *rec, const void *arg) {
    const struct power *p = arg;
    const struct kg_simulation s = { .kind = &KG_NOISE[p->kind],
                                     .n_trials = 30,
                                     .n_cases = N_CASES,
                                     .n_baseline = 20,
                                     .n_slow = p->all ? N_CASES : N_CASES / 10,
                                     .change = log1p(p->change),
                                     .canary_sigma = p->canary_sigma,
                                     .again = true };
    struct kg_simulated out;
    kg_simulate(&s, 2, &out);
    record(rec, &out);
    const double n = (double)(p->all ? out.n_trials : out.n_slow), n_found = (double)(p->all ? out.n_red : out.n_found);
    kg_record_metric(rec, "share", "ratio", n_found / n);
    ck_assert_double_ge(n_found, p->least * n - 2 * sqrt(n * p->least * (1 - p->least)));
}

#define KIND(name_, kind)                                                                                              \
    { .layer = "unit", .op = "measured_again", .name = name_, .run = unchanged, .arg = &KG_NOISE[kind] }
#define POWER(name_, power)                                                                                            \
    { .layer = "unit", .op = "measured_again", .name = name_, .run = found, .arg = &power }

static const struct kg_case CASES[] = {
    KIND("normal", KG_NOISE_NORMAL),
    KIND("normal_2", KG_NOISE_NORMAL_2),
    KIND("correlated", KG_NOISE_AR_5),
    KIND("correlated_for_long", KG_NOISE_AR_95),
    KIND("common_drift", KG_NOISE_DRIFT),
    KIND("student_5", KG_NOISE_T5),
    KIND("student_3", KG_NOISE_T3),
    KIND("student_2", KG_NOISE_T2),
    KIND("one_sided", KG_NOISE_EXPONENTIAL),
    KIND("outliers", KG_NOISE_OUTLIERS),
    KIND("rare_outliers", KG_NOISE_RARE_OUTLIERS),
    KIND("mode_of_15_percent", KG_NOISE_MODE_15),
    KIND("mode_of_50_percent", KG_NOISE_MODE_50),
    KIND("uneven_cases", KG_NOISE_UNEVEN),
    KIND("loud_runs", KG_NOISE_LOUD_RUNS),
    KIND("clock", KG_NOISE_CLOCK),
    POWER("five_percent_at_two", FIVE_AT_TWO),
    POWER("three_percent_at_one", THREE_AT_ONE),
    POWER("five_percent_of_all", FIVE_OF_ALL),
    POWER("five_percent_in_tails", FIVE_IN_TAILS),
    POWER("five_percent_in_drift", FIVE_IN_DRIFT),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
