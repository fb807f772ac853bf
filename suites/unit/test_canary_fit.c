/* What canaries explain of a figure's history, on histories made of what is to be found. */
#include "base/size.h"
#include "history/canary_fit.h"
#include "suites/harness/case.h"
#include <check.h>
#include <math.h>
#include <string.h>

enum { N_RUNS = 20, MOST_CANARIES = 3 };

/* What changes from run to run: a step, noise of no pattern, and two runs that were disturbed. */
enum shape { NOTHING, STEP, STEPS, NOISE, OTHER_NOISE, DISTURBED, N_SHAPES };

static double value_of(enum shape shape, size_t run) {
    switch (shape) {
    case STEP: return run < N_RUNS / 2 ? 0.1 : 0;
    case STEPS: return run < 7 ? 0 : run < 14 ? 0.1 : 0.04;
    case NOISE: return 0.02 * (fmod(0.618 * (double)(run + 1), 1) - 0.5);
    case OTHER_NOISE: return 0.02 * (fmod(0.414 * (double)(run + 1), 1) - 0.5);
    case DISTURBED: return run == 3 || run == 4 ? 0.02 : 0;
    default: return 0;
    }
}

static const struct row {
    const char *name;
    enum shape canaries[MOST_CANARIES]; /* of the group; NOTHING ends */
    enum shape other;                   /* of another group */
    double follows[N_SHAPES];           /* the figure: 3 and so much of each */
    double left[N_SHAPES];              /* what the canaries do not explain */
    size_t n_known;                     /* runs with a value; 0: all */
} ROWS[] = {
    { "half_of_a_step", { STEP }, NOTHING, { [STEP] = 0.5 }, { 0 }, 0 },
    { "all_of_two_steps", { STEPS }, NOTHING, { [STEPS] = 1 }, { 0 }, 0 },
    { "all_of_a_step", { STEP }, NOTHING, { [STEP] = 1 }, { 0 }, 0 },
    { "not_more_than_the_canary_does", { STEP }, NOTHING, { [STEP] = 2 }, { [STEP] = 1 }, 0 },
    { "never_the_other_way", { STEP }, NOTHING, { [STEP] = -1 }, { [STEP] = -1 }, 0 },
    { "seven_tenths_of_noise", { NOISE }, NOTHING, { [NOISE] = 0.7 }, { 0 }, 0 },
    { "two_disturbed_runs_bend_nothing",
      { NOISE },
      NOTHING,
      { [NOISE] = 0.7, [DISTURBED] = 1 },
      { [DISTURBED] = 1 },
      0 },
    { "other_noise_stays", { NOISE }, NOTHING, { [OTHER_NOISE] = 1 }, { [OTHER_NOISE] = 1 }, 0 },
    { "the_canary_that_tells_most", { OTHER_NOISE, STEP }, NOTHING, { [STEP] = 0.6 }, { 0 }, 0 },
    { "the_mean_of_canaries", { NOISE, OTHER_NOISE }, NOTHING, { [NOISE] = 0.5, [OTHER_NOISE] = 0.5 }, { 0 }, 0 },
    { "other_groups_say_nothing", { OTHER_NOISE }, STEP, { [STEP] = 1 }, { [STEP] = 1 }, 0 },
    { "no_canary", { NOTHING }, STEP, { [STEP] = 1 }, { [STEP] = 1 }, 0 },
    { "eight_runs_tell", { NOISE }, NOTHING, { [NOISE] = 1 }, { 0 }, 8 },
    { "seven_runs_do_not", { NOISE }, NOTHING, { [NOISE] = 1 }, { [NOISE] = 1 }, 7 },
};

static double sum_of(const double parts[N_SHAPES], size_t run) {
    double sum = 3;
    for (size_t shape = 0; shape < N_SHAPES; shape++) sum += parts[shape] * value_of((enum shape)shape, run);
    return sum;
}

/* Up to a constant: where a canary's middle lies says nothing of the figure. Canaries have noise of
 * 0.0001, which stays within 0.001. */
static void explains(struct kg_record *rec, const void *arg) {
    const struct row *row = arg;
    double by_run[MOST_CANARIES + 1][N_RUNS], figure[N_RUNS], constant = NAN;
    struct kg_series canaries[MOST_CANARIES + 1];
    struct kg_canary_fit fit;
    size_t n = 0;
    (void)rec;
    for (size_t i = 0; i <= MOST_CANARIES; i++) {
        const enum shape shape = i < MOST_CANARIES ? row->canaries[i] : row->other;
        if (shape == NOTHING) continue;
        for (size_t run = 0; run < N_RUNS; run++) by_run[n][run] = value_of(shape, run) + (run % 3 ? 1e-4 : -1e-4);
        if (shape == STEP) by_run[n][5] = NAN; /* the level is that of the run before */
        canaries[n] = (struct kg_series){ .group = i < MOST_CANARIES ? "cuda" : "cpu", .by_run = by_run[n] };
        n++;
    }
    for (size_t run = 0; run < N_RUNS; run++)
        figure[run] = row->n_known && run >= row->n_known ? NAN : sum_of(row->follows, run);
    kg_canary_fit_open(&fit, canaries, n, "cuda", N_RUNS, log(1.03));
    kg_canary_fit_take_off(&fit, figure);
    kg_canary_fit_close(&fit);
    for (size_t run = 0; run < N_RUNS; run++) {
        ck_assert_int_eq(isnan(figure[run]), row->n_known && run >= row->n_known);
        if (isnan(figure[run])) continue;
        const double rest = figure[run] - sum_of(row->left, run);
        if (isnan(constant)) constant = rest;
        ck_assert_msg(fabs(rest - constant) < 1e-3, "run %zu: %g, %g of run 0", run, rest, constant);
    }
    ck_assert_double_lt(fabs(constant), 0.06); /* half of the step at most */
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        kg_case_list_add(
            list, &(struct kg_case){
                      .layer = "unit", .op = "canary_fit", .name = ROWS[i].name, .run = explains, .arg = &ROWS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
