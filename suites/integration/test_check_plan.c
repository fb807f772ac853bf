/* `kigo check` before and between its cases: which programs it asks for their cases, which cases it takes, and which
 * programs run beside each other. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/integration/check_lab.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static void add_in_folder(const struct kg_lab *lab, const char *folder, const char *program, const char *as) {
    char *dir = kg_path_join(lab->suites, folder), *name = kg_path_join(folder, as);
    if (!kg_path_is_dir(dir)) ck_assert_int_eq(kg_dir_make(dir, NULL), KG_OK);
    kg_lab_add(lab, program, name);
    free(name);
    free(dir);
}

struct reach {
    const char *args[4];
    bool asks_haiku; /* the program in haiku/, which crashes where it is asked for its cases */
};
static const struct reach REACHES[] = {
    { { "--layer", "unit" }, false },          { { "--filter", "unit/green/*" }, false },
    { { "--case", "unit/green/one" }, false }, { { "--case", "harness/unit.test_green/ends_cleanly" }, true },
    { { "--filter", "*green*" }, true },       { { "--filter", "[u]nit/*" }, true },
    { { "--layer", "haiku" }, true },          { { NULL }, true },
};

static void programs_of_other_layers_are_not_asked(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    add_in_folder(&lab, "unit", "test_green", "test_green");
    add_in_folder(&lab, "haiku", "test_broken", "test_lists_garbage");
    for (size_t i = 0; i < KG_COUNT_OF(REACHES); i++) {
        struct kg_process_result r;
        kg_lab_check(&lab, REACHES[i].args, &r);
        const bool asked = strstr(r.out, "harness/haiku.test_lists_garbage/lists") != NULL;
        ck_assert_msg(asked == REACHES[i].asks_haiku, "row %zu: %s%s", i, r.out, r.err);
        ck_assert_int_eq(r.exit_code, asked ? KG_EXIT_FAILED : KG_EXIT_OK);
        kg_process_result_free(&r);
    }
    kg_lab_close(&lab);
}

