/* Runs of `kigo check` that go wrong: programs that break the rules, kills and signals in the middle, full disks, two
 * runs at once. No planned case is lost, and what is left behind can be published and verified. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "report/report.h"
#include "suites/harness/must.h"
#include "suites/integration/check_lab.h"
#include <check.h>
#include <kigo/bundle.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct broken {
    const char *rule, *status, *reason, *ends; /* ends: status of ends_cleanly */
};
static const struct broken BROKEN[] = {
    { "garbage", "crash", "event 1 is no JSON", "fail" },
    { "garbage_in_case", "crash", "event 2 is no JSON", "fail" },
    { "unfinished_line", "crash", "never started", "fail" },
    { "unknown_key", "crash", "'unit/broken/other'", "fail" },
    { "unknown_long_key", "crash", "which is not a case", "fail" },
    { "unknown_wide_key", "crash", "which is not a case", "fail" },
    { "end_without_start", "crash", "no case runs", "fail" },
    { "wrong_types", "crash", "'errors' is not a list", "fail" },
    { "unknown_status", "crash", "an end without a status", "fail" },
    { "no_duration", "crash", "or without its duration", "fail" },
    { "false_pass", "fail", "'y' is outside its tolerance", "pass" },
    { "escaping_attachment", "crash", "'../../../escaped'", "fail" },
    { "never_starts", "crash", "never started", "fail" },
    { "dies_after_done", "pass", NULL, "fail" },
    { "floods", "crash", "longer than", "fail" },
    { "closes_everything", "crash", "in this case; its last words: these are the last words", "fail" },
};

