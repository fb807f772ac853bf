/* Writing a bundle: what it accepts, what it refuses, and what a sealed one holds. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include "run/publish.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/rights.h"
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void id_forms(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *name;
        bool good;
    } NAMES[] = {
        { "20261120T093822Z-0123456789ab-01234567", true },
        { "20261120T093822Z-0123456789ab-dirty-01234567", true },
        { "20261120T093822Z-nogit-89abcdef", true },
        { "20261120T093822Z-nogit-89abcdeg", false },
        { "20261120T093822Z-nogit89abcdef", false },
        { "20261120T093822-nogit-89abcdef", false },
        { "20261320T093822Z-nogit-89abcdef", false },
        { "20261120T093822Z-89abcdef", false },
        { "README.md", false },
        { "", false },
    };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++) {
        int64_t us = 0;
        ck_assert_msg(kg_bundle_id_parse(NAMES[i].name, &us) == NAMES[i].good, "'%s'", NAMES[i].name);
        if (NAMES[i].good) ck_assert_int_eq(us, 1795167502000000);
    }
}

static void payload_paths(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *path;
        bool good;
    } PATHS[] = {
        { "logs/a.txt", true }, { "a", true },       { "\xC3\xA9t\xC3\xA9.txt", true },
        { "a b", true },        { "", false },       { "/etc/passwd", false },
        { "../x", false },      { "a/../b", false }, { "a/./b", false },
        { "a//b", false },      { "a/", false },     { "a\nb", false },
        { "a%0Ab", false },     { "a\\b", false },   { "\xFF", false },
        { "..", false },        { "...", true },
    };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(PATHS); i++)
        ck_assert_msg(kg_bundle_path_ok(PATHS[i].path) == PATHS[i].good, "'%s'", PATHS[i].path);
}

static void refused_files(struct kg_record *rec, const void *arg) {
    static const char *const REFUSED[] = { "plan.ndjson", "results.ndjson", "summary.json",     "env.json", "../escape",
                                           "/absolute",   "recovery/x",     "manifest/../../x", "junit.xml" };
    struct kg_bundle *bundle;
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_maker_open(kg_scratch_dir(rec), 1, &bundle, &err), err);
    for (size_t i = 0; i < KG_COUNT_OF(REFUSED); i++)
        ck_assert_msg(kg_bundle_file(bundle, REFUSED[i], "x", 1, &err) == KG_ERR_USAGE, "%s", REFUSED[i]);
    EXPECT_OK(kg_bundle_file(bundle, "failures/x/case.json", "{}", 2, &err), err);
    kg_bundle_close(bundle);
}

/* A plan line or a result with one field spoilt: {field, JSON text or NULL to leave it out}. */
struct spoil {
    const char *field, *json;
};

static void spoil(json_t *object, const struct spoil *s) {
    if (s->json) json_object_set_new(object, s->field, json_loads(s->json, JSON_DECODE_ANY, NULL));
    else json_object_del(object, s->field);
}

static void spoilt_plan_lines(struct kg_record *rec, const void *arg) {
    static const struct spoil SPOILS[] = {
        { "key", NULL },       { "key", "\"\"" },     { "key", "5" },          { "suite", NULL },
        { "layer", "null" },   { "op", "[]" },        { "name", NULL },        { "backend", "7" },
        { "seed", "7" },       { "seed", "\"-7\"" },  { "def_sha", "\"ab\"" }, { "def_sha", NULL },
        { "timeout_s", "-1" }, { "timeout_s", NULL },
    };
    const struct kg_bundle_options options = { .root = kg_scratch_dir(rec) };
    struct kg_bundle *bundle;
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
    for (size_t i = 0; i < KG_COUNT_OF(SPOILS); i++) {
        json_t *line = kg_maker_plan_line(i);
        spoil(line, &SPOILS[i]);
        ck_assert_msg(kg_bundle_plan(bundle, line, &err) == KG_ERR_USAGE, "%s = %s", SPOILS[i].field, SPOILS[i].json);
        ck_assert_msg(strstr(err.message, SPOILS[i].field) != NULL, "%s", err.message);
        json_decref(line);
    }
    kg_bundle_close(bundle);
}

