/* How often regress cries wolf, by kind of noise: what `make check-statistics` measures, with fewer cases and runs. */
#include "base/size.h"
#include "history/noisy.h"
#include "suites/harness/case.h"
#include "suites/unit/simulation.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

enum { N_TRIALS = 40, N_CASES = 200 };

/* At most 1 false alarm in 1000 comparisons, and 1 red run in 20: 5 of 40 are within the scatter of that (2%). */
static void unchanged(struct kg_record *rec, const void *arg) {
    const struct kg_simulation s = { .kind = arg, .n_trials = N_TRIALS, .n_cases = N_CASES, .n_baseline = 20 };
    struct kg_simulated out;
    kg_simulate(&s, 1, &out);
    kg_record_metric(rec, "false_alarms_per_1000", "ratio", 1000.0 * (double)out.n_false / (double)out.n_comparisons);
    kg_record_metric(rec, "red_runs", "count", (double)out.n_red);
    kg_record_metric(rec, "runs_in_doubt", "count", (double)out.n_doubtful);
    ck_assert_uint_le(out.n_false, N_TRIALS * N_CASES / 1000);
    ck_assert_uint_le(out.n_red, 5);
    ck_assert_uint_le(out.n_red + out.n_doubtful, N_TRIALS / 2);
}

/* Few runs are no excuse. */
static void few_runs(struct kg_record *rec, const void *arg) {
    static const size_t RUNS[] = { 5, 8, 12 };
    static const enum kg_noise KINDS[] = { KG_NOISE_NORMAL, KG_NOISE_T3, KG_NOISE_EXPONENTIAL, KG_NOISE_MODE_15 };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(KINDS) * KG_COUNT_OF(RUNS); i++) {
        const struct kg_simulation s = { .kind = &KG_NOISE[KINDS[i / KG_COUNT_OF(RUNS)]],
                                         .n_trials = N_TRIALS,
                                         .n_cases = N_CASES,
                                         .n_baseline = RUNS[i % KG_COUNT_OF(RUNS)] };
        struct kg_simulated out;
        kg_simulate(&s, 2, &out);
        kg_record_metric(rec, s.kind->name, "count", (double)out.n_red);
        ck_assert_uint_le(out.n_false, N_TRIALS * N_CASES / 1000);
        ck_assert_msg(out.n_red <= 5, "%s, %zu runs: %zu red", s.kind->name, s.n_baseline, out.n_red);
    }
}

/* Of a twentieth of the cases, and of all cases: what one run is enough to find. */
static void slow_downs_are_found(struct kg_record *rec, const void *arg) {
    struct kg_simulation s = { .kind = &KG_NOISE[KG_NOISE_NORMAL],
                               .n_trials = 20,
                               .n_cases = N_CASES,
                               .n_baseline = 20,
                               .n_slow = N_CASES / 20,
                               .change = log(1.08) };
    struct kg_simulated some, all;
    (void)arg;
    kg_simulate(&s, 3, &some);
    s.n_slow = N_CASES;
    kg_simulate(&s, 4, &all);
    kg_record_metric(rec, "found", "ratio", (double)some.n_found / (double)some.n_slow);
    kg_record_metric(rec, "all_found", "ratio", (double)all.n_common / (double)all.n_trials);
    ck_assert_double_ge((double)some.n_found, 0.95 * (double)some.n_slow);
    ck_assert_uint_eq(all.n_common, all.n_trials);
}

#define KIND(name_, kind)                                                                                              \
    { .layer = "unit", .op = "false_alarms", .name = name_, .run = unchanged, .arg = &KG_NOISE[kind] }
#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "false_alarms", .name = #function, .run = function }

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
    CASE(few_runs),
    CASE(slow_downs_are_found),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