static void program_that_breaks_the_rules(struct kg_record *rec, const void *arg) {
    const struct broken *row = arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    char *name = kg_xasprintf("test_%s", row->rule);
    kg_lab_add(&lab, "test_broken", name);
    struct kg_process_result r;
    kg_lab_check(&lab, ARGS("--quiet"), &r);
    kg_lab_expect_exit(&r, KG_EXIT_FAILED, NULL);
    char *bundle = kg_lab_bundle(&lab), *ends = kg_xasprintf("harness/%s/ends_cleanly", name);
    const struct kg_lab_expected rows[] = { { "unit/broken/one", row->status, row->reason },
                                            { ends, row->ends,
                                              strcmp(row->ends, "pass") == 0 ? NULL : "the program" } };
    kg_lab_expect_records(bundle, rows, KG_COUNT_OF(rows));
    kg_lab_expect_verified(bundle);
    free(bundle);
    free(ends);
    free(name);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

struct unlisted {
    const char *program, *as, *reason;
};
static const struct unlisted UNLISTED[] = {
    { "test_twice", "test_twice", "two cases have the key unit/twice/same" },
    { "test_broken", "test_list_crashes", "listing its cases ended" },
    { "test_broken", "test_lists_garbage", "line 1 of its list" },
    { "test_broken", "test_lists_nothing", "it lists no case" },
};

/* Such a program is red by itself, and the one beside it runs all the same. */
static void program_that_cannot_list(struct kg_record *rec, const void *arg) {
    const struct unlisted *row = arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, row->program, row->as);
    kg_lab_add(&lab, "test_green", "test_zz_green");
    struct kg_process_result r;
    kg_lab_check(&lab, NULL, &r);
    kg_lab_expect_exit(&r, KG_EXIT_FAILED, "7 passed, 1 failed, 0 skipped");
    char *bundle = kg_lab_bundle(&lab), *key = kg_xasprintf("harness/%s/lists", row->as);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    kg_lab_expect_status(results, key, "crash");
    ck_assert_ptr_nonnull(
        strstr(json_string_value(json_object_get(kg_lab_result(results, key), "reason")), row->reason));
    json_decref(results);
    kg_lab_expect_verified(bundle);
    free(key);
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

/* Two programs that claim one key: the second is not believed. */
static void key_of_two_programs(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_a");
    kg_lab_add(&lab, "test_green", "test_b");
    struct kg_process_result r;
    kg_lab_check(&lab, NULL, &r);
    kg_lab_expect_exit(&r, KG_EXIT_FAILED, "7 passed, 1 failed, 0 skipped");
    ck_assert_ptr_nonnull(strstr(r.out, "is also one of test_a"));
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

static void two_runs_at_once(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    setenv("KIGO_SELFTEST_SLEEP_MS", "30", 1);
    const pid_t first = kg_lab_start(&lab, NULL), second = kg_lab_start(&lab, NULL);
    const int first_end = kg_lab_wait(first), second_end = kg_lab_wait(second);
    unsetenv("KIGO_SELFTEST_SLEEP_MS");
    ck_assert_int_eq(first_end, 0);
    ck_assert_int_eq(second_end, 0);
    ck_assert_uint_eq(kg_lab_count(&lab, ""), 2);
    ck_assert_uint_eq(kg_lab_count(&lab, ".tmp-"), 0);
    struct kg_dir_list list;
    ck_assert_int_eq(kg_dir_list(lab.bundles, &list, NULL), KG_OK);
    for (size_t i = 0; i < list.n_names; i++) {
        char *path = kg_path_join(lab.bundles, list.names[i]);
        if (kg_path_is_dir(path)) kg_lab_expect_verified(path);
        free(path);
    }
    kg_dir_list_free(&list);
    kg_lab_close(&lab);
}

/* The process that ran the case and what it started, whose numbers are in a file, are gone: within 2 s as a rule, but a
 * busy machine with a sanitized build takes its time. */
static void expect_gone(const char *pid_file) {
    char *text;
    size_t size;
    ck_assert_int_eq(kg_file_read(pid_file, &text, &size, NULL), KG_OK);
    char *rest = text;
    for (int p = 0; p < 3; p++) {
        const pid_t pid = (pid_t)strtol(rest, &rest, 10);
        ck_assert_int_gt(pid, 1);
        for (int i = 0; i < 3000 && kill(pid, 0) == 0; i++) usleep(10000);
        const bool alive = kill(pid, 0) == 0;
        if (alive) kill(pid, SIGKILL);
        ck_assert_msg(!alive, "the suite's process %d (%d) outlived the run", (int)pid, p);
    }
    free(text);
}

static pid_t start_slow_run(const struct kg_lab *lab, const char *pid_file) {
    kg_lab_add(lab, "test_green", "test_green");
    setenv("KIGO_SELFTEST_SLEEP_MS", "0", 1);
    setenv("KIGO_SELFTEST_STUCK", "three", 1);
    setenv("KIGO_SELFTEST_PID_FILE", pid_file, 1);
    const pid_t pid = kg_lab_start(lab, NULL);
    unsetenv("KIGO_SELFTEST_SLEEP_MS");
    unsetenv("KIGO_SELFTEST_STUCK");
    unsetenv("KIGO_SELFTEST_PID_FILE");
    kg_lab_wait_for_start(lab, "unit/green/three");
    for (int i = 0; i < 6000 && !kg_path_exists(pid_file); i++) usleep(10000);
    return pid;
}

static void expect_kigo(const char *const *argv) {
    const struct kg_process process = { .argv = argv };
    struct kg_process_result r;
    ck_assert_int_eq(kg_process_run(&process, &r, NULL), KG_OK);
    ck_assert_msg(r.exit_code == KG_EXIT_OK, "%s %s: exit code %d: %s%s", argv[0], argv[1], r.exit_code, r.out, r.err);
    kg_process_result_free(&r);
}

static void kill_in_the_middle(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    char *pid_file = kg_path_join(lab.dir, "pid");
    const pid_t pid = start_slow_run(&lab, pid_file);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    const int end = kg_lab_wait(pid);
    ck_assert(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL);
    expect_gone(pid_file);
    ck_assert_uint_eq(kg_lab_count(&lab, ""), 0);
    expect_kigo(ARGS(kg_program_path(), "recover", "--bundles", lab.bundles));
    char *bundle = kg_lab_bundle(&lab);
    expect_kigo(ARGS(kg_program_path(), "verify", bundle));
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    ck_assert_uint_eq(json_array_size(results), 7);
    kg_lab_expect_status(results, "unit/green/one", "pass");
    kg_lab_expect_status(results, "unit/green/two", "pass");
    kg_lab_expect_status(results, "unit/green/three", "crash");
    kg_lab_expect_status(results, "unit/green/four", "norun");
    kg_lab_expect_status(results, "unit/green/six", "norun");
    kg_lab_expect_status(results, "harness/test_green/ends_cleanly", "norun");
    json_decref(results);
    free(bundle);
    free(pid_file);
    kg_lab_close(&lab);
}

/* While programs say what their cases are there is no bundle yet: nothing is left at all. */
static void ended_while_cases_are_listed(struct kg_record *rec, const void *arg) {
    struct kg_lab lab;
    struct kg_error err;
    (void)arg;
    kg_lab_open(&lab, rec);
    char *pid_file = kg_path_join(lab.dir, "pid"), *program = kg_path_join(lab.suites, "test_slow_to_list"),
         *script = kg_xasprintf("#!/bin/sh\necho $$ >'%s.new'\nmv '%s.new' '%s'\nexec sleep 600\n", pid_file, pid_file,
                                pid_file);
    kg_must(kg_file_write(program, script, strlen(script), &err), &err);
    ck_assert_int_eq(chmod(program, 0755), 0);
    const pid_t pid = kg_lab_start(&lab, NULL);
    for (int i = 0; i < 6000 && !kg_path_exists(pid_file); i++) usleep(10000);
    char *text;
    size_t size;
    kg_must(kg_file_read(pid_file, &text, &size, &err), &err);
    ck_assert_int_eq(kill(pid, SIGINT), 0);
    ck_assert_int_ne(kg_lab_wait(pid), 0);
    kill((pid_t)atoi(text), SIGKILL); /* a terminal's Ctrl-C reaches it as well */
    kg_lab_expect_empty(lab.tmp);
    kg_lab_expect_empty(lab.bundles);
    free(text);
    free(script);
    free(program);
    free(pid_file);
    kg_lab_close(&lab);
}

/* Programs that were ended lived as long as their cases did. */
static void expect_lives_hold_cases(const char *bundle) {
    char *path = kg_path_join(bundle, "data/overhead.json");
    json_t *overhead = json_load_file(path, 0, NULL);
    const json_int_t alive_ns = json_integer_value(json_object_get(overhead, "programs_ns"));
    const json_int_t in_cases_ns = json_integer_value(json_object_get(overhead, "in_cases_ns"));
    ck_assert_msg(in_cases_ns > 0 && alive_ns >= in_cases_ns, "programs lived %lld ns, their cases %lld",
                  (long long)alive_ns, (long long)in_cases_ns);
    json_decref(overhead);
    free(path);
}

static void interrupt_in_the_middle(struct kg_record *rec, const void *arg) {
    const int signal_number = *(const int *)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    char *pid_file = kg_path_join(lab.dir, "pid");
    const pid_t pid = start_slow_run(&lab, pid_file);
    ck_assert_int_eq(kill(pid, signal_number), 0);
    const int end = kg_lab_wait(pid);
    ck_assert_msg(WIFEXITED(end) && WEXITSTATUS(end) == KG_EXIT_INCOMPLETE, "wait status %d", end);
    expect_gone(pid_file);
    char *bundle = kg_lab_bundle(&lab);
    kg_lab_expect_verified(bundle);
    expect_lives_hold_cases(bundle);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    ck_assert_uint_eq(json_array_size(results), 7);
    kg_lab_expect_status(results, "unit/green/two", "pass");
    kg_lab_expect_status(results, "unit/green/four", "norun");
    const char *in_flight = json_string_value(json_object_get(kg_lab_result(results, "unit/green/three"), "status"));
    ck_assert_str_ne(in_flight, "pass");
    json_decref(results);
    kg_lab_expect_empty(lab.tmp);
    free(bundle);
    free(pid_file);
    kg_lab_close(&lab);
}

/* A case at its time limit, one that stops its guard, and one that kills it: nothing that it started is left. */
static void time_limit(struct kg_record *rec, const void *arg) {
    const char *guard = arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    char *pid_file = kg_path_join(lab.dir, "pid");
    setenv("KIGO_SELFTEST_LIMIT_S", "1", 1);
    if (guard) setenv("KIGO_SELFTEST_GUARD", guard, 1);
    const pid_t pid = start_slow_run(&lab, pid_file);
    unsetenv("KIGO_SELFTEST_LIMIT_S");
    unsetenv("KIGO_SELFTEST_GUARD");
    const int end = kg_lab_wait(pid);
    ck_assert_msg(WIFEXITED(end) && WEXITSTATUS(end) == KG_EXIT_FAILED, "wait status %d", end);
    expect_gone(pid_file);
    char *bundle = kg_lab_bundle(&lab);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    const bool killed = guard && atoi(guard) == SIGKILL;
    kg_lab_expect_status(results, "unit/green/three", killed ? "crash" : "timeout");
    kg_lab_expect_status(results, "unit/green/six", "pass");
    json_decref(results);
    free(bundle);
    free(pid_file);
    kg_lab_close(&lab);
}

/* A file size limit stands for a full disk: the same writes fail, at the same places. */
static void disk_that_fills_up(struct kg_record *rec, const void *arg) {
    const char *blocks = arg; /* of 512 bytes */
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_mixed", "test_mixed");
    char *script = kg_xasprintf("trap '' XFSZ; ulimit -f %s; exec '%s' check --suites '%s' --bundles '%s'", blocks,
                                kg_program_path(), lab.suites, lab.bundles);
    const char *const argv[] = { "/bin/sh", "-c", script, NULL };
    const struct kg_process process = { .argv = argv };
    struct kg_process_result r;
    ck_assert_int_eq(kg_process_run(&process, &r, NULL), KG_OK);
    ck_assert_msg(r.exit_code == KG_EXIT_INCOMPLETE, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    ck_assert_ptr_nonnull(strstr(r.err, "File too large"));
    ck_assert_uint_eq(kg_lab_count(&lab, ""), 0);
    size_t n_recovered = 0;
    struct kg_error err;
    const enum kg_status status = kg_bundle_recover(lab.bundles, kg_report_documents, &n_recovered, &err);
    ck_assert_msg(status == KG_OK, "%s", err.message);
    for (size_t i = 0; i < n_recovered; i++) {
        char *bundle = kg_lab_bundle(&lab);
        kg_lab_expect_verified(bundle);
        free(bundle);
    }
    ck_assert_uint_eq(kg_lab_count(&lab, ".tmp-"), 0);
    kg_process_result_free(&r);
    free(script);
    kg_lab_close(&lab);
}

/* kigo check | head: the run goes on, and only then says that its report was lost. */
static void reader_that_goes_away(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    const char *const argv[] = { kg_program_path(), "check",     "--tap",     "--suites",
                                 lab.suites,        "--bundles", lab.bundles, NULL };
    const struct kg_process process = { .argv = argv, .broken_stdout = true };
    struct kg_process_result r;
    ck_assert_int_eq(kg_process_run(&process, &r, NULL), KG_OK);
    ck_assert_msg(r.exit_code == KG_EXIT_INCOMPLETE, "exit code %d: %s", r.exit_code, r.err);
    char *bundle = kg_lab_bundle(&lab);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    kg_lab_expect_status(results, "unit/green/six", "pass");
    json_decref(results);
    kg_lab_expect_verified(bundle);
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

/* Names of folders may hold any bytes; records may not. */
static void folder_that_is_not_utf8(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    char *folder = kg_path_join(lab.suites, "caf\xe9 [#]");
    ck_assert_int_eq(kg_dir_make(folder, NULL), KG_OK);
    kg_lab_add(&lab, "test_mixed", "caf\xe9 [#]/test_mixed");
    kg_lab_add(&lab, "test_twice", "caf\xe9 [#]/test_twice");
    struct kg_process_result r;
    kg_lab_check(&lab, ARGS("--json"), &r);
    ck_assert_msg(r.exit_code == KG_EXIT_FAILED, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    json_t *o = json_loadb(r.out, r.out_len, 0, NULL);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "planned")), 17);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "norun")), 0);
    json_decref(o);
    char *bundle = kg_lab_bundle(&lab);
    kg_lab_expect_verified(bundle);
    free(bundle);
    free(folder);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

