/* Two builds measured alternately, and one measured against itself: builds are scripts around this kigo that run a
 * bench whose timings are drawn. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/must.h"
#include "suites/integration/check_lab.h"
#include "suites/integration/verbs.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char VICTIM[] = "bench/pace/victim[cpu,f32,-]";

/* A folder with a program kigo that runs the lab's suites, in which the victim takes `slow` times as long, on a machine
 * that drifts. malloc'ed. */
static char *make_drifting_build(const struct kg_lab *lab, const char *name, const char *slow, const char *drift) {
    char *dir = kg_path_join(lab->dir, name), *path = kg_path_join(dir, "kigo");
    char *script = kg_xasprintf(
        "#!/bin/sh\n%s%s KIGO_PACE_SLOW=%s KIGO_PACE_RUNS='%s/runs' KIGO_SUITES='%s' exec '%s' \"$@\"\n",
        drift ? "KIGO_PACE_DRIFT=" : "", drift ? drift : "", slow, lab->dir, lab->suites, kg_program_path());
    struct kg_error err;
    kg_must(kg_dir_make(dir, &err), &err);
    kg_must(kg_file_write(path, script, strlen(script), &err), &err);
    ck_assert_int_eq(chmod(path, 0755), 0);
    free(script);
    free(path);
    return dir;
}

static char *make_build(const struct kg_lab *lab, const char *name, const char *slow) {
    return make_drifting_build(lab, name, slow, NULL);
}

/* Runs a build's bench into the lab's bundles; the bundle's id, malloc'ed. */
static char *bench(const struct kg_lab *lab, const char *build) {
    char *program = kg_path_join(build, "kigo");
    const char *const argv[] = { program, "bench", "--quiet", "--bundles", lab->bundles, NULL };
    const struct kg_process process = { .argv = argv };
    struct kg_process_result result;
    struct kg_error err;
    kg_must(kg_process_run(&process, &result, &err), &err);
    ck_assert_msg(result.exit_code == 0, "%s%s", result.out, result.err);
    kg_process_result_free(&result);
    free(program);
    json_t *runs = kg_verb_json(lab->bundles, ARGS("list", "--limit", "1"), KG_EXIT_OK);
    char *id = kg_xstrdup(json_string_value(json_object_get(json_array_get(runs, 0), "bundle_id")));
    json_decref(runs);
    return id;
}

static const char *text(const json_t *object, const char *name) {
    const char *value = json_string_value(json_object_get(object, name));
    ck_assert_msg(value != NULL, "no text '%s'", name);
    return value;
}

static const json_t *of_case(const json_t *answer, const char *key) {
    const json_t *list = json_object_get(answer, "confirmations");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(text(json_array_get(list, i), "case"), key) == 0) return json_array_get(list, i);
    return NULL;
}

static void lab_open(struct kg_lab *lab, const struct kg_record *rec) {
    kg_lab_open(lab, rec);
    kg_lab_add(lab, "bench_pace", "bench_pace");
}

/* A case that is 10% slower is flagged by a single run, and confirmed by six of each build; the same build against
 * itself refutes it. What was found is kept. */
