/* What `kigo steps` finds in histories of made bundles: along first parents, across merges, over many runs. */
#include "base/buffer.h"
#include "base/rng.h"
#include "base/size.h"
#include "history/step_search.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/support/asked_history.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CASES = 4, VICTIM = 2 };

struct story {
    struct kg_rng rng;
    double victim;
};

static void fill(void *arg, size_t i, struct kg_made_case *c) {
    struct story *story = arg;
    c->time_ns *= exp(0.005 * kg_rng_normal(&story->rng)) * (i == VICTIM ? story->victim : 1);
}

static void run_at(struct kg_history_lab *lab, struct story *story, const char *commit, double victim) {
    story->victim = victim;
    free(kg_history_lab_run(
        lab, (struct kg_made_run){ .commit = commit, .n_cases = N_CASES, .canary = 1, .fill = fill, .arg = story }));
}

static bool is_newest(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    (void)n_columns;
    (void)names;
    if (cells) *(char **)arg = kg_xstrndup(cells[0].text, cells[0].size_bytes);
    return true;
}

static void search(const struct kg_history_lab *lab, struct kg_step_search *found) {
    struct kg_history *history = NULL;
    struct kg_error err;
    char *newest = NULL;
    kg_asked_open(lab->root, &history, NULL);
    kg_must(kg_history_query(history, "SELECT bundle_id FROM bundle ORDER BY started_us DESC LIMIT 1", NULL, 0,
                             is_newest, &newest, &err),
            &err);
    const struct kg_step_options options = { .run = newest, .n_most = 1000, .least_change = 0.03 };
    kg_must(kg_step_search(history, &options, found, &err), &err);
    kg_history_close(history);
    free(newest);
}

static void expect_step(const struct kg_step_search *found, size_t i, const char *before, const char *after) {
    ck_assert_uint_lt(i, found->n_steps);
    const struct kg_found_step *step = &found->steps[i];
    ck_assert_str_eq(step->c->key, kg_made_case_key(VICTIM));
    ck_assert_str_eq(step->last_before->commit, before);
    ck_assert_str_eq(step->first_after->commit, after);
}

/* Runs of a slow branch lie among those of the line that it is merged into: the step is at the merge. */
static void a_merge_hides_no_step(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_step_search found;
    struct story story;
    (void)arg;
    kg_rng_init(&story.rng, 1, 0);
    kg_history_lab_open(&lab, rec);
    for (size_t i = 0; i < KG_LAB_COMMITS; i++) {
        run_at(&lab, &story, lab.commits[i], 1);
        if (i >= 8 && i < 28) run_at(&lab, &story, lab.side, 1.1);
    }
    for (size_t i = 0; i < 3; i++) run_at(&lab, &story, lab.late, 1.3);
    for (size_t i = 0; i < 12; i++) run_at(&lab, &story, lab.merge, 1.1);
    search(&lab, &found);
    ck_assert_ptr_null(found.runs.why_by_time);
    ck_assert_uint_eq(found.runs.line.n_items, KG_LAB_COMMITS + 12);
    ck_assert_uint_eq(found.runs.side.n_items, 20 + 3);
    ck_assert_uint_eq(found.n_steps, 1);
    expect_step(&found, 0, lab.commits[KG_LAB_COMMITS - 1], lab.merge);
    const struct kg_found_step *step = &found.steps[0];
    ck_assert_str_eq(step->merge, lab.merge);
    ck_assert_uint_eq(step->n_suspects, 2);
    ck_assert_str_eq(step->suspects[1].commit, lab.late);
    ck_assert_uint_eq(step->suspects[1].n_runs, 3);
    ck_assert_double_eq_tol(step->suspects[1].change, 0.3, 0.015);
    ck_assert_str_eq(step->suspects[0].commit, lab.side);
    ck_assert_uint_eq(step->suspects[0].n_runs, 20);
    ck_assert_double_eq_tol(step->suspects[0].change, 0.1, 0.01);
    ck_assert_double_eq_tol(step->change, 0.1, 0.01);
    kg_step_search_free(&found);
    kg_history_lab_close(&lab);
}

/* A step of the line itself has no merge, although a branch was merged later. */
static void a_step_before_a_merge(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_step_search found;
    struct story story;
    (void)arg;
    kg_rng_init(&story.rng, 2, 0);
    kg_history_lab_open(&lab, rec);
    for (size_t i = 0; i < KG_LAB_COMMITS; i++) run_at(&lab, &story, lab.commits[i], i < 15 ? 1 : 1.1);
    run_at(&lab, &story, lab.side, 1);
    run_at(&lab, &story, lab.merge, 1.1);
    search(&lab, &found);
    ck_assert_uint_eq(found.n_steps, 1);
    expect_step(&found, 0, lab.commits[14], lab.commits[15]);
    ck_assert_str_eq(found.steps[0].merge, "");
    ck_assert_uint_eq(found.steps[0].n_suspects, 0);
    kg_step_search_free(&found);
    kg_history_lab_close(&lab);
}

