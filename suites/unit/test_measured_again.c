/* Suspects measured again: how often that cries wolf, by kind of noise, and what it finds; what `make
 * check-statistics` measures, with fewer cases and runs. */
#include "base/rng.h"
#include "base/size.h"
#include "history/drift.h"
#include "history/noisy_again.h"
#include "suites/harness/case.h"
#include "suites/unit/other_rules.h"
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

/* The same noise, judged by others: kigo flags less than either, and finds what Otava finds. */
static void beside_other_rules(struct kg_record *rec, const void *arg) {
    static const enum kg_noise KINDS[] = { KG_NOISE_NORMAL, KG_NOISE_T3, KG_NOISE_MODE_15, KG_NOISE_AR_95,
                                           KG_NOISE_DRIFT };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(KINDS); i++) {
        const struct kg_noise_kind *kind = &KG_NOISE[KINDS[i]];
        const struct kg_simulation s = {
            .kind = kind, .n_trials = 4, .n_cases = N_CASES, .n_baseline = 20, .again = true
        };
        struct kg_simulated own;
        struct kg_other_rates nvbench, otava;
        kg_simulate(&s, 3, &own);
        kg_other_rules_simulate(kind, 1000, log(1.05), 3, &nvbench, &otava);
        kg_record_metric(rec, "kigo", "ratio", (double)own.n_false / (double)own.n_comparisons);
        kg_record_metric(rec, "nvbench_compare", "ratio", (double)nvbench.n_false / (double)nvbench.n);
        kg_record_metric(rec, "otava", "ratio", (double)otava.n_false / (double)otava.n);
        ck_assert_uint_eq(nvbench.n, 1000);
        if (i == 0) ck_assert_uint_ge(nvbench.n_false, 100); /* a tenth: its rule has no noise of runs */
        ck_assert_double_le((double)own.n_false * (double)nvbench.n,
                            (double)nvbench.n_false * (double)own.n_comparisons);
        ck_assert_double_le((double)own.n_false * (double)otava.n, (double)otava.n_false * (double)own.n_comparisons);
        ck_assert_uint_ge(nvbench.n_found, nvbench.n_false);
        ck_assert_uint_ge(otava.n_found, otava.n_false);
    }
}

/* By hand: no step, a step up, a step down. */
static void other_rules_by_hand(struct kg_record *rec, const void *arg) {
    double level[12], up[12], down[12];
    (void)rec;
    (void)arg;
    for (int i = 0; i < 12; i++) {
        level[i] = i % 2 ? 0.01 : -0.01;
        up[i] = level[i] + (i < 8 ? 0 : 0.1);
        down[i] = level[i] - (i < 8 ? 0 : 0.1);
    }
    ck_assert(!kg_otava_finds_slower(level, 12));
    ck_assert(kg_otava_finds_slower(up, 12));
    ck_assert(!kg_otava_finds_slower(down, 12));
    ck_assert(kg_nvbench_is_slower(0, log(1.02), 0.019));
    ck_assert(!kg_nvbench_is_slower(0, log(1.02), 0.021));
    ck_assert(!kg_nvbench_is_slower(0, log(0.9), 0.01));
}

/* What Apache Otava 0.8.0 itself answers (compute_change_points with its usual options: whether a change goes up) to 64
 * series of each kind (`simulate series 64` prints them), the first one's in the lowest bit: unchanged, and 5% slower.
 */
static const uint64_t OTAVA[KG_NOISE_KINDS][2] = {
    { 0x0000000000000000u, 0xfffdffffffffffffu }, { 0x0000000000000000u, 0x77ff7ffef9ffffffu },
    { 0x31c214200480c000u, 0xffffffffffffffffu }, { 0x85b990b0250c222eu, 0xffffffffffffffffu },
    { 0x0000000000000000u, 0x0000000000000000u }, { 0x0000000000000000u, 0xffffffffffffffffu },
    { 0x0000100800008000u, 0x7dfffffffffffbffu }, { 0x0000000900000000u, 0x7faffffd777fee7cu },
    { 0x0000100000000000u, 0xfffbfdffffffbfffu }, { 0x0400100000000082u, 0xdf7bf76feffff3feu },
    { 0x0000000000000000u, 0xfffffffffff7ffffu }, { 0x0000000000100000u, 0xff59fbfc8d6b66dbu },
    { 0x0040000040000000u, 0x407e32887b334d50u }, { 0x0000000000000000u, 0xfffffeffffeffffeu },
    { 0x0000000000008000u, 0xffffffffffffffffu }, { 0x0000000000000000u, 0xbfffffff7fffffffu },
};

