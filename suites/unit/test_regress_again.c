/* What regress does over several runs: slow cases that stay slow, merged branches, suspects measured again. */
#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"
#include "history/annotation.h"
#include "history/confirm.h"
#include "history/noisy_again.h"
#include "history/selfcheck.h"
#include "suites/harness/must.h"
#include "suites/support/asked_history.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CASES = 40, N_BASELINE = 20, VICTIM = 3, N_COMMITS = 45 };

struct story {
    struct kg_rng rng;
    double victim; /* a factor on its time */
};

static void fill(void *arg, size_t i, struct kg_made_case *c) {
    struct story *story = arg;
    c->time_ns *= exp(0.01 * kg_rng_normal(&story->rng)) * (i == VICTIM ? story->victim : 1);
}

static struct kg_made_run run_of(struct story *story) {
    return (struct kg_made_run){ .n_cases = N_CASES, .canary = 1, .fill = fill, .arg = story };
}

static void open_lab(struct kg_history_lab *lab, const struct kg_record *rec, struct story *story) {
    kg_history_lab_open_in(lab, kg_scratch_dir(rec), N_COMMITS);
    *story = (struct story){ .victim = 1 };
    kg_rng_init(&story->rng, 79, 0);
    kg_history_lab_runs(lab, 0, N_BASELINE, run_of(story));
}

static const struct kg_judgement *of_victim(const struct kg_regression *r) {
    for (size_t i = 0; i < r->n_judgements; i++)
        if (strcmp(r->judgements[i].key, kg_made_case_key(VICTIM)) == 0) return &r->judgements[i];
    return NULL;
}

/* It joins its own baseline, and stays red for as long as five of the runs before are there. */
static void a_slow_case_stays_red(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    struct story story;
    struct kg_error err;
    (void)arg;
    open_lab(&lab, rec, &story);
    story.victim = 1.1;
    for (size_t run = 0; run < 16; run++) {
        kg_history_lab_runs(&lab, N_BASELINE + run, 1, run_of(&story));
        kg_history_lab_regress(&lab, NULL, NULL, &r);
        ck_assert_msg(r.exit_code == KG_EXIT_FAILED, "run %zu: exit code %d", run, r.exit_code);
        ck_assert_uint_eq(r.counts[KG_JUDGED_WORSE], 1);
        ck_assert_ptr_nonnull(of_victim(&r));
        ck_assert_double_eq_tol(of_victim(&r)->change, 0.1, 0.03);
        ck_assert_uint_eq(r.build_against, run); /* the newest run that is not slow */
        if (run < 15) kg_regression_free(&r);
    }
    struct kg_annotation accept = { .kind = "accept",
                                    .bundle_id = r.run.bundle_id,
                                    .case_key = "bench/linear/case_3[*",
                                    .utc_us = lab.clock_us,
                                    .author = "lab",
                                    .text = "meant" };
    kg_must(kg_annotation_add(lab.root, &accept, NULL, NULL, &err), &err);
    kg_regression_free(&r);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_OK);
    kg_regression_free(&r);
    kg_history_lab_runs(&lab, N_BASELINE + 16, 1, run_of(&story));
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_OK);
    kg_regression_free(&r);
    kg_history_lab_close(&lab);
}

/* Runs of a slow branch lie among those of the line that it is merged into. */
static void a_merge_hides_nothing(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    struct story slow = { .victim = 1.1 }, usual;
    (void)arg;
    open_lab(&lab, rec, &usual);
    kg_rng_init(&slow.rng, 80, 0);
    for (size_t i = 0; i < 8; i++) {
        struct kg_made_run side = run_of(&slow);
        side.commit = lab.side;
        free(kg_history_lab_run(&lab, side));
        kg_history_lab_runs(&lab, N_BASELINE + i, 1, run_of(&usual));
    }
    struct kg_made_run merge = run_of(&slow);
    merge.commit = lab.merge;
    free(kg_history_lab_run(&lab, merge));
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_FAILED);
    ck_assert_ptr_nonnull(of_victim(&r));
    kg_regression_free(&r);
    kg_history_lab_close(&lab);
}

/* A machine with two builds of which the judged one's victim is slower by `change`. */
struct machine {
    struct kg_rng rng;
    double change, sigma;
    size_t n_runs, most_runs;
    char baseline[64];
    bool fails;
};

static enum kg_status open_machine(void *context, const char *root, const struct kg_run_head *run,
                                   const struct kg_run_head *baseline, struct kg_error *err) {
    struct machine *machine = context;
    (void)root;
    (void)run;
    snprintf(machine->baseline, sizeof machine->baseline, "%s", baseline->commit);
    return machine->fails ? kg_fail(err, KG_ERR_NOT_FOUND, "no compiler here") : KG_OK;
}

static enum kg_status measure(void *context, int build, const struct kg_confirmation *const *figures, size_t n_figures,
                              double *values, double *speed, struct kg_error *err) {
    struct machine *machine = context;
    (void)err;
    for (size_t i = 0; i < n_figures; i++) {
        const bool slow = build == 1 && strcmp(figures[i]->key, kg_made_case_key(VICTIM)) == 0;
        values[i] = 9 + machine->sigma * kg_rng_normal(&machine->rng) + (slow ? log1p(machine->change) : 0);
    }
    *speed = 0.01 * kg_rng_normal(&machine->rng);
    machine->n_runs++;
    return KG_OK;
}

static bool has_time(void *context, size_t n_open) {
    const struct machine *machine = context;
    (void)n_open;
    return machine->n_runs + 2 <= machine->most_runs;
}

struct row {
    double flagged, change, sigma;
    size_t most_runs;
    bool fails;
    int exit_code;
    enum kg_judged judged; /* of the victim; COUNT: nothing */
};

