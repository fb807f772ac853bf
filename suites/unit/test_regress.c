/* What regress calls a regression, on made histories: each row of a judgement must be able to be red. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"
#include "history/annotation.h"
#include "suites/harness/must.h"
#include "suites/support/asked_history.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CASES = 12, N_BASELINE = 20, CANDIDATE = 25, VICTIM = 3 };

/* Noise of 1% from run to run on every case, and a change of one case or of all. */
struct story {
    struct kg_rng rng;
    double all, victim; /* factors on times */
    void (*change)(struct kg_made_case *c);
    const char *op; /* of the victim, in all runs; NULL: as usual */
};

static void fill(void *arg, size_t i, struct kg_made_case *c) {
    struct story *story = arg;
    c->time_ns *= story->all * exp(0.01 * kg_rng_normal(&story->rng));
    if (i != VICTIM) return;
    c->time_ns *= story->victim;
    if (story->op) c->op = story->op;
    if (story->change) story->change(c);
}

static void skip(struct kg_made_case *c) {
    c->status = "skip";
}
static void go_red(struct kg_made_case *c) {
    c->status = "fail";
}
static void norun(struct kg_made_case *c) {
    c->status = "norun";
}
static void vanish(struct kg_made_case *c) {
    c->absent = true;
}
static void redefine(struct kg_made_case *c) {
    c->definition = "easier";
}
static void err_by_one_ulp(struct kg_made_case *c) {
    c->max_abs = nextafter(c->max_abs, 1);
}
static void err_less(struct kg_made_case *c) {
    c->max_abs /= 2;
}
static void err_nan(struct kg_made_case *c) {
    c->max_abs = 1e300 * 1e300; /* "inf" is no JSON: the bundle cannot be read; see a_bundle_that_cannot_be_read */
}
static void err_of_other_seed(struct kg_made_case *c) {
    c->max_abs *= 2;
    c->seed = 8;
}
static void peak(struct kg_made_case *c) {
    c->peak_bytes += 1;
}
static void left_over(struct kg_made_case *c) {
    c->left_bytes = 16;
}
static void no_timing(struct kg_made_case *c) {
    c->time_ns = 0;
}
static void by_events(struct kg_made_case *c) {
    c->timing = "kernel";
    c->time_ns = c->time_ns * 0.4; /* 4 us: half a microsecond is 12% */
}
static void throttle(struct kg_made_case *c) {
    c->throttled = true;
}

struct row {
    void (*change)(struct kg_made_case *c);
    double victim; /* 0: 1 */
    int exit_code;
    enum kg_judged judged; /* of the victim's first judgement; KG_JUDGED_COUNT: there is none */
    const char *subject;
};

static const struct row NOTHING = { NULL, 1, KG_EXIT_OK, KG_JUDGED_COUNT, NULL };
static const struct row FAILS = { go_red, 1, KG_EXIT_FAILED, KG_JUDGED_WORSE, "status" };
static const struct row SKIPS = { skip, 1, KG_EXIT_FAILED, KG_JUDGED_WORSE, "status" };
static const struct row NORUN = { norun, 1, KG_EXIT_FAILED, KG_JUDGED_MISSING, "case" };
static const struct row VANISHES = { vanish, 1, KG_EXIT_FAILED, KG_JUDGED_MISSING, "case" };
static const struct row REDEFINED = { redefine, 0.5, KG_EXIT_INCONCLUSIVE, KG_JUDGED_INCOMPARABLE, "case" };
static const struct row ONE_ULP = { err_by_one_ulp, 1, KG_EXIT_FAILED, KG_JUDGED_WORSE, "error" };
static const struct row LESS_ERROR = { err_less, 1, KG_EXIT_OK, KG_JUDGED_BETTER, "error" };
static const struct row OTHER_SEED = { err_of_other_seed, 1, KG_EXIT_OK, KG_JUDGED_COUNT, NULL };
static const struct row PEAK = { peak, 1, KG_EXIT_FAILED, KG_JUDGED_WORSE, "memory" };
static const struct row LEFT_OVER = { left_over, 1, KG_EXIT_FAILED, KG_JUDGED_WORSE, "memory" };
static const struct row SLOWER = { NULL, 1.08, KG_EXIT_FAILED, KG_JUDGED_WORSE, "time" };
static const struct row FASTER = { NULL, 0.9, KG_EXIT_OK, KG_JUDGED_BETTER, "time" };
static const struct row NO_TIMING = { no_timing, 1, KG_EXIT_FAILED, KG_JUDGED_MISSING, "time" };
static const struct row THROTTLED = { throttle, 1, KG_EXIT_INCONCLUSIVE, KG_JUDGED_INCONCLUSIVE, "time" };

