/* `kigo check` held to its promises on suites whose cases fail in every way a case can: every planned case has its
 * status, the exit code says what happened, and the bundle verifies. */
#include "backend/gpu.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "base/threads.h"
#include "bundle/records.h"
#include "run/runner.h"
#include "suites/harness/must.h"
#include "suites/integration/check_lab.h"
#include "suites/support/fake_nvml.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct kg_lab_expected MIXED[] = {
    { "unit/mixed/passes_first", "pass", NULL },
    { "unit/mixed/fails[-,f32,M=3 N='x' $(5)]", "fail", "outside its tolerance by a factor of 54" },
    { "unit/mixed/skips", "skip", "nothing to test with" },
    { "unit/mixed/skips_gpu[cuda,-,-]", "skip", "nothing to test with" },
    { "unit/mixed/segfaults", "crash", "in this case" },
    { "unit/mixed/hangs", "timeout", "ran past its limit" },
    { "unit/mixed/exits_early", "crash", "exit code 0 in this case" },
    { "unit/mixed/tolerance_without_why", "fail", "does not say why" },
    { "unit/mixed/tolerance_without_limit", "fail", "no limit" },
    { "unit/mixed/nothing_compared", "fail", "n = 0" },
    { "unit/mixed/nan_in_both", "fail", "1 not finite" },
    { "unit/mixed/element_left_out", "fail", "of 5 elements 1 never written" },
    { "unit/mixed/written_before", "fail", "4 bytes before" },
    { "unit/mixed/written_after", "fail", "4 bytes after" },
    { "unit/mixed/passes_last", "pass", NULL },
    { "harness/test_mixed/ends_cleanly", "pass", NULL },
};
enum { MIXED_PASS = 3, MIXED_FAIL = 11, MIXED_SKIP = 2 };

static void green_run_passes(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    struct kg_process_result r;
    kg_lab_check(&lab, NULL, &r);
    kg_lab_expect_exit(&r, KG_EXIT_OK, "7 passed, 0 failed, 0 skipped");
    char *bundle = kg_lab_bundle(&lab);
    kg_lab_expect_verified(bundle);
    json_t *lines = kg_lab_lines(bundle, "transcripts/unit.ndjson");
    ck_assert_uint_eq(json_array_size(lines), 6);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(lines, 2), "key")), "unit/green/three");
    json_decref(lines);
    kg_lab_expect_empty(lab.tmp); /* the cases' scratch folders too */
    kg_process_result_free(&r);
    free(bundle);
    kg_lab_close(&lab);
}