static const struct row CONFIRMED = { 0.08, 0.08, 0.01, 40, false, KG_EXIT_FAILED, KG_JUDGED_WORSE };
static const struct row REFUTED = { 0.08, 0, 0.01, 40, false, KG_EXIT_OK, KG_JUDGED_COUNT };
static const struct row ONLY_SUSPECT = { 0.02, 0.05, 0.01, 40, false, KG_EXIT_FAILED, KG_JUDGED_WORSE };
static const struct row TOO_NOISY = { 0.08, 0.08, 0.2, 40, false, KG_EXIT_INCONCLUSIVE, KG_JUDGED_INCONCLUSIVE };
static const struct row NO_TIME = { 0.08, 0.08, 0.01, 6, false, KG_EXIT_INCONCLUSIVE, KG_JUDGED_INCONCLUSIVE };
static const struct row CANNOT = { 0.08, 0.08, 0.01, 40, true, KG_EXIT_FAILED, KG_JUDGED_WORSE };

static void measured_again(struct kg_record *rec, const void *arg) {
    const struct row *row = arg;
    struct kg_history_lab lab;
    struct kg_regression r;
    struct story story;
    struct machine machine = { .change = row->change, .sigma = row->sigma, .most_runs = row->most_runs };
    const struct kg_regress_again again = { &machine, open_machine, measure, has_time, INFINITY };
    machine.fails = row->fails;
    kg_rng_init(&machine.rng, 81, 0);
    open_lab(&lab, rec, &story);
    story.victim = 1 + row->flagged;
    kg_history_lab_runs(&lab, N_BASELINE, 1, run_of(&story));
    kg_history_lab_regress_again(&lab, NULL, NULL, &again, &r);
    const struct kg_judgement *j = of_victim(&r);
    ck_assert_int_eq(r.exit_code, row->exit_code);
    ck_assert_int_eq(j ? j->judged : KG_JUDGED_COUNT, row->judged);
    ck_assert_str_eq(machine.baseline, lab.commits[N_BASELINE - 1]);
    ck_assert_uint_le(machine.n_runs, row->most_runs);
    ck_assert_uint_eq(r.n_reasons, row->fails);
    if (!row->fails) ck_assert_uint_gt(r.n_again_all, 0);
    if (j && row->judged == KG_JUDGED_WORSE)
        ck_assert_msg((strstr(j->why, "measured again, ") != NULL) == !row->fails, "%s", j->why);
    kg_regression_free(&r);
    kg_history_lab_close(&lab);
}

/* The run to build is the newest of three that are together where the series was; two together may be luck. */
static void three_runs_tell_where_it_was(struct kg_record *rec, const void *arg) {
    enum { N_RUNS = 10 };
    static const struct {
        size_t n_as_before, baseline; /* newest runs before the judged one that are so, and then one that is slow */
    } ROWS[] = { { 1, 3 }, { 2, 4 }, { 3, 1 }, { 4, 1 } };
    (void)rec;
    (void)arg;
    for (size_t k = 0; k < KG_COUNT_OF(ROWS); k++) {
        double by_run[N_RUNS] = { 0.1 };
        struct kg_screen_figure figure = { .verdict = KG_SCREEN_WORSE, .change = 0.1 };
        const struct kg_noisy noisy = { .figures = &figure, .by_run = by_run };
        const struct kg_noisy_runs runs = { .n_figures = 1, .n_runs = N_RUNS };
        by_run[1 + ROWS[k].n_as_before] = 0.1;
        ck_assert_uint_eq(kg_noisy_baseline(&runs, &noisy), ROWS[k].baseline);
    }
}

/* As many as a judged run has beside it, and the run itself; none more. */
static void selfcheck_of_the_most_runs(struct kg_record *rec, const void *arg) {
    enum { MOST = KG_BASELINE_RUNS + 1 };
    struct kg_history_lab lab;
    struct kg_history *history;
    struct kg_selfcheck found;
    const char *root;
    struct kg_error err;
    char *ids[MOST + 1];
    (void)arg;
    kg_history_lab_open(&lab, rec);
    for (size_t i = 0; i <= MOST; i++)
        ids[i] = kg_history_lab_run(&lab, (struct kg_made_run){ .commit = lab.commits[0], .n_cases = 2 });
    kg_asked_open(lab.root, &history, &root);
    kg_must(kg_selfcheck(history, root, ids, MOST, 0.03, &found, &err), &err);
    ck_assert_uint_eq(found.n_runs, MOST);
    ck_assert_uint_eq(found.n_false_alarms, 0);
    kg_selfcheck_free(&found);
    ck_assert_int_eq(kg_selfcheck(history, root, ids, MOST + 1, 0.03, &found, &err), KG_ERR_USAGE);
    kg_history_close(history);
    for (size_t i = 0; i <= MOST; i++) free(ids[i]);
    kg_history_lab_close(&lab);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "regress_again", .name = #function, .run = function }
#define ROW(name_, row_)                                                                                               \
    { .layer = "unit", .op = "regress_again", .name = name_, .run = measured_again, .arg = &row_ }

static const struct kg_case CASES[] = {
    CASE(a_slow_case_stays_red),       CASE(a_merge_hides_nothing), CASE(three_runs_tell_where_it_was),
    CASE(selfcheck_of_the_most_runs),  ROW("confirmed", CONFIRMED), ROW("refuted", REFUTED),
    ROW("only_suspect", ONLY_SUSPECT), ROW("too_noisy", TOO_NOISY), ROW("no_time", NO_TIME),
    ROW("cannot_be_measured", CANNOT),
};

KG_ASKED_SUITE(regress_again, CASES)