static void say(const struct kg_regression *r) {
    for (size_t i = 0; i < r->n_reasons; i++) printf("# inconclusive: %s\n", r->reasons[i]);
    for (size_t i = 0; i < r->n_judgements; i++)
        printf("# %s %s %s %s: %g, %g, z %g: %s\n", KG_JUDGED_NAMES[r->judgements[i].judged], r->judgements[i].subject,
               r->judgements[i].key, r->judgements[i].figure, r->judgements[i].before, r->judgements[i].after,
               r->judgements[i].z, r->judgements[i].why);
}

static const struct kg_judgement *of_victim(const struct kg_regression *r) {
    for (size_t i = 0; i < r->n_judgements; i++)
        if (strcmp(r->judgements[i].key, kg_made_case_key(VICTIM)) == 0) return &r->judgements[i];
    return NULL;
}

static void expect(struct kg_regression *r, int exit_code, enum kg_judged judged, const char *subject) {
    say(r);
    ck_assert_int_eq(r->exit_code, exit_code);
    const struct kg_judgement *j = of_victim(r);
    ck_assert_int_eq(j ? j->judged : KG_JUDGED_COUNT, judged);
    if (j) ck_assert_str_eq(j->subject, subject);
    kg_regression_free(r);
}

/* The baseline's runs, then the one that is judged. */
static void write_history(struct kg_history_lab *lab, struct story *story, size_t n_baseline, double canary) {
    struct story usual = { .all = 1, .victim = 1, .op = story->op };
    kg_rng_init(&usual.rng, 77, 0);
    kg_rng_init(&story->rng, 78, 0);
    kg_history_lab_runs(
        lab, 0, n_baseline,
        (struct kg_made_run){ .n_cases = N_CASES, .canary = canary > 0 ? 1 : 0, .fill = fill, .arg = &usual });
    kg_history_lab_runs(lab, CANDIDATE, 1,
                        (struct kg_made_run){ .n_cases = N_CASES, .canary = canary, .fill = fill, .arg = story });
}

static void one_case(struct kg_record *rec, const void *arg) {
    const struct row *row = arg;
    struct kg_history_lab lab;
    struct kg_regression r;
    struct story story = { .all = 1, .victim = row->victim, .change = row->change };
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story, N_BASELINE, 1);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_uint_eq(r.baseline.n_items, N_BASELINE);
    expect(&r, row->exit_code, row->judged, row->subject);
    kg_history_lab_close(&lab);
}

/* Another's program that became slower, or a little less accurate, is no regression of this one; one that fails is red.
 */
static void peers_are_not_judged(struct kg_record *rec, const void *arg) {
    const struct row *row = arg;
    struct kg_history_lab lab;
    struct kg_regression r;
    struct story story = { .all = 1, .victim = row->victim, .change = row->change, .op = "linear_peer" };
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story, N_BASELINE, 1);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    const bool red = strcmp(row->subject, "status") == 0;
    expect(&r, red ? KG_EXIT_FAILED : KG_EXIT_OK, red ? KG_JUDGED_WORSE : KG_JUDGED_COUNT, row->subject);
    kg_history_lab_close(&lab);
}

