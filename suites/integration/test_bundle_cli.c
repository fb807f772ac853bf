/* The verbs over bundles as a user meets them: what they print, that --json is JSON, and their exit codes. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/harness/process.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_runs(const char *root) {
    static const char *const RED[] = { "pass", "fail", "skip" }, *const GREEN[] = { "pass", "pass" };
    struct kg_bundle_summary summary;
    struct kg_error err;
    EXPECT_OK(kg_maker_write(root, RED, 3, &summary, &err), err);
    EXPECT_OK(kg_maker_write(root, GREEN, 2, &summary, &err), err);
}

static void list_newest_first(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *text;
    (void)arg;
    write_runs(root);
    json_t *rows = kg_verb_json(root, ARGS("list"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(rows), 2);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(rows, 0), "verdict")), "pass");
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(rows, 1), "verdict")), "fail");
    ck_assert_int_eq(kg_verb_integer(json_array_get(rows, 1), "n_planned"), 3);
    json_decref(rows);
    rows = kg_verb_json(root, ARGS("list", "--limit", "1"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(rows), 1);
    json_decref(rows);
    kg_verb_expect(root, ARGS("list"), KG_EXIT_OK, &text);
    size_t n_lines = 0;
    for (const char *s = text; *s; s++) n_lines += *s == '\n';
    ck_assert_uint_eq(n_lines, 3); /* heads and two runs */
    free(text);
    kg_verb_expect(root, ARGS("list", "--limit", "0"), KG_EXIT_USAGE, NULL);
}

