/* Which cases `kigo check` takes, by every way of asking; that --list says what runs; and what goes on at a failure. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/integration/check_lab.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A lab with the programs that pass and that fail in every way. */
static void open_lab(struct kg_lab *lab, const struct kg_record *rec) {
    kg_lab_open(lab, rec);
    kg_lab_add(lab, "test_green", "test_green");
    kg_lab_add(lab, "test_mixed", "test_mixed");
}

/* The keys of a bundle's plan, a line each; malloc'ed. */
static char *planned_keys(const char *bundle) {
    struct kg_buffer keys = KG_BUFFER_INIT;
    json_t *plan = kg_lab_lines(bundle, "plan.ndjson");
    size_t i;
    const json_t *line;
    json_array_foreach(plan, i, line) kg_buffer_printf(&keys, "%s\n", json_string_value(json_object_get(line, "key")));
    json_decref(plan);
    return keys.data ? keys.data : kg_xstrdup("");
}

struct selection {
    const char *name, *args[6];
    const char *takes; /* the keys, a line each; NULL: only that the plan has the list's */
};
static const struct selection SELECTIONS[] = {
    { "a_word", { "-k", "GREEN/t" }, "unit/green/two\nunit/green/three\n" },
    { "either_word", { "-k", "two", "-k", "six" }, "unit/green/two\nunit/green/six\n" },
    { "word_and_filter", { "-k", "TH", "--filter", "*/green/*e*" }, "unit/green/three\n" },
    { "requirement", { "--spec", "SELF-1" }, "unit/mixed/passes_first\nunit/mixed/passes_last\n" },
    { "requirement_and_word", { "--spec", "SELF-1", "-k", "last" }, "unit/mixed/passes_last\n" },
    { "layers", { "--layer", "haiku,unit", "-k", "first" }, "unit/mixed/passes_first\n" },
    { "harness", { "--layer", "harness", "-k", "green" }, NULL },
    { "filter", { "--filter", "*/green/*" }, NULL },
    { "harness_key", { "--case", "harness/test_green/ends_cleanly", "--case", "unit/mixed/skips" }, NULL },
};

static void the_list_is_the_plan(struct kg_record *rec, const void *arg) {
    const struct selection *s = arg;
    struct kg_lab lab;
    struct kg_process_result listed, ran;
    open_lab(&lab, rec);
    const char *list_args[8] = { "--list" };
    memcpy(list_args + 1, s->args, sizeof s->args);
    kg_lab_check(&lab, list_args, &listed);
    ck_assert_msg(listed.exit_code == KG_EXIT_OK, "%s", listed.err);
    if (s->takes) ck_assert_str_eq(listed.out, s->takes);
    kg_lab_check(&lab, s->args, &ran);
    char *bundle = kg_lab_bundle(&lab), *keys = planned_keys(bundle);
    ck_assert_str_eq(listed.out, keys);
    ck_assert_ptr_nonnull(strstr(listed.out, "unit/"));
    if (s->takes == NULL) ck_assert_ptr_nonnull(strstr(listed.out, "harness/test_green/ends_cleanly"));
    kg_process_result_free(&ran);
    kg_process_result_free(&listed);
    free(keys);
    free(bundle);
    kg_lab_close(&lab);
}