static const struct drift_row {
    double all, canary;
    int exit_code;
    bool any; /* a time is flagged */
} CANARY_TELLS = { 1.04, 1 / 1.04, KG_EXIT_OK, false }, NO_CANARY = { 1.04, 0, KG_EXIT_INCONCLUSIVE, false },
  CODE = { 1.08, 1, KG_EXIT_FAILED, true }, CANARY_AND_CODE = { 1.04 * 1.08, 1 / 1.04, KG_EXIT_FAILED, true };

/* A machine that is 4% slower flags nothing; a program that is 8% slower everywhere does. */
static void common_shift(struct kg_record *rec, const void *arg) {
    const struct drift_row *row = arg;
    struct kg_history_lab lab;
    struct kg_regression r;
    struct story story = { .all = row->all, .victim = 1 };
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story, N_BASELINE, row->canary);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    say(&r);
    ck_assert_int_eq(r.exit_code, row->exit_code);
    ck_assert_int_eq(r.counts[KG_JUDGED_WORSE] > 0, row->any);
    if (row->any) ck_assert_uint_ge(r.counts[KG_JUDGED_WORSE], N_CASES - 1);
    kg_regression_free(&r);
    kg_history_lab_close(&lab);
}

/* A change of one figure only, against too few runs to know its noise. */
static void too_few_runs(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    struct story story = { .all = 1, .victim = 1.08 };
    (void)arg;
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story, 4, 1);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    expect(&r, KG_EXIT_INCONCLUSIVE, KG_JUDGED_INCONCLUSIVE, "time");
    kg_history_lab_close(&lab);
}

/* Exact figures need one run. */
static void one_run_is_enough_for_errors(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    struct story story = { .all = 1, .victim = 1, .change = err_by_one_ulp };
    (void)arg;
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story, 1, 1);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_uint_eq(of_victim(&r)->n_baseline, 1);
    expect(&r, KG_EXIT_FAILED, KG_JUDGED_WORSE, "error");
    kg_history_lab_close(&lab);
}

/* Of all that lies in the folder, only the ancestors' complete, green, clean runs on the same machine and build count.
 */
static void who_is_baseline(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    const struct kg_made_run usual = { .n_cases = 2 };
    struct kg_made_run odd[8];
    struct story red = { .all = 1, .victim = 1, .change = go_red };
    (void)arg;
    kg_history_lab_open(&lab, rec);
    for (size_t i = 0; i < KG_COUNT_OF(odd); i++) {
        odd[i] = usual;
        odd[i].commit = lab.commits[4];
    }
    odd[0].dirty = true;
    odd[1].partial = true;
    odd[2].n_cases = VICTIM + 1;
    odd[2].fill = fill;
    odd[2].arg = &red;
    odd[3].gpu = "Other GPU";
    odd[4].cflags = "-O0";
    odd[5].commit = lab.side;
    odd[6].commit = NULL;
    odd[7].commit = lab.commits[12]; /* a child */
    kg_rng_init(&red.rng, 1, 0);
    kg_history_lab_runs(&lab, 0, 4, usual);
    for (size_t i = 0; i < KG_COUNT_OF(odd); i++) free(kg_history_lab_run(&lab, odd[i]));
    kg_history_lab_runs(&lab, 10, 2, usual);
    kg_history_lab_regress(&lab, NULL, NULL, &r); /* of commits[11]: 0 to 3 and 10 */
    ck_assert_uint_eq(r.baseline.n_items, 5);
    for (size_t i = 0; i < r.baseline.n_items; i++) {
        const size_t commit = i == 0 ? 10 : 4 - i;
        ck_assert_str_eq(r.baseline.items[i].commit, lab.commits[commit]);
    }
    ck_assert_int_eq(r.exit_code, KG_EXIT_OK);
    kg_regression_free(&r);
    kg_history_lab_runs(&lab, 11, 1, usual); /* a second run of that commit: no baseline of itself */
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_uint_eq(r.baseline.n_items, 5);
    kg_regression_free(&r);
    kg_history_lab_close(&lab);
}