static const int INTERRUPT = SIGINT, TERMINATE = SIGTERM;
#define E2E(name_, run_, arg_)                                                                                         \
    { .layer = "integration", .op = "check", .name = name_, .run = run_, .arg = arg_, .timeout_s = 120 }

static const struct kg_case CASES[] = {
    E2E("key_of_two_programs", key_of_two_programs, NULL),
    E2E("two_runs_at_once", two_runs_at_once, NULL),
    E2E("kill_in_the_middle", kill_in_the_middle, NULL),
    E2E("interrupt_in_the_middle", interrupt_in_the_middle, &INTERRUPT),
    E2E("ended_while_cases_are_listed", ended_while_cases_are_listed, NULL),
    E2E("time_limit", time_limit, NULL),
    E2E("guard_stopped", time_limit, "19"), /* SIGSTOP */
    E2E("guard_killed", time_limit, "9"),
    E2E("terminate_in_the_middle", interrupt_in_the_middle, &TERMINATE),
    E2E("disk_full_at_once", disk_that_fills_up, "1"),
    E2E("disk_full_in_the_records", disk_that_fills_up, "8"),
    E2E("reader_that_goes_away", reader_that_goes_away, NULL),
    E2E("folder_that_is_not_utf8", folder_that_is_not_utf8, NULL),
};

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) kg_case_list_add(list, &CASES[i]);
    for (size_t i = 0; i < KG_COUNT_OF(BROKEN); i++) {
        char name[64];
        snprintf(name, sizeof name, "program_%s", BROKEN[i].rule);
        const struct kg_case c = E2E(name, program_that_breaks_the_rules, &BROKEN[i]);
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(UNLISTED); i++) {
        char name[64];
        snprintf(name, sizeof name, "unlisted_%s", UNLISTED[i].as);
        const struct kg_case c = E2E(name, program_that_cannot_list, &UNLISTED[i]);
        kg_case_list_add(list, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