/* NVML by the suites' own library: its figures lie in the bundle, under its seal. */
static void telemetry_is_sealed(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    struct kg_process_result r;
    setenv("KIGO_NVML", kg_fake_nvml_path(), 1);
    kg_lab_check(&lab, NULL, &r);
    unsetenv("KIGO_NVML");
    kg_lab_expect_exit(&r, KG_EXIT_OK, "7 passed, 0 failed, 0 skipped");
    char *bundle = kg_lab_bundle(&lab), *path = kg_path_join(bundle, "data/telemetry.csv"), *text;
    size_t len;
    struct kg_error err;
    kg_lab_expect_verified(bundle);
    ck_assert_msg(kg_file_read(path, &text, &len, &err) == KG_OK, "%s", err.message);
    ck_assert_ptr_nonnull(strstr(text, ",1,1501,2600,123456,700000,41,0x24,1000000000,77\n"));
    free(text);
    free(path);
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

/* --compress: what is long is sealed as a frame, what is short stays as it is, and the bundle is as good. */
static void long_files_are_compressed(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    struct kg_process_result r;
    setenv("KIGO_SELFTEST_MORE_LINES", "1000", 1);
    kg_lab_check(&lab, ARGS("--compress"), &r);
    unsetenv("KIGO_SELFTEST_MORE_LINES");
    kg_lab_expect_exit(&r, KG_EXIT_OK, "7 passed, 0 failed, 0 skipped");
    char *bundle = kg_lab_bundle(&lab), *plain = kg_path_join(bundle, "data/transcripts/unit.ndjson");
    char *compressed = kg_xasprintf("%s.zst", plain), *plan = kg_path_join(bundle, "data/plan.ndjson");
    kg_lab_expect_verified(bundle);
    ck_assert(kg_path_exists(compressed) && !kg_path_exists(plain) && kg_path_exists(plan));
    free(plan);
    free(compressed);
    free(plain);
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

static void no_nvml_no_telemetry(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    struct kg_process_result r;
    setenv("KIGO_NVML", "/nowhere/libnvidia-ml.so.1", 1);
    kg_lab_check(&lab, NULL, &r);
    unsetenv("KIGO_NVML");
    kg_lab_expect_exit(&r, KG_EXIT_OK, "7 passed, 0 failed, 0 skipped");
    char *bundle = kg_lab_bundle(&lab), *path = kg_path_join(bundle, "data/telemetry.csv");
    ck_assert(!kg_path_exists(path));
    free(path);
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

/* Each of the six cases recorded the samples 30, 10, 20 ns. */
static void samples_are_kept_raw(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    struct kg_process_result r;
    kg_lab_check(&lab, NULL, &r);
    char *bundle = kg_lab_bundle(&lab), *path = kg_path_join(bundle, "data/samples.bin"), *data;
    size_t size;
    ck_assert_int_eq(kg_file_read(path, &data, &size, NULL), KG_OK);
    ck_assert_uint_eq(size, 18 * sizeof(float));
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    const json_t *timings = json_object_get(kg_lab_result(results, "unit/green/five"), "timings");
    ck_assert_uint_eq(json_array_size(timings), 1);
    const json_t *t = json_array_get(timings, 0);
    ck_assert_ptr_null(json_object_get(t, "samples"));
    float samples[3];
    const json_int_t offset = json_integer_value(json_object_get(t, "samples_offset"));
    ck_assert_int_le(offset, 15);
    memcpy(samples, data + (size_t)offset * sizeof(float), sizeof samples);
    ck_assert(samples[0] == 30 && samples[1] == 10 && samples[2] == 20);
    ck_assert_double_eq(json_number_value(json_object_get(t, "median")), 20);
    ck_assert_double_eq(json_number_value(json_object_get(t, "mad")), 10);
    json_decref(results);
    free(data);
    free(path);
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

static void every_way_to_fail_has_its_status(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_mixed", "test_mixed");
    struct kg_process_result r;
    kg_lab_check(&lab, NULL, &r);
    kg_lab_expect_exit(&r, KG_EXIT_FAILED, "3 passed, 11 failed, 2 skipped");
    char *bundle = kg_lab_bundle(&lab);
    kg_lab_expect_records(bundle, MIXED, KG_COUNT_OF(MIXED));
    kg_lab_expect_verified(bundle);
    for (size_t i = 0; i < KG_COUNT_OF(MIXED); i++) {
        char *rerun = kg_lab_failure(bundle, MIXED[i].key, "rerun.txt");
        const bool red = strcmp(MIXED[i].status, "pass") != 0 && strcmp(MIXED[i].status, "skip") != 0;
        ck_assert_msg((rerun != NULL) == red, "%s", MIXED[i].key);
        free(rerun);
    }
    kg_lab_expect_empty(lab.tmp); /* even of processes that were killed */
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

/* The command in failures/<case>/rerun.txt, given to a shell as it stands, runs that case alone and fails again. */
static void rerun_command_fails_again(struct kg_record *rec, const void *arg) {
    const char *key = arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_mixed", "test_mixed");
    kg_lab_add(&lab, "test_green", "test_green");
    struct kg_process_result r;
    kg_lab_check(&lab, ARGS("--quiet", "--seed", "7"), &r);
    char *bundle = kg_lab_bundle(&lab);
    char *rerun = kg_lab_failure(bundle, key, "rerun.txt");
    ck_assert_ptr_nonnull(rerun);
    ck_assert_int_eq(kg_path_remove(bundle, NULL), KG_OK);
    kg_process_result_free(&r);

    const char *const argv[] = { "/bin/sh", "-c", rerun, NULL };
    const struct kg_process process = { .argv = argv };
    ck_assert_int_eq(kg_process_run(&process, &r, NULL), KG_OK);
    kg_lab_expect_exit(&r, KG_EXIT_FAILED, "0 passed, 1 failed, 0 skipped");
    free(bundle);
    bundle = kg_lab_bundle(&lab);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    ck_assert_uint_eq(json_array_size(results), 1);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(results, 0), "key")), key);
    json_decref(results);
    free(rerun);
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

/* Folders given relative to where the run was started: the command works from anywhere. */
static void rerun_command_works_from_elsewhere(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_mixed", "test_mixed");
    char *first = kg_xasprintf("cd '%s' && '%s' check --suites suites --bundles bundles --quiet --filter '*segfaults'",
                               lab.dir, kg_program_path());
    struct kg_process process = { .argv = ARGS("/bin/sh", "-c", first) };
    struct kg_process_result r;
    ck_assert_int_eq(kg_process_run(&process, &r, NULL), KG_OK);
    kg_lab_expect_exit(&r, KG_EXIT_FAILED, NULL);
    kg_process_result_free(&r);
    char *bundle = kg_lab_bundle(&lab);
    char *rerun = kg_lab_failure(bundle, "unit/mixed/segfaults", "rerun.txt");
    ck_assert_ptr_nonnull(rerun);
    char *again = kg_xasprintf("cd / && %s", rerun);
    process.argv = ARGS("/bin/sh", "-c", again);
    ck_assert_int_eq(kg_process_run(&process, &r, NULL), KG_OK);
    kg_lab_expect_exit(&r, KG_EXIT_FAILED, "0 passed, 1 failed, 0 skipped");
    ck_assert_uint_eq(kg_lab_count(&lab, ""), 2);
    kg_process_result_free(&r);
    free(again);
    free(rerun);
    free(bundle);
    free(first);
    kg_lab_close(&lab);
}

static void failure_folder_holds_what_helps(struct kg_record *rec, const void *arg) {
    (void)arg;
    const char *key = "unit/mixed/fails[-,f32,M=3 N='x' $(5)]";
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_mixed", "test_mixed");
    struct kg_process_result r;
    kg_lab_check(&lab, ARGS("--case", key), &r);
    kg_lab_expect_exit(&r, KG_EXIT_FAILED, "0 passed, 1 failed, 0 skipped");
    char *bundle = kg_lab_bundle(&lab);
    char *about = kg_lab_failure(bundle, key, "case.json"), *attached = kg_lab_failure(bundle, key, "attached-got.bin");
    ck_assert(about && attached);
    float got[4];
    memcpy(got, attached, sizeof got);
    ck_assert(got[0] == 1 && got[1] == 2 && got[2] == 30 && got[3] == 4);
    json_t *json = json_loads(about, 0, NULL);
    const json_t *worst = json_array_get(json_object_get(json, "worst"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(worst, "worst_index")), 2);
    ck_assert_double_eq(json_number_value(json_object_get(worst, "worst_got")), 30);
    ck_assert_ptr_nonnull(json_string_value(json_object_get(json, "seed")));
    json_decref(json);
    free(about);
    free(attached);
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

struct usage {
    const char *args[6];
    int exit_code;
    const char *says;
};
static const struct usage NOTHING_RUN[] = {
    { { "--filter", "nothing/*" }, KG_EXIT_INCOMPLETE, "none was selected" },
    { { "--case", "unit/green/seven" }, KG_EXIT_INCOMPLETE, "unit/green/seven" },
    { { "--layer", "haiku" }, KG_EXIT_INCOMPLETE, "none was selected" },
    { { "--layer", "units" }, KG_EXIT_USAGE, "'units'" },
    { { "--layer" }, KG_EXIT_USAGE, "--layer" },
    { { "--seed", "-1" }, KG_EXIT_USAGE, "-1" },
    { { "--seed", "18446744073709551616" }, KG_EXIT_USAGE, "18446744073709551616" },
    { { "--jobs", "0" }, KG_EXIT_USAGE, "--jobs" },
    { { "--model", "/no/such/model.gguf" }, KG_EXIT_USAGE, "/no/such/model.gguf" },
    { { "--suites", "/no/such/folder" }, KG_EXIT_INCOMPLETE, "/no/such/folder" },
    { { "--json", "--tap" }, KG_EXIT_USAGE, "exclude each other" },
    { { "--no-such-option" }, KG_EXIT_USAGE, "--no-such-option" },
    { { "stray" }, KG_EXIT_USAGE, "too many" },
};

static void nothing_runs(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    for (size_t i = 0; i < KG_COUNT_OF(NOTHING_RUN); i++) {
        struct kg_process_result r;
        kg_lab_check(&lab, NOTHING_RUN[i].args, &r);
        ck_assert_msg(r.exit_code == NOTHING_RUN[i].exit_code, "row %zu: exit code %d: %s", i, r.exit_code, r.err);
        ck_assert_msg(strstr(r.err, NOTHING_RUN[i].says) != NULL, "row %zu: %s", i, r.err);
        kg_process_result_free(&r);
    }
    ck_assert_uint_eq(kg_lab_count(&lab, ""), 0);
    ck_assert_uint_eq(kg_lab_count(&lab, "."), 0);
    kg_lab_expect_empty(lab.tmp);
    kg_lab_close(&lab);
}

static void no_suite_program_at_all(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    struct kg_process_result r;
    kg_lab_check(&lab, NULL, &r);
    kg_lab_expect_exit(&r, KG_EXIT_INCOMPLETE, NULL);
    ck_assert_ptr_nonnull(strstr(r.err, "no suite program"));
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

static void selections_add_up(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    struct kg_process_result r;
    kg_lab_check(&lab, ARGS("--list", "--filter", "*/t*", "--case", "unit/green/one", "--layer", "unit"), &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_OK);
    ck_assert_str_eq(r.out, "unit/green/one\nunit/green/two\nunit/green/three\n");
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

static void seed_decides_the_cases_seeds(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    struct kg_process_result a, b, other;
    kg_lab_check(&lab, ARGS("--list", "--json", "--seed", "5"), &a);
    kg_lab_check(&lab, ARGS("--list", "--json", "--seed", "5"), &b);
    kg_lab_check(&lab, ARGS("--list", "--json", "--seed", "6"), &other);
    ck_assert_int_eq(a.exit_code, KG_EXIT_OK);
    ck_assert_str_eq(a.out, b.out);
    ck_assert_str_ne(a.out, other.out);
    kg_process_result_free(&a);
    kg_process_result_free(&b);
    kg_process_result_free(&other);
    kg_lab_close(&lab);
}

static size_t count_lines(const char *text, const char *prefix, const char *holds) {
    size_t n = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *found = holds ? strstr(line, holds) : line;
        n += strncmp(line, prefix, strlen(prefix)) == 0 && found && (size_t)(found - line) <= strcspn(line, "\n");
    }
    return n;
}

static void tap_shows_every_case(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_mixed", "test_mixed");
    struct kg_process_result r;
    kg_lab_check(&lab, ARGS("--tap"), &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_FAILED);
    ck_assert_uint_eq(count_lines(r.out, "1..16", NULL), 1);
    ck_assert_uint_eq(count_lines(r.out, "ok ", NULL), MIXED_PASS + MIXED_SKIP);
    ck_assert_uint_eq(count_lines(r.out, "ok ", " # SKIP nothing to test with"), MIXED_SKIP);
    ck_assert_uint_eq(count_lines(r.out, "not ok ", NULL), MIXED_FAIL);
    ck_assert_uint_eq(count_lines(r.out, "  rerun: ", NULL), MIXED_FAIL);
    ck_assert_uint_eq(count_lines(r.out, "  ---", NULL), MIXED_FAIL); /* a block of YAML begins and ends */
    ck_assert_uint_eq(count_lines(r.out, "  ...", NULL), MIXED_FAIL);
    /* And again at its end, the first ten: all that a reader of a log's tail sees. */
    static const char *const STATUSES[] = { "# fail unit/mixed/", "# crash unit/mixed/", "# timeout unit/mixed/" };
    size_t n_named = 0;
    for (size_t i = 0; i < KG_COUNT_OF(STATUSES); i++) n_named += count_lines(r.out, STATUSES[i], NULL);
    ck_assert_uint_eq(n_named, 10);
    ck_assert_uint_eq(count_lines(r.out, "# and 1 more that did not pass", NULL), 1);
    char *last = kg_last_line(r.err);
    ck_assert_str_eq(last, "3 passed, 11 failed, 2 skipped");
    ck_assert_uint_eq(count_lines(r.out, "# 3 passed, 11 failed, 2 skipped", NULL), 1);
    free(last);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

static void json_is_one_object(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_mixed", "test_mixed");
    struct kg_process_result r;
    kg_lab_check(&lab, ARGS("--json"), &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_FAILED);
    json_t *o = json_loadb(r.out, r.out_len, 0, NULL);
    ck_assert(json_is_object(o));
    static const struct {
        const char *name;
        json_int_t value;
    } COUNTS[] = { { "planned", 16 }, { "pass", 3 },    { "fail", 8 },  { "skip", 2 },
                   { "crash", 2 },    { "timeout", 1 }, { "norun", 0 }, { "exit_code", 1 } };
    for (size_t i = 0; i < KG_COUNT_OF(COUNTS); i++)
        ck_assert_msg(json_integer_value(json_object_get(o, COUNTS[i].name)) == COUNTS[i].value, "%s", COUNTS[i].name);
    ck_assert_uint_eq(json_array_size(json_object_get(o, "not_passed")), MIXED_FAIL + MIXED_SKIP);
    ck_assert(kg_path_is_dir(json_string_value(json_object_get(o, "bundle"))));
    json_decref(o);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

static void two_programs_at_a_time(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_mixed", "test_mixed");
    kg_lab_add(&lab, "test_green", "test_green");
    struct kg_process_result r;
    kg_lab_check(&lab, ARGS("--jobs", "2"), &r);
    kg_lab_expect_exit(&r, KG_EXIT_FAILED, "10 passed, 11 failed, 2 skipped");
    /* Each program's line counts its own cases. */
    ck_assert_msg(strstr(r.out, "   7 passed, 0 failed, 0 skipped") != NULL, "%s", r.out);
    ck_assert_msg(strstr(r.out, "   3 passed, 11 failed, 2 skipped") != NULL, "%s", r.out);
    char *bundle = kg_lab_bundle(&lab);
    kg_lab_expect_verified(bundle);
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

/* Unasked, one program more than there are processors, 12 at most; the run says how many. */
static void programs_by_processors(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    const char *const argv[] = { kg_program_path(), "check", "--suites", lab.suites, "--bundles", lab.bundles, NULL };
    const struct kg_process process = { .argv = argv, .timeout_s = 60 };
    const int n = kg_processors_allowed() + 1;
    struct kg_process_result r;
    struct kg_error err;
    json_t *env;
    kg_must(kg_process_run(&process, &r, &err), &err);
    kg_lab_expect_exit(&r, KG_EXIT_OK, NULL);
    char *bundle = kg_lab_bundle(&lab);
    kg_must(kg_bundle_read_json(bundle, "data/env.json", &env, &err), &err);
    ck_assert_int_eq(kg_json_int(json_object_get(env, "run"), "jobs", -1), n < 12 ? n : 12);
    json_decref(env);
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

/* The runner itself, which is where a GPU is there: a skip of its back end is a failure, another skip is not. */
static void gpu_case_skipped_where_a_gpu_is_required(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_mixed", "test_mixed");
    const char *const keys[] = { "unit/mixed/passes_first", "unit/mixed/skips", "unit/mixed/skips_gpu[cuda,-,-]" };
    const struct kg_run_options options = { .suites_dir = lab.suites,
                                            .selection = { .keys = keys, .n_keys = KG_COUNT_OF(keys) },
                                            .surroundings = { .seed = 1 },
                                            .bundle = { .root = lab.bundles, .seed = 1 },
                                            .rerun_prefix = "kigo check",
                                            .require_gpu = true,
                                            .n_jobs = 1,
                                            .timeout_scale = 1 };
    const struct kg_run_observer observer = { 0 };
    struct kg_run_outcome outcome;
    struct kg_error err;
    ck_assert_msg(kg_run(&options, &observer, &outcome, &err) == KG_OK, "%s", err.message);
    ck_assert_int_eq(outcome.exit_code, KG_EXIT_FAILED);
    json_t *results = kg_lab_lines(outcome.bundle_dir, "results.ndjson");
    kg_lab_expect_status(results, keys[0], "pass");
    kg_lab_expect_status(results, keys[1], "skip");
    kg_lab_expect_status(results, keys[2], "fail");
    const char *reason = json_string_value(json_object_get(kg_lab_result(results, keys[2]), "reason"));
    ck_assert_msg(reason && strstr(reason, "--require-gpu"), "%s", reason ? reason : "no reason");
    json_decref(results);
    kg_run_outcome_free(&outcome);
    kg_lab_close(&lab);
}

static void gpu_required_and_absent(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_gpu_info gpu;
    size_t n_gpus;
    if (kg_gpu_list(&gpu, 1, &n_gpus, NULL) == KG_OK && n_gpus > 0) {
        kg_record_skip(rec, "this machine has a GPU");
        return;
    }
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    struct kg_process_result r;
    kg_lab_check(&lab, ARGS("--require-gpu"), &r);
    ck_assert_int_eq(r.exit_code, KG_EXIT_INCOMPLETE);
    ck_assert_ptr_nonnull(strstr(r.err, "--require-gpu"));
    ck_assert_uint_eq(kg_lab_count(&lab, ""), 0);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

/* Cases of 100 ms: what harness and bundle add is recorded, and is small beside them. The 5% a whole run is held to are
 * its own figure; here the fixed cost of starting and sealing weighs on a run of 0.6 s. */
static void overhead_is_recorded(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_lab lab;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "test_green", "test_green");
    setenv("KIGO_SELFTEST_SLEEP_MS", "100", 1);
    struct kg_process_result r;
    kg_lab_check(&lab, NULL, &r);
    unsetenv("KIGO_SELFTEST_SLEEP_MS");
    kg_lab_expect_exit(&r, KG_EXIT_OK, NULL);
    char *bundle = kg_lab_bundle(&lab), *path = kg_path_join(bundle, "data/overhead.json");
    json_t *o = json_load_file(path, 0, NULL);
    ck_assert_ptr_nonnull(o);
    const double wall_ns = json_number_value(json_object_get(o, "wall_ns"));
    const double in_cases_ns = json_number_value(json_object_get(o, "in_cases_ns"));
    const double ratio = json_number_value(json_object_get(o, "overhead_ratio"));
    kg_record_metric(rec, "fixed_cost_ns", "ns", wall_ns - in_cases_ns);
    ck_assert_double_ge(in_cases_ns, 600e6);
    ck_assert_double_ge(wall_ns, in_cases_ns);
    const double serial_ns = json_number_value(json_object_get(o, "serial_ns"));
    const double programs_ns = json_number_value(json_object_get(o, "programs_ns"));
    ck_assert_double_ge(programs_ns, in_cases_ns);
    ck_assert_double_le(serial_ns + programs_ns, wall_ns); /* one program at a time */
    ck_assert_double_eq_tol(ratio, 1 - in_cases_ns / (serial_ns + programs_ns), 1e-6);
    json_decref(o);
    free(path);
    free(bundle);
    kg_process_result_free(&r);
    kg_lab_close(&lab);
}

#define E2E(name_, run_, arg_)                                                                                         \
    { .layer = "integration", .op = "check", .name = name_, .run = run_, .arg = arg_, .timeout_s = 120 }

static const struct kg_case CASES[] = {
    E2E("green_run_passes", green_run_passes, NULL),
    E2E("telemetry_is_sealed", telemetry_is_sealed, NULL),
    E2E("long_files_are_compressed", long_files_are_compressed, NULL),
    E2E("no_nvml_no_telemetry", no_nvml_no_telemetry, NULL),
    E2E("samples_are_kept_raw", samples_are_kept_raw, NULL),
    E2E("every_way_to_fail_has_its_status", every_way_to_fail_has_its_status, NULL),
    E2E("rerun_command_fails_again", rerun_command_fails_again, "unit/mixed/segfaults"),
    E2E("rerun_command_works_from_elsewhere", rerun_command_works_from_elsewhere, NULL),
    E2E("rerun_command_of_a_key_full_of_quotes", rerun_command_fails_again, "unit/mixed/fails[-,f32,M=3 N='x' $(5)]"),
    E2E("failure_folder_holds_what_helps", failure_folder_holds_what_helps, NULL),
    E2E("nothing_runs", nothing_runs, NULL),
    E2E("no_suite_program_at_all", no_suite_program_at_all, NULL),
    E2E("selections_add_up", selections_add_up, NULL),
    E2E("seed_decides_the_cases_seeds", seed_decides_the_cases_seeds, NULL),
    E2E("tap_shows_every_case", tap_shows_every_case, NULL),
    E2E("json_is_one_object", json_is_one_object, NULL),
    E2E("two_programs_at_a_time", two_programs_at_a_time, NULL),
    E2E("programs_by_processors", programs_by_processors, NULL),
    E2E("gpu_case_skipped_where_a_gpu_is_required", gpu_case_skipped_where_a_gpu_is_required, NULL),
    E2E("gpu_required_and_absent", gpu_required_and_absent, NULL),
    E2E("overhead_is_recorded", overhead_is_recorded, NULL),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