static void nothing_to_compare(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    kg_history_lab_runs(&lab, 3, 1, (struct kg_made_run){ .n_cases = 2 });
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_INCONCLUSIVE);
    ck_assert_uint_eq(r.n_reasons, 1);
    kg_regression_free(&r);
    free(kg_history_lab_run(&lab, (struct kg_made_run){ .n_cases = 2 })); /* without git */
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_INCONCLUSIVE);
    kg_regression_free(&r);
    kg_history_lab_close(&lab);
}

/* A given baseline on another machine: statuses and errors are judged, times are not. */
static void other_machine(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    struct story story = { .all = 2, .victim = 1, .change = go_red };
    (void)arg;
    kg_history_lab_open(&lab, rec);
    kg_rng_init(&story.rng, 1, 0);
    char *before = kg_history_lab_run(
        &lab, (struct kg_made_run){ .n_cases = N_CASES, .commit = lab.commits[0], .gpu = "Slow GPU" });
    kg_history_lab_runs(&lab, 1, 1, (struct kg_made_run){ .n_cases = N_CASES, .fill = fill, .arg = &story });
    kg_history_lab_regress(&lab, NULL, before, &r);
    ck_assert_str_eq(r.other_key, "gpu");
    ck_assert_uint_eq(r.n_noisy, 0);
    expect(&r, KG_EXIT_FAILED, KG_JUDGED_WORSE, "status");
    free(before);
    kg_history_lab_close(&lab);
}

static void note(const struct kg_history_lab *lab, const char *kind, const char *run, const char *key,
                 int64_t until_us) {
    struct kg_annotation a = { .kind = kg_xstrdup(kind),
                               .bundle_id = run ? kg_xstrdup(run) : NULL,
                               .case_key = key ? kg_xstrdup(key) : NULL,
                               .until_us = until_us,
                               .utc_us = lab->clock_us,
                               .author = kg_xstrdup("lab"),
                               .text = kg_xstrdup("because") };
    struct kg_error err;
    char *id, utc[KG_UTC_TEXT_SIZE];
    kg_must(kg_annotation_add(lab->root, &a, NULL, &id, &err), &err);
    kg_clock_utc_compact(a.utc_us, utc);
    char *begins = kg_xasprintf("%s-%s-", utc, kind);
    ck_assert_msg(strncmp(id, begins, strlen(begins)) == 0, "%s does not begin with %s", id, begins);
    free(begins);
    free(id);
    free(a.kind);
    free(a.bundle_id);
    free(a.case_key);
    free(a.author);
    free(a.text);
}

static void waivers_end(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    struct story story = { .all = 1, .victim = 1, .change = go_red };
    (void)arg;
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story, 6, 1);
    note(&lab, "waive", NULL, "bench/linear/case_3*", lab.clock_us - 1);
    note(&lab, "waive", NULL, "bench/linear/case_4*", lab.clock_us + 1000);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    expect(&r, KG_EXIT_FAILED, KG_JUDGED_WORSE, "status");
    note(&lab, "waive", NULL, kg_made_case_key(VICTIM), lab.clock_us); /* its last microsecond is part of it */
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_uint_eq(r.n_waived, 1);
    expect(&r, KG_EXIT_OK, KG_JUDGED_WORSE, "status");
    kg_history_lab_close(&lab);
}