static void empty_root(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *text;
    (void)arg;
    kg_verb_expect(root, ARGS("list"), KG_EXIT_OK, &text);
    ck_assert_str_eq(text, "");
    free(text);
    json_t *rows = kg_verb_json(root, ARGS("list"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(rows), 0);
    json_decref(rows);
    kg_verb_expect(root, ARGS("show", "latest"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(root, ARGS("verify", "--all"), KG_EXIT_NOTHING_TO_DO, NULL);
    kg_verb_expect(root, ARGS("recover"), KG_EXIT_OK, NULL);
    kg_verb_expect(root, ARGS("reindex"), KG_EXIT_OK, NULL);
    char *none = kg_path_join(root, "none");
    kg_verb_expect(none, ARGS("list"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(none, ARGS("recover"), KG_EXIT_USAGE, NULL);
    free(none);
}

static void naming_a_run(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char prefix[24];
    (void)arg;
    char *only = kg_maker_sealed(root, 1);
    const char *id = strrchr(only, '/') + 1;
    snprintf(prefix, sizeof prefix, "%.16s", id);
    const char *const names[] = { "latest", id, prefix, only };
    for (size_t i = 0; i < KG_COUNT_OF(names); i++) {
        json_t *run = kg_verb_json(root, ARGS("show", names[i]), KG_EXIT_OK);
        ck_assert_str_eq(json_string_value(json_object_get(run, "bundle_id")), id);
        json_decref(run);
    }
    free(kg_maker_sealed(root, 1));
    kg_verb_expect(root, ARGS("show", "20"), KG_EXIT_USAGE, NULL); /* two begin so */
    kg_verb_expect(root, ARGS("show", "1999"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(root, ARGS("show", ""), KG_EXIT_USAGE, NULL);
    kg_verb_expect(root, ARGS("show", "./nowhere"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(root, ARGS("show", "."), KG_EXIT_USAGE, NULL); /* a folder, not a bundle */
    kg_verb_expect(root, ARGS("show"), KG_EXIT_USAGE, NULL);
    free(only);
}

static void show_chooses_cases(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *args[5];
        size_t n_cases;
    } CHOICES[] = {
        { { "show", "RED" }, 3 },
        { { "show", "RED", "--failures" }, 1 },
        { { "show", "RED", "--case", "*case_2" }, 1 },
        { { "show", "RED", "--case", "unit/*" }, 3 },
        { { "show", "RED", "--case", "nothing" }, 0 },
        { { "show", "RED", "--slowest", "2" }, 2 },
    };
    static const char *const RED[] = { "pass", "fail", "skip" };
    const char *root = kg_scratch_dir(rec);
    struct kg_bundle_summary summary;
    struct kg_error err;
    char *text;
    (void)arg;
    EXPECT_OK(kg_maker_write(root, RED, 3, &summary, &err), err);
    char *dir = kg_maker_only(root);
    for (size_t i = 0; i < KG_COUNT_OF(CHOICES); i++) {
        const char *args[6] = { NULL };
        memcpy(args, CHOICES[i].args, sizeof CHOICES[i].args);
        args[1] = dir;
        json_t *run = kg_verb_json(root, args, KG_EXIT_OK);
        ck_assert_msg(json_array_size(json_object_get(run, "cases")) == CHOICES[i].n_cases, "row %zu", i);
        json_decref(run);
    }
    json_t *slow = kg_verb_json(root, ARGS("show", dir, "--slowest", "1"), KG_EXIT_OK);
    const json_t *first = json_array_get(json_object_get(slow, "cases"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(first, "key")), "unit/sample/case_2"); /* 3 ms, the longest */
    json_decref(slow);
    kg_verb_expect(root, ARGS("show", dir), KG_EXIT_OK, &text);
    ck_assert(strstr(text, "unit/sample/case_1") && strstr(text, "as the maker was asked"));
    ck_assert(!strstr(text, "unit/sample/case_0")); /* green cases are not in the way */
    free(text);
    free(dir);
}

static void verify_lists_and_exits_4(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *text;
    (void)arg;
    char *dir = kg_maker_sealed(root, 2);
    kg_verb_expect(root, ARGS("verify", "latest"), KG_EXIT_OK, NULL);
    kg_verb_expect(root, ARGS("verify", "--all"), KG_EXIT_OK, NULL);
    kg_verb_expect(root, ARGS("verify"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(root, ARGS("verify", "latest", "--all"), KG_EXIT_USAGE, NULL);
    kg_maker_replace(dir, "data/report.md", "Run", "Rum");
    kg_maker_append(dir, "data/extra", "x");
    char *gone = kg_path_join(dir, "data/results.csv"), *renamed = kg_path_join(dir, "data/results.cvs");
    ck_assert_int_eq(rename(gone, renamed), 0);
    kg_verb_expect(root, ARGS("verify", "latest"), KG_EXIT_INTEGRITY, &text);
    ck_assert_msg(strstr(text, "changed data/report.md") && strstr(text, "added data/extra") &&
                      strstr(text, "missing data/results.csv") && strstr(text, "added data/results.cvs"),
                  "%s", text);
    free(text);
    json_t *all = kg_verb_json(root, ARGS("verify", "--all"), KG_EXIT_INTEGRITY);
    ck_assert_int_eq(kg_verb_integer(all, "n_bad"), 1);
    ck_assert_int_ge(kg_verb_integer(all, "n_findings"), 4);
    json_decref(all);
    free(renamed);
    free(gone);
    free(dir);
}

static void verify_all_sees_a_renamed_bundle(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *dir = kg_maker_sealed(root, 1), *other = kg_path_join(root, "other-name"), *text;
    (void)arg;
    ck_assert_int_eq(rename(dir, other), 0);
    kg_verb_expect(root, ARGS("verify", "--all"), KG_EXIT_INTEGRITY, &text);
    ck_assert_msg(strstr(text, "renamed") != NULL, "%s", text);
    free(text);
    free(other);
    free(dir);
}

static void query_reads_only(struct kg_record *rec, const void *arg) {
    static const char SELECT[] = "SELECT count(*) AS n, 'a,\"b' AS t, NULL AS z, 0.1 AS r FROM bundle";
    const char *root = kg_scratch_dir(rec);
    char *text;
    (void)arg;
    write_runs(root);
    json_t *rows = kg_verb_json(root, ARGS("query", SELECT), KG_EXIT_OK);
    const json_t *row = json_array_get(rows, 0);
    ck_assert_int_eq(kg_verb_integer(row, "n"), 2);
    ck_assert(json_is_null(json_object_get(row, "z")));
    ck_assert_double_eq(json_real_value(json_object_get(row, "r")), 0.1);
    json_decref(rows);
    kg_verb_expect(root, ARGS("query", SELECT, "--csv"), KG_EXIT_OK, &text);
    ck_assert_str_eq(text, "n,t,z,r\r\n2,\"a,\"\"b\",,0.1\r\n");
    free(text);
    kg_verb_expect(root, ARGS("query", "SELECT bundle_id FROM bundle"), KG_EXIT_OK, NULL);
    kg_verb_expect(root, ARGS("query", "DELETE FROM bundle"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(root, ARGS("query", "SELECT 1; SELECT 2"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(root, ARGS("query", SELECT, "--csv", "--json"), KG_EXIT_USAGE, NULL);
    kg_verb_expect(root, ARGS("query"), KG_EXIT_USAGE, NULL);
    rows = kg_verb_json(root, ARGS("query", "SELECT count(*) AS n FROM bundle"), KG_EXIT_OK);
    ck_assert_int_eq(kg_verb_integer(json_array_get(rows, 0), "n"), 2); /* nothing was deleted */
    json_decref(rows);
}

#define COUNT_TO(n) "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < " n ") "

/* Each would go on for hours, or take all memory. */
static void query_is_bounded(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *sql, *option, *value, *says;
    } ROWS[] = {
        { COUNT_TO("1e15") "SELECT sum(x) FROM c", "--max-seconds", "0.5", "longer than 0.5 s" },
        { COUNT_TO("1e15") "SELECT x FROM c", "--max-rows", "1000", "more than 1000 rows" },
        { COUNT_TO("1e15") "SELECT hex(zeroblob(1000000)) FROM c", "--max-mib", "8", "more than 8 MiB" },
        { COUNT_TO("1e15") "SELECT x, randomblob(1000) AS r FROM c ORDER BY r", "--max-mib", "8", "more than 8 MiB" },
        { "SELECT replace(hex(zeroblob(8000000)), '00', hex(zeroblob(1000)))", "--max-mib", "64", "too big" },
        { "SELECT instr(hex(zeroblob(8000000)), hex(zeroblob(4000000)) || '1')", "--max-seconds", "0.5",
          "hangs in one function past its time limit\n" },
    };
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    write_runs(root);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        kg_verb_refuses(root, ARGS("query", ROWS[i].sql, ROWS[i].option, ROWS[i].value),
                        i == 4 ? KG_EXIT_USAGE : KG_EXIT_INCOMPLETE, ROWS[i].says);
    char *script = kg_xasprintf(
        "timeout --foreground --preserve-status -s INT 2 '%s' query --max-seconds 30 --bundles '%s' '" COUNT_TO(
            "1e15") "SELECT sum(x) FROM c'; echo $?",
        kg_program_path(), root);
    const struct kg_process process = { .argv = ARGS("/bin/sh", "-c", script) };
    struct kg_process_result r;
    ck_assert_int_eq(kg_process_run(&process, &r, NULL), KG_OK);
    ck_assert_msg(strstr(r.err, "ended by a signal") != NULL, "%s%s", r.out, r.err);
    ck_assert_str_eq(r.out, "5\n");
    kg_process_result_free(&r);
    free(script);
}

static void deleted_index(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    write_runs(root);
    char *grown = kg_maker_dump(root);
    kg_maker_remove_index(root);
    json_t *report = kg_verb_json(root, ARGS("reindex"), KG_EXIT_OK);
    ck_assert_int_eq(kg_verb_integer(report, "n_indexed"), 2);
    json_decref(report);
    char *rebuilt = kg_maker_dump(root);
    kg_maker_expect_same(rebuilt, grown);
    kg_maker_remove_index(root);
    json_t *rows = kg_verb_json(root, ARGS("list"), KG_EXIT_OK); /* needs no reindex */
    ck_assert_uint_eq(json_array_size(rows), 2);
    json_decref(rows);
    free(rebuilt);
    free(grown);
}

static void newer_index(struct kg_record *rec, const void *arg) {
    static const char *const VERBS[][2] = { { "list", NULL }, { "query", "SELECT 1" } };
    const char *root = kg_scratch_dir(rec);
    char *path = kg_path_join(root, "index.sqlite"), *data = NULL;
    size_t size_bytes;
    struct kg_error err;
    (void)arg;
    kg_verb_expect(root, ARGS("list"), KG_EXIT_OK, NULL);
    EXPECT_OK(kg_file_read(path, &data, &size_bytes, &err), err);
    ck_assert_uint_gt(size_bytes, 64);
    data[60] = 1; /* bytes 60 to 63 of an SQLite file are user_version, big-endian */
    EXPECT_OK(kg_file_write(path, data, size_bytes, &err), err);
    for (size_t i = 0; i < KG_COUNT_OF(VERBS); i++) {
        struct kg_process_result result;
        kg_verb_run(root, ARGS(VERBS[i][0], VERBS[i][1]), false, &result);
        ck_assert_msg(result.exit_code == KG_EXIT_INTEGRITY, "kigo %s: %d", VERBS[i][0], result.exit_code);
        ck_assert_msg(strstr(result.err, "schema version") != NULL, "%s", result.err);
        kg_process_result_free(&result);
    }
    kg_verb_expect(root, ARGS("reindex"), KG_EXIT_OK, NULL);
    kg_verb_expect(root, ARGS("query", "SELECT 1"), KG_EXIT_OK, NULL);
    free(data);
    free(path);
}

static void recover_publishes(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    const pid_t child = fork();
    if (child == 0) {
        struct kg_bundle *bundle;
        struct kg_error err;
        if (kg_maker_open(root, 2, &bundle, &err) == KG_OK && kg_maker_run(bundle, 0, "started", &err) == KG_OK)
            _exit(0); /* without closing anything */
        _exit(1);
    }
    int state = 0;
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert(WIFEXITED(state) && WEXITSTATUS(state) == 0);
    struct kg_process_result result;
    kg_verb_run(root, ARGS("list"), false, &result);
    ck_assert_msg(strstr(result.err, "kigo recover") != NULL, "list does not report the dead run: %s", result.err);
    kg_process_result_free(&result);
    json_t *report = kg_verb_json(root, ARGS("recover"), KG_EXIT_OK);
    ck_assert_int_eq(kg_verb_integer(report, "n_recovered"), 1);
    json_decref(report);
    json_t *rows = kg_verb_json(root, ARGS("list"), KG_EXIT_OK);
    const json_t *row = json_array_get(rows, 0);
    ck_assert_str_eq(json_string_value(json_object_get(row, "state")), "partial");
    ck_assert_int_eq(kg_verb_integer(row, "n_crash"), 1);
    ck_assert_int_eq(kg_verb_integer(row, "n_norun"), 1);
    json_decref(rows);
    kg_verb_expect(root, ARGS("verify", "latest"), KG_EXIT_OK, NULL);
    char *dir = kg_maker_only(root), *page = kg_path_join(dir, "data/report.html");
    ck_assert_msg(kg_path_exists(page), "a recovered bundle has no report.html");
    free(page);
    free(dir);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "bundle_cli", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(list_newest_first),
    CASE(empty_root),
    CASE(naming_a_run),
    CASE(show_chooses_cases),
    CASE(verify_lists_and_exits_4),
    CASE(verify_all_sees_a_renamed_bundle),
    CASE(query_reads_only),
    CASE(query_is_bounded),
    CASE(deleted_index),
    CASE(newer_index),
    CASE(recover_publishes),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
