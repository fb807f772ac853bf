/* What is the machine's doing and what is the program's, on made histories: 300 cases of 1% noise, canaries of 1%. */
#include "base/size.h"
#include "history/drift.h"
#include "suites/harness/case.h"
#include "suites/unit/noise_kinds.h"
#include <check.h>
#include <math.h>

enum { N_FIGURES = 300, N_BASELINE = 20, N_LONG = 40 };

/* What the program did up to each run: the first `share` of the cases by `program(run)`; the machine, `machine(run)`.
 * Run 0 is the newest. */
struct row {
    size_t n_runs;
    double share;
    double (*program)(size_t run), (*machine)(size_t run);
    bool worse, better;
};

static double nothing(size_t run) {
    (void)run;
    return 0;
}
static double machine_is_slow(size_t run) {
    return run == 0 ? log(1.06) : 0;
}
static double judged_run_is_slow(size_t run) {
    return run == 0 ? log(1.05) : 0;
}
static double judged_run_is_fast(size_t run) {
    return -judged_run_is_slow(run);
}
static double slow_twice(size_t run) {
    return run == 0 ? log(1.21) : run <= 10 ? log(1.1) : 0;
}
static double slow_since_five(size_t run) {
    return run < 5 ? log(1.1) : 0;
}
static double creep(size_t run) {
    return log(1.005) * (double)(N_BASELINE - run);
}
static double step_in_the_middle(size_t run) {
    return run < N_LONG / 2 ? log(1.1) : 0;
}

static const struct row ROWS[] = {
    { 1 + N_BASELINE, 1, nothing, nothing, false, false },
    { 1 + N_BASELINE, 1, nothing, machine_is_slow, false, false },
    { 1 + N_BASELINE, 1, judged_run_is_slow, nothing, true, false },
    { 1 + N_BASELINE, 1, judged_run_is_slow, machine_is_slow, true, false },
    { 1 + N_BASELINE, 1, judged_run_is_fast, nothing, false, true },
    { 1 + N_BASELINE, 0.3, judged_run_is_slow, nothing, false, false },
    { 1 + N_BASELINE, 1, slow_twice, nothing, true, false },
    { 1 + N_BASELINE, 1, slow_since_five, nothing, true, false },
    { 1 + N_BASELINE, 1, creep, nothing, true, false },
};

static void make(const struct row *row, struct kg_made_times *times) {
    struct kg_rng rng;
    kg_rng_init(&rng, 21, 0);
    kg_made_times_open(times, N_FIGURES, row->n_runs);
    kg_made_times_fill(times, &KG_NOISE[KG_NOISE_NORMAL], &rng);
    for (size_t run = 0; run < row->n_runs; run++) {
        for (size_t i = 0; i < N_FIGURES; i++)
            times->figures[i].by_run[run] +=
                row->machine(run) + ((double)i < row->share * N_FIGURES ? row->program(run) : 0);
        for (size_t i = 0; i < KG_MADE_CANARIES; i++) times->canaries[i].by_run[run] += row->machine(run);
    }
}

static struct kg_drift *drift_of(const struct kg_made_times *times, size_t n_figures, size_t n_canaries) {
    struct kg_drift *drifts;
    size_t n_drifts;
    kg_drift_find(times->figures, n_figures, times->canaries, n_canaries, times->n_runs, log1p(0.03), &drifts,
                  &n_drifts);
    ck_assert_uint_eq(n_drifts, 1);
    return drifts;
}

/* All cases together are one event, judged by what the canaries do not explain. */
static void one_event(struct kg_record *rec, const void *arg) {
    const struct row *row = arg;
    struct kg_made_times times;
    make(row, &times);
    struct kg_drift *d = drift_of(&times, N_FIGURES, KG_MADE_CANARIES);
    kg_record_metric(rec, "z", "ratio", d->z);
    ck_assert_int_eq(d->worse, row->worse);
    ck_assert_int_eq(d->better, row->better);
    ck_assert(!d->unexplained);
    kg_drifts_free(d, 1);
    kg_made_times_close(&times);
}