/* A run that was 20% slower for a known reason, and a driver that made everything slower from a run on. */
static void excluded_and_broken(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    kg_history_lab_runs(&lab, 0, 4, (struct kg_made_run){ .n_cases = 2 });
    char *odd = kg_history_lab_run(&lab, (struct kg_made_run){ .n_cases = 2, .commit = lab.commits[4] });
    kg_history_lab_runs(&lab, 5, 3, (struct kg_made_run){ .n_cases = 2 });
    note(&lab, "exclude", odd, "bench/linear/case_1[*", 0);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_uint_eq(r.baseline.n_items, 7); /* it is out for one case only */
    kg_regression_free(&r);
    note(&lab, "exclude", odd, NULL, 0);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_uint_eq(r.baseline.n_items, 6);
    kg_regression_free(&r);
    note(&lab, "break", odd, NULL, 0);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_uint_eq(r.baseline.n_items, 2); /* commits 5 and 6 */
    kg_regression_free(&r);
    free(odd);
    kg_history_lab_close(&lab);
}

static void registers_and_spills(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    struct kg_made_run run = { .n_cases = 1,
                               .kernels = "[{\"name\":\"gemv\",\"arch\":\"sm_90a\",\"registers\":40,"
                                          "\"spill_store_bytes\":0}]" };
    (void)arg;
    kg_history_lab_open(&lab, rec);
    kg_history_lab_runs(&lab, 0, 1, run);
    run.kernels = "[{\"name\":\"gemv\",\"arch\":\"sm_90a\",\"registers\":38,\"spill_store_bytes\":8},"
                  "{\"name\":\"gemv\",\"arch\":\"sm_80\",\"registers\":90}]";
    kg_history_lab_runs(&lab, 1, 1, run);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    say(&r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_FAILED);
    ck_assert_uint_eq(r.counts[KG_JUDGED_WORSE], 1);
    ck_assert_str_eq(r.judgements[0].figure, "spill_store_bytes");
    ck_assert(isnan(r.judgements[0].change)); /* of 0 bytes */
    ck_assert_uint_eq(r.counts[KG_JUDGED_BETTER], 1);
    ck_assert_str_eq(r.judgements[1].figure, "registers");
    ck_assert_double_eq_tol(r.judgements[1].change, -0.05, 1e-12); /* 38 of 40 */
    kg_regression_free(&r);
    kg_history_lab_close(&lab);
}

/* An error that improved and then worsened again: the newest run is the measure, not the worst of the window. */
static void newest_is_the_measure(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    struct story better = { .all = 1, .victim = 1, .change = err_less }, usual = { .all = 1, .victim = 1 };
    (void)arg;
    kg_history_lab_open(&lab, rec);
    kg_rng_init(&better.rng, 1, 0);
    kg_rng_init(&usual.rng, 2, 0);
    kg_history_lab_runs(&lab, 0, 6, (struct kg_made_run){ .n_cases = 4, .fill = fill, .arg = &usual });
    kg_history_lab_runs(&lab, 6, 2, (struct kg_made_run){ .n_cases = 4, .fill = fill, .arg = &better });
    kg_history_lab_runs(&lab, 8, 1, (struct kg_made_run){ .n_cases = 4, .fill = fill, .arg = &usual });
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    expect(&r, KG_EXIT_FAILED, KG_JUDGED_WORSE, "error");
    kg_history_lab_close(&lab);
}

static void a_bundle_that_cannot_be_read(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_history *history = NULL;
    struct kg_bundle_findings problems = { NULL, 0 };
    struct kg_error err;
    struct story story = { .all = 1, .victim = 1, .change = err_nan };
    (void)arg;
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story, 2, 1);
    kg_must(kg_history_open(lab.root, &history, &problems, &err), &err);
    ck_assert_uint_eq(problems.n_items, 1);
    kg_bundle_findings_free(&problems);
    kg_history_close(history);
    kg_history_lab_close(&lab);
}

/* What is worse stays worse, run after run, until it is accepted; what comes after that is judged by what was accepted.
 */