static void a_program_that_cannot_list_is_listed(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_broken", "test_lists_garbage");
    struct kg_process_result r;
    kg_lab_check(&lab, ARGS("--list"), &r);
    ck_assert_str_eq(r.out, "harness/test_lists_garbage/lists\n");
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

static void refused(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *args[4];
        int exit_code;
        const char *says;
    } ROWS[] = {
        { { "--layer", "unit,no" }, KG_EXIT_USAGE, "'no' is none of unit" },
        { { "--layer", "bench" }, KG_EXIT_USAGE, "kigo bench" },
        { { "--spec", "FT-0" }, KG_EXIT_INCOMPLETE, "none was selected" },
        { { "-k", "nowhere" }, KG_EXIT_INCOMPLETE, "none was selected" },
        { { "--failed" }, KG_EXIT_NOTHING_TO_DO, "no run of 'kigo check' in" },
        { { "--failed", "--bundles", "/nowhere/at/all" }, KG_EXIT_NOTHING_TO_DO, "no run of 'kigo check' in" },
        { { "--failed", "--filter", "*" }, KG_EXIT_USAGE, "--failed" },
        { { "-v", "--quiet" }, KG_EXIT_USAGE, "exclude each other" },
    };
    (void)arg;
    struct kg_lab lab;
    open_lab(&lab, rec);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        struct kg_process_result r;
        kg_lab_check(&lab, ROWS[i].args, &r);
        ck_assert_msg(r.exit_code == ROWS[i].exit_code && strstr(r.err, ROWS[i].says), "row %zu: %d %s", i, r.exit_code,
                      r.err);
        kg_process_result_free(&r);
    }
    kg_lab_close(&lab);
}

/* Cases that failed run again, alone and with that run's seed; skips and passes do not. Once all pass there is nothing
 * to do. */
static void what_failed_runs_again(struct kg_record *rec, const void *arg) {
    static const char FAILED[] = "unit/mixed/fails[-,f32,M=3 N='x' $(5)]\nunit/mixed/exits_early\n";
    (void)arg;
    struct kg_lab lab;
    struct kg_process_result r;
    open_lab(&lab, rec);
    kg_lab_check(&lab,
                 ARGS("--seed", "9", "--filter", "*/mixed/passes*", "--filter", "*/fails*", "--filter", "*exits_early",
                      "--filter", "*/skips"),
                 &r);
    kg_lab_expect_exit(&r, KG_EXIT_FAILED, "2 passed, 2 failed, 1 skipped");
    kg_process_result_free(&r);
    kg_lab_check(&lab, ARGS("--failed", "--list"), &r);
    ck_assert_str_eq(r.out, FAILED);
    kg_process_result_free(&r);
    char *first = kg_lab_bundle(&lab);
    kg_lab_check(&lab, ARGS("--failed", "-k", "exits", "--json"), &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_FAILED);
    json_t *said = json_loads(r.out, 0, NULL);
    const char *dir = json_string_value(json_object_get(said, "bundle"));
    ck_assert_msg(dir != NULL, "%s", r.out);
    char *keys = planned_keys(dir), *env_path = kg_path_join(dir, "data/env.json"), *env;
    size_t env_bytes;
    ck_assert_int_eq(kg_file_read(env_path, &env, &env_bytes, NULL), KG_OK);
    ck_assert_str_eq(keys, "unit/mixed/exits_early\n");
    json_t *about = json_loads(env, 0, NULL), *run = json_object_get(about, "run");
    ck_assert_str_eq(json_string_value(json_object_get(run, "seed")), "9");
    char *argv = json_dumps(json_object_get(run, "argv"), JSON_COMPACT);
    ck_assert_msg(strstr(argv, "--case\",\"unit/mixed/exits_early") && !strstr(argv, "--failed"), "%s", argv);
    kg_process_result_free(&r);
    kg_lab_check(&lab, ARGS("--case", "unit/green/one"), &r);
    kg_lab_expect_exit(&r, KG_EXIT_OK, NULL);
    kg_process_result_free(&r);
    kg_lab_check(&lab, ARGS("--failed"), &r);
    kg_lab_expect_exit(&r, KG_EXIT_NOTHING_TO_DO, NULL);
    ck_assert_msg(strstr(r.err, "nothing failed in the last run") != NULL, "%s", r.err);
    kg_process_result_free(&r);
    free(argv);
    json_decref(about);
    free(env);
    free(env_path);
    free(keys);
    json_decref(said);
    free(first);
    kg_lab_close(&lab);
}