/* Runs of old commits that were measured late belong to these commits. */
static void an_old_commit_measured_late(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_step_search found;
    struct story story;
    (void)arg;
    kg_rng_init(&story.rng, 3, 0);
    kg_history_lab_open(&lab, rec);
    for (size_t i = 12; i < KG_LAB_COMMITS - 1; i++) run_at(&lab, &story, lab.commits[i], 1.1);
    for (size_t i = 0; i < 12; i++) run_at(&lab, &story, lab.commits[i], 1);
    run_at(&lab, &story, lab.commits[KG_LAB_COMMITS - 1], 1.1);
    search(&lab, &found);
    ck_assert_uint_eq(found.n_steps, 1);
    expect_step(&found, 0, lab.commits[11], lab.commits[12]);
    ck_assert_uint_eq(found.steps[0].n_before, 12);
    ck_assert_uint_eq(found.steps[0].n_after, KG_LAB_COMMITS - 12);
    kg_step_search_free(&found);
    kg_history_lab_close(&lab);
}

/* Commits that no repository knows: runs by time, and that is said. */
static void without_git(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_step_search found;
    struct story story;
    char commits[24][41];
    (void)arg;
    kg_rng_init(&story.rng, 4, 0);
    kg_history_lab_open(&lab, rec);
    for (size_t i = 0; i < KG_COUNT_OF(commits); i++) {
        snprintf(commits[i], sizeof commits[i], "%040zx", i + 1);
        run_at(&lab, &story, commits[i], i < 12 ? 1 : 1.1);
    }
    search(&lab, &found);
    ck_assert_ptr_nonnull(found.runs.why_by_time);
    ck_assert_uint_eq(found.n_steps, 1);
    expect_step(&found, 0, commits[11], commits[12]);
    ck_assert_str_eq(found.steps[0].merge, "");
    kg_step_search_free(&found);
    kg_history_lab_close(&lab);
}

/* The clock falls from run `at` on, the GPU is hotter and throttled, and the kernel is another; the victim is slower
 * from run 12 on. */
static void expect_machine(struct kg_record *rec, size_t at, double hotter_by, int n_throttled, const char *machine) {
    struct kg_history_lab lab;
    struct kg_step_search found;
    struct story story = { .victim = 1 };
    kg_rng_init(&story.rng, 3, 0);
    kg_history_lab_open(&lab, rec);
    for (size_t i = 0; i < KG_LAB_COMMITS; i++) {
        story.victim = i < 12 ? 1 : 1.1;
        free(kg_history_lab_run(&lab, (struct kg_made_run){ .commit = lab.commits[i],
                                                            .n_cases = N_CASES,
                                                            .canary = 1,
                                                            .sm_mhz = (i < at ? 1980 : 1755) + (double)(i % 2),
                                                            .hotter_by = i < at ? 0 : hotter_by,
                                                            .n_throttled = i < at ? 0 : n_throttled,
                                                            .os_kernel = i < at ? "6.1" : "6.2",
                                                            .fill = fill,
                                                            .arg = &story }));
    }
    search(&lab, &found);
    ck_assert_uint_eq(found.n_steps, 1);
    expect_step(&found, 0, lab.commits[11], lab.commits[12]);
    ck_assert_str_eq(found.steps[0].machine, machine);
    kg_step_search_free(&found);
    kg_history_lab_close(&lab);
}

static void a_clock_changed_at_the_same_run(struct kg_record *rec, const void *arg) {
    (void)arg;
    expect_machine(rec, 12, 4, 0, "SM clock 1981 to 1755 MHz, kernel 6.1 to 6.2");
}

/* Five degrees are reported, four are not; of throttled samples the share is. */
static void heat_and_throttling(struct kg_record *rec, const void *arg) {
    (void)arg;
    expect_machine(rec, 12, 5, 2,
                   "SM clock 1981 to 1755 MHz, temperature 46 to 51 C, throttled samples 0 to 40 %, kernel 6.1 to 6.2");
}

static void a_clock_changed_elsewhere(struct kg_record *rec, const void *arg) {
    (void)arg;
    expect_machine(rec, 9, 5, 2, "");
}

/* The machine is slower from a run on, which its canaries say: no case steps. */
static void canaries_explain(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_step_search found;
    struct story story = { .victim = 1 };
    (void)arg;
    kg_rng_init(&story.rng, 5, 0);
    kg_history_lab_open(&lab, rec);
    for (size_t i = 0; i < KG_LAB_COMMITS; i++) {
        const double speed = i < 15 ? 1 : 1 / 1.1;
        story.victim = i < 15 ? 1 : 1.1;
        free(kg_history_lab_run(&lab, (struct kg_made_run){ .commit = lab.commits[i],
                                                            .n_cases = N_CASES,
                                                            .canary = speed * exp(0.005 * kg_rng_normal(&story.rng)),
                                                            .fill = fill,
                                                            .arg = &story }));
    }
    search(&lab, &found);
    ck_assert_uint_eq(found.n_figures, N_CASES);
    ck_assert_uint_eq(found.n_steps, 0);
    kg_step_search_free(&found);
    kg_history_lab_close(&lab);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "step_search", .name = #function, .run = function }

static const struct kg_case CASES[] = { CASE(a_merge_hides_no_step),
                                        CASE(a_step_before_a_merge),
                                        CASE(an_old_commit_measured_late),
                                        CASE(without_git),
                                        CASE(canaries_explain),
                                        CASE(a_clock_changed_at_the_same_run),
                                        CASE(a_clock_changed_elsewhere),
                                        CASE(heat_and_throttling) };

KG_ASKED_SUITE(step_search, CASES)