/* A folder kigo does not know may hold any layer. */
static void a_layer_in_another_folder_is_an_error(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    add_in_folder(&lab, "haiku", "test_green", "test_green");
    add_in_folder(&lab, "mine", "test_mixed", "test_mixed");
    struct kg_process_result r;
    kg_lab_check(&lab, ARGS("--filter", "*/passes_first", "--filter", "*/green/*"), &r);
    kg_lab_expect_exit(&r, KG_EXIT_FAILED, "1 passed, 1 failed, 0 skipped");
    ck_assert_msg(strstr(r.out, "may not list the layer unit") != NULL, "%s", r.out);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

struct span {
    double from_us, to_us;
};

/* From the first case of the program to the end of its last one. */
static struct span span_of(const json_t *results, const char *op) {
    struct span span = { 1e300, 0 };
    size_t i;
    const json_t *result;
    json_array_foreach(results, i, result) {
        const char *key = json_string_value(json_object_get(result, "key"));
        if (!key || !strstr(key, op)) continue;
        const double from = json_number_value(json_object_get(result, "started_us"));
        const double to = from + json_number_value(json_object_get(result, "duration_ns")) / 1e3;
        if (from < span.from_us) span.from_us = from;
        if (to > span.to_us) span.to_us = to;
    }
    ck_assert_msg(span.to_us > span.from_us, "%s", op);
    return span;
}

/* timed: NULL, or that the program of unit/green judges times. */
static void run_beside(const struct kg_record *rec, const char *timed, struct span *green, struct span *mixed) {
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    kg_lab_add(&lab, "test_mixed", "test_mixed");
    setenv("KIGO_SELFTEST_SLEEP_MS", "100", 1);
    if (timed) setenv("KIGO_SELFTEST_TIMED", timed, 1);
    struct kg_process_result r;
    kg_lab_check(&lab, ARGS("--jobs", "2"), &r);
    unsetenv("KIGO_SELFTEST_TIMED");
    unsetenv("KIGO_SELFTEST_SLEEP_MS");
    kg_lab_expect_exit(&r, KG_EXIT_FAILED, "10 passed, 11 failed, 2 skipped");
    char *bundle = kg_lab_bundle(&lab);
    json_t *results = kg_lab_lines(bundle, "results.ndjson"), *plan = kg_lab_lines(bundle, "plan.ndjson");
    *green = span_of(results, "unit/green/");
    *mixed = span_of(results, "unit/mixed/");
    ck_assert_ptr_null(json_object_get(json_array_get(plan, 0), "timed"));
    json_decref(plan);
    json_decref(results);
    free(bundle);
    kg_process_result_free(&r);
    ck_assert_int_eq(kg_path_remove(lab.suites, NULL), KG_OK);
    ck_assert_int_eq(kg_path_remove(lab.bundles, NULL), KG_OK);
    ck_assert_int_eq(kg_path_remove(lab.tmp, NULL), KG_OK);
    kg_lab_close(&lab);
}

static void what_judges_times_runs_alone_at_the_end(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct span green, mixed;
    run_beside(rec, NULL, &green, &mixed);
    ck_assert_double_lt(green.from_us, mixed.to_us);
    ck_assert_double_lt(mixed.from_us, green.to_us);
    run_beside(rec, "1", &green, &mixed);
    ck_assert_double_ge(green.from_us, mixed.to_us);
}

/* Of three programs two at a time, the last by name, one of whose cases may take longest, is among the first two. */
static void the_longest_of_several_begins_first(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "bench_pace", "test_a");
    kg_lab_add(&lab, "test_mixed", "test_b");
    kg_lab_add(&lab, "test_green", "test_c");
    setenv("KIGO_SELFTEST_LIMIT_S", "120", 1);
    struct kg_process_result r;
    kg_lab_check(&lab, ARGS("--jobs", "2"), &r);
    unsetenv("KIGO_SELFTEST_LIMIT_S");
    kg_lab_expect_exit(&r, KG_EXIT_FAILED, NULL);
    char *bundle = kg_lab_bundle(&lab);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    const struct span a = span_of(results, "bench/pace/"), b = span_of(results, "unit/mixed/"),
                      c = span_of(results, "unit/green/");
    ck_assert_msg(c.from_us < a.from_us || c.from_us < b.from_us, "begun at %.0f, %.0f, %.0f us", a.from_us, b.from_us,
                  c.from_us);
    json_decref(results);
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

static void a_sample_says_that_it_is_one(struct kg_record *rec, const void *arg) {
    (void)arg;
    static const char SAYS[] = "one case in 2";
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    struct kg_process_result r;
    kg_lab_check(&lab, ARGS("--sample", "2"), &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_OK);
    ck_assert_msg(strstr(r.out, SAYS) != NULL, "%s", r.out);
    kg_process_result_free(&r);
    char *bundle = kg_lab_bundle(&lab), *report = kg_path_join(bundle, "data/report.md");
    char *text;
    size_t len;
    ck_assert_int_eq(kg_file_read(report, &text, &len, NULL), KG_OK);
    ck_assert_msg(strstr(text, SAYS) != NULL, "%s", text);
    free(text);
    json_t *plan = kg_lab_lines(bundle, "plan.ndjson");
    ck_assert_uint_gt(json_array_size(plan), 0);
    ck_assert_uint_lt(json_array_size(plan), 6);
    const char *const show[] = { kg_program_path(), "show", bundle, NULL };
    const struct kg_process process = { .argv = show, .timeout_s = 60 };
    ck_assert_int_eq(kg_process_run(&process, &r, NULL), KG_OK);
    ck_assert_msg(strstr(r.out, SAYS) != NULL, "%s%s", r.out, r.err);
    json_decref(plan);
    free(report);
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_check(&lab, ARGS("--sample", "1000000"), &r);
    kg_lab_expect_exit(&r, KG_EXIT_INCOMPLETE, NULL);
    ck_assert_msg(strstr(r.err, "none was selected") != NULL, "%s", r.err);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

#define PLAN(function)                                                                                                 \
    { .layer = "integration", .op = "check_plan", .name = #function, .run = function, .timeout_s = 120 }

static const struct kg_case CASES[] = {
    PLAN(programs_of_other_layers_are_not_asked),
    PLAN(a_layer_in_another_folder_is_an_error),
    PLAN(what_judges_times_runs_alone_at_the_end),
    PLAN(the_longest_of_several_begins_first),
    PLAN(a_sample_says_that_it_is_one),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