/* Nothing starts after the first failure, of that program or another; the records say what did not run. */
static void stops_at_the_first_failure(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    struct kg_process_result r;
    open_lab(&lab, rec);
    kg_lab_check(&lab, ARGS("-x", "-v"), &r);
    ck_assert_msg(r.exit_code == KG_EXIT_FAILED, "%d: %s%s", r.exit_code, r.out, r.err);
    ck_assert_msg(strstr(r.out, "stopped at the first failure") != NULL, "%s", r.out);
    ck_assert_msg(strstr(r.out, "pass unit/green/six  ") != NULL, "%s", r.out); /* -v: a line a case */
    for (const char *at = strstr(r.out, "pass unit/"); at; at = strstr(at + 1, "pass unit/"))
        ck_assert_msg(at == r.out || at[-1] == '\n', "%s", r.out);
    char *bundle = kg_lab_bundle(&lab);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    kg_lab_expect_status(results, "unit/green/six", "pass");
    kg_lab_expect_status(results, "unit/mixed/passes_first", "pass");
    kg_lab_expect_status(results, "unit/mixed/fails[-,f32,M=3 N='x' $(5)]", "fail");
    kg_lab_expect_status(results, "unit/mixed/skips", "norun");
    kg_lab_expect_status(results, "unit/mixed/passes_last", "norun");
    kg_lab_expect_verified(bundle);
    json_decref(results);
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_check(&lab, ARGS("-x", "-k", "green"), &r); /* none fails: all run */
    kg_lab_expect_exit(&r, KG_EXIT_OK, "7 passed, 0 failed, 0 skipped");
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

/* A program of the lab that notes each time it is started, and then is test_mixed. */
static void add_counted(const struct kg_lab *lab, char **path, char **count_path) {
    *path = kg_path_join(lab->suites, "test_mixed");
    *count_path = kg_path_join(lab->dir, "starts");
    char *script = kg_xasprintf("#!/bin/sh\necho start >>'%s'\nexec '%s' \"$@\"\n", *count_path,
                                kg_suites_path("harness/selftest/test_mixed"));
    ck_assert_int_eq(kg_file_write(*path, script, strlen(script), NULL), KG_OK);
    ck_assert_int_eq(chmod(*path, 0755), 0);
    free(script);
}

/* How often it was started since the last call. */
static size_t starts(const char *count_path) {
    struct stat info;
    const size_t n = stat(count_path, &info) == 0 ? (size_t)info.st_size / strlen("start\n") : 0;
    (void)unlink(count_path);
    return n;
}

static void expect_list(const struct kg_lab *lab, const char *word, const char *other_word, const char *keys) {
    struct kg_process_result r;
    kg_lab_check(lab, ARGS("--list", "-k", word, "-k", other_word), &r);
    ck_assert_msg(strcmp(r.out, keys) == 0, "-k %s -k %s: %s%s", word, other_word, r.out, r.err);
    kg_process_result_free(&r);
}

/* Replaces a text in the only file of notes about the programs of a folder. */
static void forge_note(const char *cache, const char *folder, const char *from, const char *to) {
    struct kg_dir_list list;
    size_t n_forged = 0;
    char *dir = kg_path_join(cache, "kigo");
    ck_assert_int_eq(kg_dir_list(dir, &list, NULL), KG_OK);
    for (size_t i = 0; i < list.n_names; i++) {
        char *path = kg_path_join(dir, list.names[i]), *text;
        size_t size_bytes;
        ck_assert_int_eq(kg_file_read(path, &text, &size_bytes, NULL), KG_OK);
        char *place = strstr(text, from);
        if (place && strstr(text, folder)) {
            ck_assert_uint_eq(strlen(from), strlen(to));
            for (size_t c = 0; to[c]; c++) place[c] = to[c];
            ck_assert_int_eq(kg_file_write(path, text, size_bytes, NULL), KG_OK);
            n_forged++;
        }
        free(text);
        free(path);
    }
    ck_assert_uint_eq(n_forged, 1);
    kg_dir_list_free(&list);
    free(dir);
}

/* Programs that have none of the cases are not started as long as they are the files that listed them; what they have
 * is never taken from a note. */
static void lists_are_known(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    char *path, *count, cache[4096];
    (void)arg;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    add_counted(&lab, &path, &count);
    snprintf(cache, sizeof cache, "%s/cache", lab.dir);
    ck_assert_int_eq(setenv("XDG_CACHE_HOME", cache, 1), 0);
    nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL); /* a file that is written to may not be noted */
    expect_list(&lab, "GREEN/two", "GREEN/six", "unit/green/two\nunit/green/six\n");
    ck_assert_uint_eq(starts(count), 1);
    expect_list(&lab, "GREEN/two", "GREEN/six", "unit/green/two\nunit/green/six\n");
    ck_assert_uint_eq(starts(count), 0);
    ck_assert_int_eq(setenv("KIGO_SELFTEST_MORE_LINES", "1", 1), 0); /* a list may follow the environment */
    expect_list(&lab, "GREEN/two", "GREEN/six", "unit/green/two\nunit/green/six\n");
    ck_assert_uint_eq(starts(count), 1);
    ck_assert_int_eq(unsetenv("KIGO_SELFTEST_MORE_LINES"), 0);
    /* What is in it, and what is in nobody's list, is asked of the program. */
    expect_list(&lab, "mixed/passes_first", "GREEN/six", "unit/green/six\nunit/mixed/passes_first\n");
    ck_assert_uint_eq(starts(count), 1);
    expect_list(&lab, "nobody's", "none's", "");
    ck_assert_uint_eq(starts(count), 1);
    /* A note that leaves out a case: seen as soon as its program runs, and then no other note is taken. */
    forge_note(cache, lab.suites, "mixed/passes_last", "mixed/passes_lost");
    expect_list(&lab, "passes_last", "passes_first", "unit/mixed/passes_first\nunit/mixed/passes_last\n");
    expect_list(&lab, "passes_last", "GREEN/six", "unit/green/six\nunit/mixed/passes_last\n");
    forge_note(cache, lab.suites, "mixed/passes_last", "mixed/passes_lost");
    expect_list(&lab, "passes_last", "passes_lost", "unit/mixed/passes_last\n");
    (void)starts(count);
    forge_note(cache, "selftest", "green/six", "green/sex");
    forge_note(cache, lab.suites, "mixed/passes_last", "mixed/passes_lost");
    expect_list(&lab, "GREEN/six", "passes_first", "unit/green/six\nunit/mixed/passes_first\n");
    /* Another file by that name. */
    FILE *file = fopen(path, "ae");
    ck_assert_ptr_nonnull(file);
    fputs("# longer\n", file);
    ck_assert_int_eq(fclose(file), 0);
    (void)starts(count);
    expect_list(&lab, "GREEN/two", "GREEN/six", "unit/green/two\nunit/green/six\n");
    ck_assert_uint_eq(starts(count), 1);
    free(count);
    free(path);
    kg_lab_close(&lab);
}

#define SELECT(function)                                                                                               \
    { .layer = "integration", .op = "check_select", .name = #function, .run = function, .timeout_s = 120 }

static void build(struct kg_case_list *list) {
    static const struct kg_case CASES[] = {
        SELECT(a_program_that_cannot_list_is_listed),
        SELECT(refused),
        SELECT(lists_are_known),
        SELECT(what_failed_runs_again),
        SELECT(stops_at_the_first_failure),
    };
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) kg_case_list_add(list, &CASES[i]);
    for (size_t i = 0; i < KG_COUNT_OF(SELECTIONS); i++) {
        const struct kg_case c = { .layer = "integration",
                                   .op = "check_list_is_plan",
                                   .name = SELECTIONS[i].name,
                                   .run = the_list_is_the_plan,
                                   .arg = &SELECTIONS[i],
                                   .timeout_s = 120 };
        kg_case_list_add(list, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