static void spoilt_results(struct kg_record *rec, const void *arg) {
    static const struct spoil SPOILS[] = {
        { "status", NULL },
        { "status", "\"passed\"" },
        { "reason", "\"on a pass\"" },
        { "def_sha", "\"ab\"" },
        { "started_us", "-1" },
        { "duration_ns", "\"1\"" },
        { "errors", "{}" },
        { "metrics", "[1]" },
        { "suite", "\"other\"" },
        { "seed", "\"8\"" },
        { "key", NULL },
    };
    struct kg_bundle *bundle;
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_maker_open(kg_scratch_dir(rec), 1, &bundle, &err), err);
    EXPECT_OK(kg_bundle_start(bundle, "unit/sample/case_0", &err), err);
    for (size_t i = 0; i < KG_COUNT_OF(SPOILS); i++) {
        json_t *result = kg_maker_result(0, "pass");
        spoil(result, &SPOILS[i]);
        ck_assert_msg(kg_bundle_end(bundle, result, &err) == KG_ERR_USAGE, "%s = %s", SPOILS[i].field, SPOILS[i].json);
        json_decref(result);
    }
    json_t *good = kg_maker_result(0, "pass");
    EXPECT_OK(kg_bundle_end(bundle, good, &err), err);
    ck_assert_int_eq(kg_bundle_end(bundle, good, &err), KG_ERR_USAGE);
    json_decref(good);
    kg_bundle_close(bundle);
}

static void order_of_calls(struct kg_record *rec, const void *arg) {
    const struct kg_bundle_options options = { .root = kg_scratch_dir(rec) };
    struct kg_bundle *bundle;
    struct kg_bundle_summary summary;
    struct kg_error err;
    json_t *line = kg_maker_plan_line(0), *pass = kg_maker_result(0, "pass"), *other = kg_maker_result(1, "pass");
    (void)arg;
    EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
    ck_assert_int_eq(kg_bundle_start(bundle, "unit/sample/case_0", &err), KG_ERR_USAGE); /* before plan_done */
    ck_assert_int_eq(kg_run_seal(bundle, &summary, &err), KG_ERR_USAGE);
    EXPECT_OK(kg_bundle_plan(bundle, line, &err), err);
    ck_assert_int_eq(kg_bundle_plan(bundle, line, &err), KG_ERR_USAGE); /* twice */
    EXPECT_OK(kg_bundle_plan_done(bundle, &err), err);
    ck_assert_int_eq(kg_bundle_plan_done(bundle, &err), KG_ERR_USAGE);
    ck_assert_int_eq(kg_bundle_end(bundle, pass, &err), KG_ERR_USAGE); /* never started */
    EXPECT_OK(kg_bundle_start(bundle, "unit/sample/case_0", &err), err);
    ck_assert_int_eq(kg_bundle_start(bundle, "unit/sample/case_0", &err), KG_ERR_USAGE);
    ck_assert_int_eq(kg_bundle_start(bundle, "unit/sample/case_1", &err), KG_ERR_USAGE); /* not planned */
    ck_assert_int_eq(kg_bundle_end(bundle, other, &err), KG_ERR_USAGE);
    EXPECT_OK(kg_bundle_end(bundle, pass, &err), err);
    EXPECT_OK(kg_run_seal(bundle, &summary, &err), err);
    ck_assert_int_eq(kg_run_seal(bundle, &summary, &err), KG_ERR_USAGE);
    ck_assert_int_eq(kg_bundle_file(bundle, "late.txt", "x", 1, &err), KG_ERR_USAGE);
    kg_bundle_close(bundle);
    json_decref(other);
    json_decref(pass);
    json_decref(line);
}

struct verdict {
    const char *statuses[4];
    size_t n;
    const char *verdict;
    int exit_code;
};