static void red_until_accepted(struct kg_record *rec, const void *arg) {
    static void (*const CHANGES[])(struct kg_made_case *) = { err_by_one_ulp, peak, skip, vanish, no_timing };
    const size_t n_runs = 3;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(CHANGES); i++) {
        struct kg_history_lab lab;
        struct kg_regression r;
        struct story story = { .all = 1, .victim = 1, .change = CHANGES[i] };
        char name[16], *dir;
        snprintf(name, sizeof name, "row_%zu", i);
        dir = kg_path_join(kg_scratch_dir(rec), name);
        kg_history_lab_open_in(&lab, dir, KG_LAB_COMMITS);
        write_history(&lab, &story, 6, 1);
        for (size_t run = 0; run < n_runs; run++) {
            kg_history_lab_regress(&lab, NULL, NULL, &r);
            ck_assert_msg(r.exit_code == KG_EXIT_FAILED, "change %zu, run %zu: exit code %d", i, run, r.exit_code);
            if (run + 1 < n_runs) {
                kg_regression_free(&r);
                kg_history_lab_runs(
                    &lab, CANDIDATE + run + 1, 1,
                    (struct kg_made_run){ .n_cases = N_CASES, .canary = 1, .fill = fill, .arg = &story });
            }
        }
        note(&lab, "accept", r.run.bundle_id, "bench/linear/case_3[*", 0);
        kg_regression_free(&r);
        kg_history_lab_regress(&lab, NULL, NULL, &r);
        ck_assert_msg(r.exit_code == KG_EXIT_OK, "change %zu, accepted: exit code %d", i, r.exit_code);
        kg_regression_free(&r);
        kg_history_lab_runs(&lab, CANDIDATE + n_runs, 1,
                            (struct kg_made_run){ .n_cases = N_CASES, .canary = 1, .fill = fill, .arg = &story });
        kg_history_lab_regress(&lab, NULL, NULL, &r);
        ck_assert_msg(r.exit_code == KG_EXIT_OK, "change %zu, later: exit code %d", i, r.exit_code);
        kg_regression_free(&r);
        kg_history_lab_close(&lab);
        free(dir);
    }
}

/* Runs from the named one on begin anew, the named one included. */
static void a_break_begins_with_its_run(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    struct story story = { .all = 1, .victim = 1.08 };
    (void)arg;
    kg_history_lab_open(&lab, rec);
    write_history(&lab, &story, N_BASELINE, 1);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_FAILED);
    char *judged = kg_xstrdup(r.run.bundle_id);
    kg_regression_free(&r);
    note(&lab, "break", judged, "bench/linear/case_3[*", 0);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_uint_eq(r.n_noisy, N_CASES - 1);
    ck_assert_uint_eq(r.baseline.n_items, N_BASELINE);
    expect(&r, KG_EXIT_INCONCLUSIVE, KG_JUDGED_INCOMPARABLE, "case");
    note(&lab, "break", judged, NULL, 0);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    ck_assert_uint_eq(r.baseline.n_items, 0);
    kg_regression_free(&r);
    free(judged);
    kg_history_lab_close(&lab);
}

/* What the clock does not resolve is no change: events resolve half a microsecond. */
static void below_the_clocks_resolution(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    struct story usual = { .all = 1, .victim = 1, .change = by_events }, slow = usual;
    (void)arg;
    kg_history_lab_open(&lab, rec);
    kg_rng_init(&usual.rng, 1, 0);
    kg_rng_init(&slow.rng, 2, 0);
    struct kg_made_run run = { .n_cases = N_CASES, .canary = 1, .fill = fill, .arg = &usual };
    kg_history_lab_runs(&lab, 0, N_BASELINE, run);
    run.arg = &slow;
    slow.victim = 1.08;
    kg_history_lab_runs(&lab, CANDIDATE, 1, run);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    expect(&r, KG_EXIT_OK, KG_JUDGED_COUNT, NULL);
    slow.victim = 1.2;
    kg_history_lab_runs(&lab, CANDIDATE, 1, run);
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    expect(&r, KG_EXIT_FAILED, KG_JUDGED_WORSE, "time");
    kg_history_lab_close(&lab);
}