static void confirmed_and_refuted(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    (void)arg;
    lab_open(&lab, rec);
    char *usual = make_build(&lab, "usual", "1"), *slow = make_build(&lab, "slow", "1.10");
    char *before = bench(&lab, usual), *after = bench(&lab, slow);
    const char *const again[] = { "confirm",          after, "--baseline", before, "--rounds", "6",
                                  "--baseline-build", usual, "--build",    slow,   NULL };
    json_t *answer = kg_verb_json(lab.bundles, again, KG_EXIT_FAILED);
    const json_t *victim = of_case(answer, VICTIM);
    ck_assert_ptr_nonnull(victim);
    ck_assert_str_eq(text(victim, "verdict"), "confirmed");
    ck_assert_double_eq_tol(json_number_value(json_object_get(victim, "change")), 0.1, 0.03);
    ck_assert_int_eq(kg_verb_integer(victim, "n_run"), 6);
    ck_assert_double_eq_tol(json_number_value(json_object_get(victim, "p")), 1.0 / 924, 1e-9); /* C(12, 6) */
    json_decref(answer);
    answer = kg_verb_json(
        lab.bundles,
        ARGS("confirm", after, "--baseline", before, "--rounds", "6", "--baseline-build", usual, "--build", usual),
        KG_EXIT_OK);
    victim = of_case(answer, VICTIM);
    ck_assert_ptr_nonnull(victim);
    ck_assert_str_ne(text(victim, "verdict"), "confirmed");
    json_decref(answer);
    json_t *notes =
        kg_verb_json(lab.bundles, ARGS("query", "SELECT * FROM annotation WHERE kind = 'confirm'"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(notes), 2);
    ck_assert_str_eq(text(json_array_get(notes, 0), "bundle_id"), after);
    json_decref(notes);
    free(before);
    free(after);
    free(usual);
    free(slow);
    kg_lab_close(&lab);
}

/* A machine that is 15% faster or slower from run to run hides 10%, but for its canaries. */
static void what_canaries_show_is_taken_off(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    (void)arg;
    lab_open(&lab, rec);
    char *usual = make_build(&lab, "usual", "1"), *slow = make_build(&lab, "slow", "1.10");
    char *usual_drifts = make_drifting_build(&lab, "usual-drifts", "1", "0.15");
    char *slow_drifts = make_drifting_build(&lab, "slow-drifts", "1.10", "0.15");
    char *before = bench(&lab, usual), *after = bench(&lab, slow);
    const char *const again[] = { "confirm",          after,        "--baseline", before,      "--rounds", "10",
                                  "--baseline-build", usual_drifts, "--build",    slow_drifts, NULL };
    json_t *answer = kg_verb_json(lab.bundles, again, KG_EXIT_FAILED);
    const json_t *victim = of_case(answer, VICTIM);
    ck_assert_ptr_nonnull(victim);
    ck_assert_str_eq(text(victim, "verdict"), "confirmed");
    ck_assert_double_eq_tol(json_number_value(json_object_get(victim, "change")), 0.1, 0.03);
    json_decref(answer);
    free(before);
    free(after);
    free(slow_drifts);
    free(usual_drifts);
    free(usual);
    free(slow);
    kg_lab_close(&lab);
}

/* `regress --confirm` decides by itself: the same run is red against a slow build, and green against its own. */
static void regress_decides_at_once(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    (void)arg;
    lab_open(&lab, rec);
    char *usual = make_build(&lab, "usual", "1"), *slow = make_build(&lab, "slow", "1.10");
    char *before = bench(&lab, usual), *after = bench(&lab, slow);
    json_t *answer = kg_verb_json(lab.bundles,
                                  ARGS("regress", after, "--baseline", before, "--confirm", "--budget", "2m",
                                       "--baseline-build", usual, "--build", slow),
                                  KG_EXIT_FAILED);
    const json_t *again = json_object_get(answer, "measured_again"), *items = json_object_get(again, "items");
    bool confirmed = false;
    ck_assert_str_eq(text(again, "baseline"), before);
    for (size_t i = 0; i < json_array_size(items); i++)
        confirmed = confirmed || (strcmp(text(json_array_get(items, i), "case"), VICTIM) == 0 &&
                                  strcmp(text(json_array_get(items, i), "verdict"), "confirmed") == 0);
    ck_assert(confirmed);
    /* One baseline run is four too few to say what one run cannot show. */
    const json_t *unseen = json_array_get(json_object_get(answer, "unseen"), 0);
    ck_assert_int_eq(kg_verb_integer(unseen, "n"), 6);
    ck_assert_int_eq(kg_verb_integer(unseen, "runs"), 4);
    ck_assert_str_eq(text(unseen, "needs"), "baseline runs");
    json_decref(answer);
    kg_verb_refuses(lab.bundles, ARGS("regress", after, "--baseline", before), KG_EXIT_INCONCLUSIVE,
                    "4 more baseline runs would do");
    kg_verb_refuses(
        lab.bundles,
        ARGS("regress", after, "--baseline", before, "--confirm", "--baseline-build", usual, "--build", usual),
        KG_EXIT_OK, "0 confirmed");
    free(before);
    free(after);
    free(usual);
    free(slow);
    kg_lab_close(&lab);
}

static void what_confirm_refuses(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    (void)arg;
    lab_open(&lab, rec);
    char *usual = make_build(&lab, "usual", "1"), *slow = make_build(&lab, "slow", "2");
    char *before = bench(&lab, usual), *after = bench(&lab, slow);
    kg_verb_refuses(lab.bundles, ARGS("confirm", after, "--baseline", before, "--repo", "/"), KG_EXIT_USAGE,
                    "--baseline-build");
    kg_verb_refuses(lab.bundles, ARGS("confirm", after, "--baseline", before, "--baseline-build", lab.suites),
                    KG_EXIT_USAGE, "is no build");
    kg_verb_refuses(lab.bundles, ARGS("confirm", "--rounds", "4"), KG_EXIT_USAGE, "rounds");
    kg_verb_refuses(lab.bundles, ARGS("regress", after, "--confirm", "--budget", "5"), KG_EXIT_USAGE, "--budget");
    kg_verb_refuses(lab.bundles, ARGS("regress", after, "--budget", "5m"), KG_EXIT_USAGE, "--confirm");
    kg_verb_refuses(lab.bundles, ARGS("regress", after, "--baseline-build", usual), KG_EXIT_USAGE, "--confirm");
    kg_verb_refuses(lab.bundles, ARGS("regress", after, "--build", usual), KG_EXIT_USAGE, "--confirm");
    kg_verb_refuses(lab.bundles, ARGS("regress", after, "--confirm", "--build", lab.suites), KG_EXIT_USAGE,
                    "is no build");
    /* A run against itself: nothing is flagged, and no build is needed. */
    kg_verb_refuses(lab.bundles, ARGS("confirm", after, "--baseline", after), KG_EXIT_OK, "nothing to measure again");
    free(before);
    free(after);
    free(usual);
    free(slow);
    kg_lab_close(&lab);
}

static void selfcheck_counts_and_keeps(struct kg_record *rec, const void *arg) {
    enum { N_RUNS = 8, N_CASES = 6 };
    struct kg_lab lab;
    (void)arg;
    lab_open(&lab, rec);
    char *usual = make_build(&lab, "usual", "1"), *keep = kg_path_join(lab.dir, "kept");
    json_t *answer =
        kg_verb_json(lab.bundles, ARGS("selfcheck", "--build", usual, "--runs", "8", "--keep", keep), KG_EXIT_OK);
    ck_assert_int_eq(kg_verb_integer(answer, "comparisons"), N_RUNS * N_CASES);
    ck_assert_int_le(kg_verb_integer(answer, "false_alarms"), 1);
    json_decref(answer);
    free(bench(&lab, usual));
    char *last = bench(&lab, usual);
    answer = kg_verb_json(lab.bundles, ARGS("regress", "--baseline", last), KG_EXIT_OK);
    ck_assert_int_eq(kg_verb_integer(json_object_get(answer, "selfcheck"), "comparisons"), N_RUNS * N_CASES);
    json_decref(answer);
    /* The kept runs again, by name: the same figures. */
    json_t *runs = kg_verb_json(keep, ARGS("list"), KG_EXIT_OK);
    const char *args[N_RUNS + 2] = { "selfcheck" };
    for (size_t i = 0; i < N_RUNS; i++) args[1 + i] = text(json_array_get(runs, i), "bundle_id");
    answer = kg_verb_json(keep, args, KG_EXIT_OK);
    ck_assert_int_eq(kg_verb_integer(answer, "comparisons"), N_RUNS * N_CASES);
    json_decref(answer);
    args[4] = NULL;
    kg_verb_expect(keep, args, KG_EXIT_USAGE, NULL); /* three runs decide nothing */
    json_decref(runs);
    free(last);
    free(keep);
    free(usual);
    kg_lab_close(&lab);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "confirm", .name = #function, .run = function, .timeout_s = 120 }

static const struct kg_case CASES[] = {
    CASE(confirmed_and_refuted), CASE(what_canaries_show_is_taken_off), CASE(regress_decides_at_once),
    CASE(what_confirm_refuses),  CASE(selfcheck_counts_and_keeps),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