static void verdict_follows(struct kg_record *rec, const void *arg) {
    static const struct verdict VERDICTS[] = {
        { { "pass", "pass" }, 2, "pass", 0 },
        { { "pass", "skip" }, 2, "pass", 0 },
        { { "pass", "fail" }, 2, "fail", 1 },
        { { "pass", "crash" }, 2, "fail", 1 },
        { { "timeout", "pass" }, 2, "fail", 1 },
        { { "pass", "norun" }, 2, "incomplete", 5 },
        { { "pass", "started" }, 2, "incomplete", 5 },
        { { "fail", "norun" }, 2, "incomplete", 5 },
        { { "skip", "skip" }, 2, "incomplete", 5 }, /* nothing ran */
        { { NULL }, 0, "incomplete", 5 },
        { { "pass", "fail", "skip", "crash" }, 4, "fail", 1 },
    };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(VERDICTS); i++) {
        char *root = kg_xasprintf("%s/%zu", kg_scratch_dir(rec), i);
        struct kg_bundle_summary s;
        struct kg_error err;
        struct kg_bundle_findings findings;
        EXPECT_OK(kg_maker_write(root, VERDICTS[i].statuses, VERDICTS[i].n, &s, &err), err);
        ck_assert_msg(strcmp(s.verdict, VERDICTS[i].verdict) == 0 && s.exit_code == VERDICTS[i].exit_code,
                      "row %zu: %s, exit %d", i, s.verdict, s.exit_code);
        ck_assert_uint_eq(s.n_planned, VERDICTS[i].n);
        ck_assert_uint_eq(s.n_pass + s.n_fail + s.n_skip + s.n_crash + s.n_timeout + s.n_norun, VERDICTS[i].n);
        char *dir = kg_maker_only(root);
        EXPECT_OK(kg_bundle_verify(dir, &findings, &err), err);
        kg_bundle_findings_free(&findings);
        free(dir);
        free(root);
    }
}

static void sealed_files(struct kg_record *rec, const void *arg) {
    static const char *const FILES[] = {
        "bagit.txt",
        "bag-info.txt",
        "manifest-sha256.txt",
        "tagmanifest-sha256.txt",
        "data/plan.ndjson",
        "data/journal.ndjson",
        "data/results.ndjson",
        "data/samples.bin",
        "data/env.json",
        "data/build.json",
        "data/source.json",
        "data/dirty.diff",
        "data/junit.xml",
        "data/results.tap",
        "data/results.csv",
        "data/report.md",
        "data/summary.json",
        "data/transcripts/haiku.ndjson",
        "statement.intoto.json",
        "data/logs/unit.txt",
    };
    char *dir = kg_maker_sealed(kg_scratch_dir(rec), 3);
    struct kg_bundle_findings findings;
    struct kg_error err;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
        char *path = kg_path_join(dir, FILES[i]);
        ck_assert_msg(kg_path_exists(path), "%s", path);
        free(path);
    }
    EXPECT_OK(kg_bundle_verify(dir, &findings, &err), err);
    ck_assert_uint_eq(findings.n_items, 0);
    ck_assert_uint_eq(kg_maker_count(kg_scratch_dir(rec), ".tmp-"), 0);
    free(dir);
}

/* Without .chain the run sealed last is the predecessor: one that cannot be read may be it, and nothing is sealed past
 * it. */
static void unreadable_predecessor(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec), *const statuses[] = { "pass" };
    struct kg_bundle_summary summary;
    struct kg_error err;
    (void)arg;
    free(kg_maker_sealed(root, 1));
    char *last = kg_maker_sealed(root, 1), *path = kg_path_join(last, "data/summary.json"),
         *head = kg_path_join(root, ".chain");
    ck_assert_int_eq(unlink(head), 0);
    ck_assert_int_eq(chmod(path, 0), 0);
    kg_rights_read_all(false);
    const enum kg_status status = kg_maker_write(root, statuses, 1, &summary, &err);
    kg_rights_read_all(true);
    ck_assert_int_eq(chmod(path, 0644), 0);
    kg_must_fail(status, KG_ERR_IO, &err, path, "Permission denied", NULL);
    ck_assert_uint_eq(kg_maker_count(root, "2"), 2);
    free(head);
    free(path);
    free(last);
}