/* Each run's drift is found to a fraction of the canaries' noise. */
static void drift_is_found(struct kg_record *rec, const void *arg) {
    struct kg_made_times times;
    double worst = 0;
    (void)arg;
    make(&ROWS[1], &times);
    struct kg_drift *d = drift_of(&times, N_FIGURES, KG_MADE_CANARIES);
    for (size_t run = 1; run < times.n_runs; run++)
        worst = fmax(worst, fabs(d->by_run[0] - d->by_run[run] - machine_is_slow(0)));
    kg_record_metric(rec, "worst", "ratio", worst);
    ck_assert_double_le(worst, 0.006);
    kg_drifts_free(d, 1);
    d = drift_of(&times, N_FIGURES, 0);
    ck_assert(d->unexplained);
    ck_assert(!d->worse);
    kg_drifts_free(d, 1);
    kg_made_times_close(&times);
}

/* Too few figures to have a common shift: what the canaries say is taken off. */
static void few_figures_follow_the_canary(struct kg_record *rec, const void *arg) {
    struct kg_made_times times;
    (void)rec;
    (void)arg;
    make(&ROWS[1], &times);
    struct kg_drift *d = drift_of(&times, 9, KG_MADE_CANARIES);
    ck_assert_double_eq(d->by_run[0], d->canary);
    ck_assert_double_eq_tol(d->by_run[0], machine_is_slow(0), 0.03);
    kg_drifts_free(d, 1);
    kg_made_times_close(&times);
}

/* A step of all cases, or of most, that no canary explains stays in the figures, so that `steps` finds it. */
static void a_step_is_no_drift(struct kg_record *rec, const void *arg) {
    static const double SHARES[] = { 1, 0.6 };
    (void)arg;
    for (size_t k = 0; k < KG_COUNT_OF(SHARES); k++) {
        const struct row row = { N_LONG, SHARES[k], step_in_the_middle, nothing, false, false };
        struct kg_made_times times;
        double slow = 0, fast = 0;
        make(&row, &times);
        struct kg_drift *d = drift_of(&times, N_FIGURES, KG_MADE_CANARIES);
        for (size_t run = 1; run < N_LONG; run++)
            *(run < N_LONG / 2 ? &slow : &fast) += d->by_run[run] / (N_LONG / 2.0);
        kg_record_metric(rec, "step_taken_for_drift", "ratio", slow - fast);
        ck_assert_double_le(fabs(slow - fast), 0.01);
        kg_drifts_free(d, 1);
        kg_made_times_close(&times);
    }
}

/* Half a percent a run is seen beside a spread of 2.5%, and not beside twice as much. */
static void a_creep_stands_out_of_noise(struct kg_record *rec, const void *arg) {
    enum { N_RUNS = 1 + N_BASELINE, N_SERIES = 12 };
    static const int NOISE[] = { 0, 3, -1, 1, -3, 2, -2 };
    static const struct {
        double range;
        bool crept;
    } ROWS_OF_RANGE[] = { { 0.025, true }, { 0.05, false } };
    (void)rec;
    (void)arg;
    for (size_t k = 0; k < KG_COUNT_OF(ROWS_OF_RANGE); k++) {
        double by_run[N_RUNS], flat[N_RUNS] = { 0 };
        struct kg_series figures[N_SERIES];
        const struct kg_series canary = { "cpu", flat };
        struct kg_drift *d;
        size_t n;
        for (size_t run = 0; run < N_RUNS; run++)
            by_run[run] = ROWS_OF_RANGE[k].range / 6 * NOISE[run % KG_COUNT_OF(NOISE)] - 0.005 * (double)run;
        for (size_t i = 0; i < N_SERIES; i++) figures[i] = (struct kg_series){ "cpu", by_run };
        kg_drift_find(figures, N_SERIES, &canary, 1, N_RUNS, log1p(0.03), &d, &n);
        ck_assert_uint_eq(n, 1);
        ck_assert_int_eq(d->crept, ROWS_OF_RANGE[k].crept);
        ck_assert_int_eq(d->worse, ROWS_OF_RANGE[k].crept);
        kg_drifts_free(d, n);
    }
}

#define ONE(name_, row_)                                                                                               \
    { .layer = "unit", .op = "drift", .name = name_, .run = one_event, .arg = &ROWS[row_] }
#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "drift", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    ONE("nothing_changed", 0),
    ONE("machine_is_slow", 1),
    ONE("program_is_slow", 2),
    ONE("both_are_slow", 3),
    ONE("program_is_fast", 4),
    ONE("a_third_is_slow", 5),
    ONE("slow_twice", 6),
    ONE("slow_since_five_runs", 7),
    ONE("creep", 8),
    CASE(drift_is_found),
    CASE(few_figures_follow_the_canary),
    CASE(a_step_is_no_drift),
    CASE(a_creep_stands_out_of_noise),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