static void as_otava_itself(struct kg_record *rec, const void *arg) {
    enum { N_SERIES = 64 };
    struct kg_made_times times;
    (void)rec;
    (void)arg;
    kg_made_times_open(&times, N_SERIES, KG_OTHER_RUNS);
    for (size_t kind = 0; kind < KG_NOISE_KINDS; kind++) {
        struct kg_rng rng;
        kg_rng_init(&rng, 7, kind);
        kg_made_times_fill(&times, &KG_NOISE[kind], &rng);
        for (size_t i = 0; i < 2 * N_SERIES; i++) {
            double values[KG_OTHER_RUNS];
            kg_other_series(&times, i / 2, i % 2 ? log(1.05) : 0, values);
            ck_assert_msg(kg_otava_finds_slower(values, KG_OTHER_RUNS) == (OTAVA[kind][i % 2] >> i / 2 & 1),
                          "%s, series %zu, %s", KG_NOISE[kind].name, i / 2, i % 2 ? "slower" : "unchanged");
        }
    }
    kg_made_times_close(&times);
}

/* A machine that has time for so many pairs of runs; the judged build is slower by so much. */
struct fresh {
    struct kg_rng rng;
    size_t n_left;
    double slower;
};

static enum kg_status run_fresh(void *context, int build, const size_t *open, size_t n_open, double *values,
                                double *machine, struct kg_error *err) {
    struct fresh *fresh = context;
    (void)open;
    (void)err;
    for (size_t i = 0; i < n_open; i++) values[i] = build * fresh->slower + 1e-3 * kg_rng_normal(&fresh->rng);
    *machine = NAN;
    return KG_OK;
}

static bool has_time_left(void *context, size_t n_open) {
    struct fresh *fresh = context;
    (void)n_open;
    return fresh->n_left > 0 && fresh->n_left-- > 0;
}

/* What fresh runs say of a figure and of what a back end's figures share takes the place of what the screen said. */
static void verdicts_of_fresh_runs(struct kg_record *rec, const void *arg) {
    static const struct {
        size_t n_left;
        double slower;
        enum kg_screen_verdict verdict;
        bool worse, undecided;
    } ROWS[] = { { 0, 0, KG_SCREEN_SUSPECT, false, true },
                 { 20, 0.5, KG_SCREEN_WORSE, true, false },
                 { 20, -0.5, KG_SCREEN_SAME, false, false } };
    static const size_t FIGURE = 0;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        struct fresh fresh = { .n_left = ROWS[i].n_left, .slower = ROWS[i].slower };
        const struct kg_again_source source = { &fresh, run_fresh, has_time_left };
        struct kg_screen_figure figure = { .verdict = KG_SCREEN_WORSE };
        struct kg_drift drift = { .worse = !ROWS[i].worse, .undecided = !ROWS[i].undecided, .unexplained = true };
        struct kg_noisy noisy = { .figures = &figure, .drifts = &drift, .n_drifts = 1 };
        struct kg_again_item items[] = {
            { .figures = &FIGURE, .n_figures = 1, .flagged = true, .found = { .flagged = 0.5, .worse = 1 } },
            { .figures = &FIGURE, .n_figures = 1, .flagged = true, .found = { .flagged = 0.5, .worse = 1 } }
        };
        struct kg_noisy_again again = { .items = items, .n_items = 2, .n_of_figures = 1, .places = (size_t[]){ 0, 0 } };
        const struct kg_noisy_runs runs = { .n_figures = 1, .least_change = 0.03 };
        struct kg_error err;
        kg_rng_init(&fresh.rng, kg_record_seed(rec), i);
        ck_assert_msg(kg_noisy_decide(&runs, &noisy, &again, &source, &err) == KG_OK, "%s", err.message);
        ck_assert_int_eq(figure.verdict, ROWS[i].verdict);
        ck_assert_int_eq(drift.worse, ROWS[i].worse);
        ck_assert_int_eq(drift.undecided, ROWS[i].undecided);
        ck_assert(!drift.unexplained);
    }
}