static void environment_and_build(struct kg_record *rec, const void *arg) {
    static const char *const LIBRARIES[] = { "libc", "sqlite", "jansson", "pcre2", "openssl" };
    char *dir = kg_maker_sealed(kg_scratch_dir(rec), 1);
    json_t *env, *build;
    struct kg_error err;
    char program[KG_SHA256_HEX_SIZE];
    (void)arg;
    EXPECT_OK(kg_bundle_read_json(dir, "data/env.json", &env, &err), err);
    EXPECT_OK(kg_bundle_read_json(dir, "data/build.json", &build, &err), err);
    for (size_t i = 0; i < KG_COUNT_OF(LIBRARIES); i++) {
        const char *version = kg_json_text(json_object_get(env, "libraries"), LIBRARIES[i]);
        ck_assert_msg(version && *version, "%s", LIBRARIES[i]);
    }
    ck_assert_int_gt(kg_json_int(env, "memory_bytes", 0), 1 << 20);
    ck_assert_int_ge(kg_json_int(json_object_get(env, "cpu"), "n_usable", 0), 1);
    /* GPUs, or the reason why there are none. */
    ck_assert(json_is_array(json_object_get(env, "gpus")) != !!kg_json_text(env, "gpus_why"));
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(json_object_get(env, "run"), "argv"), 0)),
                     "kigo");
    ck_assert_str_eq(kg_json_text(build, "version"), PACKAGE_VERSION);
    EXPECT_OK(kg_sha256_file("/proc/self/exe", program, &err), err);
    ck_assert_str_eq(kg_json_text(build, "program_sha256"), program);
    ck_assert(kg_json_text(build, "cflags") && kg_json_text(build, "configure") && kg_json_text(build, "cuda"));
    json_decref(build);
    json_decref(env);
    free(dir);
}

static void statement_names_the_manifest(struct kg_record *rec, const void *arg) {
    static const char *const STATUSES[] = { "pass", "fail", "skip" };
    const char *root = kg_scratch_dir(rec);
    struct kg_bundle_summary summary;
    struct kg_error err;
    json_t *statement;
    char hex[KG_SHA256_HEX_SIZE];
    (void)arg;
    EXPECT_OK(kg_maker_write(root, STATUSES, 3, &summary, &err), err);
    char *dir = kg_maker_only(root), *manifest = kg_path_join(dir, "manifest-sha256.txt");
    EXPECT_OK(kg_bundle_read_json(dir, "statement.intoto.json", &statement, &err), err);
    EXPECT_OK(kg_sha256_file(manifest, hex, &err), err);
    const json_t *subject = json_array_get(json_object_get(statement, "subject"), 0);
    const json_t *predicate = json_object_get(statement, "predicate");
    ck_assert_str_eq(kg_json_text(statement, "_type"), "https://in-toto.io/Statement/v1");
    ck_assert_str_eq(kg_json_text(statement, "predicateType"), "https://in-toto.io/attestation/test-result/v0.1");
    ck_assert_str_eq(kg_json_text(json_object_get(subject, "digest"), "sha256"), hex);
    ck_assert_str_eq(kg_json_text(predicate, "result"), "FAILED");
    ck_assert_uint_eq(json_array_size(json_object_get(predicate, "passedTests")), 1);
    ck_assert_uint_eq(json_array_size(json_object_get(predicate, "warnedTests")), 1);
    ck_assert_uint_eq(json_array_size(json_object_get(predicate, "failedTests")), 1);
    json_decref(statement);
    free(manifest);
    free(dir);
}

/* The cost in bag-info.txt is what the run took less what its cases took. */
static void cost_is_recorded(struct kg_record *rec, const void *arg) {
    struct kg_bundle *bundle;
    struct kg_bundle_summary summary;
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_maker_open(kg_scratch_dir(rec), 1, &bundle, &err), err);
    EXPECT_OK(kg_maker_run(bundle, 0, "pass", &err), err);
    EXPECT_OK(kg_run_seal(bundle, &summary, &err), err);
    char *path = kg_path_join(kg_bundle_dir(bundle), "bag-info.txt"), *info = NULL;
    size_t size_bytes;
    EXPECT_OK(kg_file_read(path, &info, &size_bytes, &err), err);
    const char *share = strstr(info, "Kigo-Overhead-Share: ");
    ck_assert_ptr_nonnull(share);
    const double value = strtod(share + strlen("Kigo-Overhead-Share: "), NULL);
    ck_assert_msg(value > 0 && value <= 1, "%g", value);
    free(info);
    free(path);
    kg_bundle_close(bundle);
}