/* Which way is worse, by unit and name. */
static void which_way_is_worse(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *name, *unit;
        enum kg_figure_class class;
        int worse;
    } ROWS[] = {
        { "time.host.warm", "ns", KG_FIGURE_NOISY, +1 },
        { "decode", "tokens/s", KG_FIGURE_NOISY, -1 },
        { "copy", "GB/s", KG_FIGURE_NOISY, -1 },
        { "gemm", "TFLOP/s", KG_FIGURE_NOISY, -1 },
        { "roofline.gemm", "TFLOP/s", KG_FIGURE_CANARY, -1 },
        { "graph.warm.tflop_per_s", "TFLOP/s", KG_FIGURE_DERIVED, -1 },
        { "y.margin", "ratio", KG_FIGURE_EXACT, +1 },
        { "y.max_abs", "abs", KG_FIGURE_EXACT, +1 },
        { "kv.peak", "bytes", KG_FIGURE_EXACT, +1 },
        { "haiku_valid", "count", KG_FIGURE_EXACT, -1 },
        { "ncu.spilled_bytes", "bytes", KG_FIGURE_EXACT, +1 },
        { "ncu.registers", "count", KG_FIGURE_REPORTED, 0 },
    };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        const struct kg_figure_kind kind = kg_figure_kind_of(ROWS[i].name, ROWS[i].unit);
        ck_assert_msg(kind.class == ROWS[i].class && kind.worse == ROWS[i].worse, "%s", ROWS[i].name);
    }
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "regress", .name = #function, .run = function }
#define ROW(name_, row_)                                                                                               \
    { .layer = "unit", .op = "regress", .name = name_, .run = one_case, .arg = &row_ }
#define PEER(name_, row)                                                                                               \
    { .layer = "unit", .op = "regress", .name = name_, .run = peers_are_not_judged, .arg = &(row) }
#define DRIFT(name_, row_)                                                                                             \
    { .layer = "unit", .op = "regress", .name = name_, .run = common_shift, .arg = &row_ }

static const struct kg_case CASES[] = {
    ROW("nothing_changed", NOTHING),
    ROW("pass_to_fail", FAILS),
    ROW("pass_to_skip", SKIPS),
    ROW("planned_and_not_run", NORUN),
    ROW("missing_case", VANISHES),
    ROW("changed_definition", REDEFINED),
    ROW("error_grown_by_one_ulp", ONE_ULP),
    ROW("error_shrunk", LESS_ERROR),
    ROW("error_under_another_seed", OTHER_SEED),
    ROW("peak_grown_by_one_byte", PEAK),
    ROW("memory_left_over", LEFT_OVER),
    ROW("slower", SLOWER),
    ROW("faster", FASTER),
    ROW("timing_gone", NO_TIMING),
    ROW("timing_not_valid", THROTTLED),
    PEER("peer_slower", SLOWER),
    PEER("peer_with_more_error", ONE_ULP),
    PEER("peer_fails", FAILS),
    DRIFT("common_drift_with_canary", CANARY_TELLS),
    DRIFT("common_drift_without_canary", NO_CANARY),
    DRIFT("common_slow_down", CODE),
    DRIFT("common_slow_down_on_a_slow_day", CANARY_AND_CODE),
    CASE(too_few_runs),
    CASE(one_run_is_enough_for_errors),
    CASE(who_is_baseline),
    CASE(nothing_to_compare),
    CASE(other_machine),
    CASE(waivers_end),
    CASE(excluded_and_broken),
    CASE(red_until_accepted),
    CASE(a_break_begins_with_its_run),
    CASE(below_the_clocks_resolution),
    CASE(which_way_is_worse),
    CASE(registers_and_spills),
    CASE(newest_is_the_measure),
    CASE(a_bundle_that_cannot_be_read),
};

KG_ASKED_SUITE(regress, CASES)