/* Figure 0 of the judged build is slower by a change that may become another, in values spread over 2.3 of the least
 * change; figure 1 never changes. */
struct drawn_out {
    double slower, slower_then; /* in least changes */
    size_t n_first;             /* runs before the second */
    size_t n_runs[2];
};

static enum kg_status run_drawn_out(void *context, int build, const size_t *open, size_t n_open, double *values,
                                    double *machine, struct kg_error *err) {
    struct drawn_out *d = context;
    const size_t run = d->n_runs[build]++;
    const double slower = run < d->n_first ? d->slower : d->slower_then;
    (void)err;
    for (size_t i = 0; i < n_open; i++)
        values[i] = open[i] ? 0 : log1p(0.03) * (2.3 * fmod(0.618 * (double)run, 1) + build * slower);
    *machine = NAN;
    return KG_OK;
}

static bool has_time(void *context, size_t n_open) {
    (void)context;
    (void)n_open;
    return true;
}

/* A change too small for its look is dropped there, the item measured no further. One of the least change itself is
 * measured to the end, where it is neither confirmed among a thousand items nor likely to be chance. */
static void small_changes_are_dropped(struct kg_record *rec, const void *arg) {
    enum { N_ITEMS = 1000 };
    static const struct {
        struct drawn_out d;
        size_t n_runs;
        enum kg_confirmed verdict;
    } ROWS[] = {
        { { -0.1, -0.1, 0, { 0, 0 } }, 2, KG_REFUTED },  { { 0.3, 0.3, 0, { 0, 0 } }, 4, KG_REFUTED },
        { { 0.4, 0.4, 0, { 0, 0 } }, 8, KG_REFUTED },    { { 0.7, -0.5, 8, { 0, 0 } }, 12, KG_REFUTED },
        { { 0.7, -0.5, 12, { 0, 0 } }, 16, KG_REFUTED }, { { 1, 1, 0, { 0, 0 } }, 20, KG_UNDECIDED },
    };
    static const size_t FIGURES[] = { 0, 1 };
    static struct kg_again_item items[N_ITEMS];
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        struct drawn_out d = ROWS[i].d;
        const struct kg_again_source source = { &d, run_drawn_out, has_time };
        struct kg_error err;
        for (size_t k = 0; k < N_ITEMS; k++)
            items[k] = (struct kg_again_item){ .figures = &FIGURES[k > 0],
                                               .n_figures = 1,
                                               .found = { .flagged = NAN, .worse = 1 } };
        ck_assert_int_eq(kg_again_measure(&source, 2, 0.03, items, N_ITEMS, &err), KG_OK);
        ck_assert_msg(items[0].found.verdict == ROWS[i].verdict && items[1].found.verdict == KG_REFUTED,
                      "row %zu: %d, p %g", i, (int)items[0].found.verdict, items[0].found.p);
        for (int build = 0; build < 2; build++)
            ck_assert_msg(d.n_runs[build] == (ROWS[i].n_runs < 4 ? 4 : ROWS[i].n_runs), "row %zu: %zu runs", i,
                          d.n_runs[build]);
        ck_assert_uint_eq(items[0].found.n_before, ROWS[i].n_runs);
    }
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "measured_again", .name = #function, .run = function }
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
    CASE(verdicts_of_fresh_runs),
    CASE(small_changes_are_dropped),
    CASE(beside_other_rules),
    CASE(other_rules_by_hand),
    CASE(as_otava_itself),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