/* What kigo list and others do in passing, until it is killed; or ends because it took a living run for dead. */
static void look_for_dead_runs(const char *root) {
    while (kg_bundle_count_dead(root) == 0) continue;
    _exit(1);
}

/* Looking whether a run lives takes its lock for a moment: of one that is being made at this moment, too, which goes on
 * with the folder it has made. */
static void looked_at_while_made(struct kg_record *rec, const void *arg) {
    enum { N_LOOKING = 2, N_RUNS = 600 };
    const char *root = kg_scratch_dir(rec);
    const struct kg_bundle_options options = { .root = root };
    struct kg_error err = { 0 };
    pid_t looking[N_LOOKING];
    int ended[N_LOOKING];
    size_t n_folders = 1;
    enum kg_status status = KG_OK;
    (void)arg;
    for (int i = 0; i < N_LOOKING; i++)
        if ((looking[i] = fork()) == 0) look_for_dead_runs(root);
    for (int i = 0; i < N_RUNS && status == KG_OK && n_folders == 1; i++) {
        struct kg_bundle *bundle = NULL;
        status = kg_bundle_create(&options, &bundle, &err);
        n_folders = kg_maker_count(root, ".tmp-"); /* not one that was left because of who held its lock */
        if (status == KG_OK) status = kg_path_remove(kg_bundle_dir(bundle), &err);
        kg_bundle_close(bundle);
    }
    for (int i = 0; i < N_LOOKING; i++) {
        ck_assert_int_gt(looking[i], 0);
        kill(looking[i], SIGKILL);
        ck_assert_int_eq(waitpid(looking[i], &ended[i], 0), looking[i]);
    }
    for (int i = 0; i < N_LOOKING; i++) ck_assert_msg(WIFSIGNALED(ended[i]), "a run that lives was taken for dead");
    ck_assert_msg(status == KG_OK, "%s", err.message);
    ck_assert_uint_eq(n_folders, 1);
}

/* Who makes a folder waits for its lock, who looks does not. */
static void lock_of_a_new_folder(struct kg_record *rec, const void *arg) {
    enum { LOOKED_AT_US = 50000 };
    const char *dir = kg_scratch_dir(rec);
    struct kg_error err;
    int fd = -1, ended = 0;
    (void)arg;
    const pid_t looking = fork();
    ck_assert_int_ge(looking, 0);
    if (looking == 0) {
        const bool locked = kg_bundle_lock(dir, &fd, &err) == KG_OK && fd >= 0;
        raise(SIGSTOP);
        usleep(LOOKED_AT_US);
        _exit(!locked);
    }
    ck_assert_int_eq(waitpid(looking, &ended, WUNTRACED), looking);
    EXPECT_OK(kg_bundle_lock(dir, &fd, &err), err);
    ck_assert_int_eq(fd, -1);
    kill(looking, SIGCONT);
    EXPECT_OK(kg_bundle_lock_new(dir, &fd, &err), err);
    ck_assert_int_eq(waitpid(looking, &ended, 0), looking);
    ck_assert_int_eq(ended, 0);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "bundle", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(id_forms),
    CASE(payload_paths),
    CASE(refused_files),
    CASE(spoilt_plan_lines),
    CASE(spoilt_results),
    CASE(order_of_calls),
    CASE(verdict_follows),
    CASE(sealed_files),
    CASE(unreadable_predecessor),
    CASE(environment_and_build),
    CASE(statement_names_the_manifest),
    CASE(cost_is_recorded),
    CASE(looked_at_while_made),
    CASE(lock_of_a_new_folder),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
