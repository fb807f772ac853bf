/* Bundles and index edited by another hand, and what each verb says then: no verdict from what does not verify, and
 * none from rows that are not the bundle's. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/must.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { N_CASES = 4, VICTIM = 2, N_BEFORE = 8 };

static void fill(void *arg, size_t i, struct kg_made_case *c) {
    if (i == VICTIM && *(const double *)arg > 0) c->peak_bytes = *(const double *)arg;
}

static void fail_victim(void *arg, size_t i, struct kg_made_case *c) {
    (void)arg;
    if (i == VICTIM) c->status = "fail";
}

struct tampering {
    struct kg_history_lab lab;
    char *id, *dir; /* of the judged run, whose victim holds twice the memory */
    char *older, *older_dir;
};

static void begin(struct tampering *t, const struct kg_record *rec) {
    double usual = 1 << 20, twice = 2 << 20;
    kg_history_lab_open(&t->lab, rec);
    for (size_t i = 0; i < N_BEFORE; i++) {
        char *id = kg_history_lab_run(
            &t->lab, (struct kg_made_run){
                         .commit = t->lab.commits[i], .n_cases = N_CASES, .canary = 1, .fill = fill, .arg = &usual });
        if (i == N_BEFORE - 1) t->older = id;
        else free(id);
    }
    t->id = kg_history_lab_run(
        &t->lab,
        (struct kg_made_run){
            .commit = t->lab.commits[N_BEFORE], .n_cases = N_CASES, .canary = 1, .fill = fill, .arg = &twice });
    t->dir = kg_path_join(t->lab.root, t->id);
    t->older_dir = kg_path_join(t->lab.root, t->older);
    kg_verb_expect(t->lab.root, ARGS("regress"), KG_EXIT_FAILED, NULL);
}

static void end(struct tampering *t) {
    free(t->id);
    free(t->dir);
    free(t->older);
    free(t->older_dir);
    kg_history_lab_close(&t->lab);
}

static void change_index(const char *root, const char *sql) {
    char *path = kg_path_join(root, "index.sqlite");
    sqlite3 *db = NULL;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
    free(path);
}

/* As long as before, and with the time of writing that it had. */
static void change_quietly(const char *dir, const char *relative, const char *from, const char *to) {
    char *path = kg_path_join(dir, relative);
    struct stat was;
    ck_assert_uint_eq(strlen(from), strlen(to));
    ck_assert_int_eq(stat(path, &was), 0);
    kg_maker_replace(dir, relative, from, to);
    const struct timespec times[] = { was.st_atim, was.st_mtim };
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    free(path);
}

static void refused_by_all(const struct tampering *t, const char *named) {
    const char *const *const verbs[] = { ARGS("regress"), ARGS("confirm"), ARGS("steps"),
                                         ARGS("diff", t->older, t->id) };
    for (size_t i = 0; i < KG_COUNT_OF(verbs); i++) {
        kg_verb_refuses(t->lab.root, verbs[i], KG_EXIT_INTEGRITY, named);
        kg_verb_refuses(t->lab.root, verbs[i], KG_EXIT_INTEGRITY, "data/results.ndjson");
        kg_verb_refuses(t->lab.root, verbs[i], KG_EXIT_INTEGRITY, "'kigo verify ");
    }
}

static void edited_results(struct kg_record *rec, const void *arg) {
    struct tampering t;
    (void)arg;
    begin(&t, rec);
    change_quietly(t.dir, "data/results.ndjson", "\"peak_bytes\":2097152", "\"peak_bytes\":0097152");
    refused_by_all(&t, t.id);
    kg_verb_refuses(t.lab.root, ARGS("show", "latest"), KG_EXIT_INTEGRITY, "data/results.ndjson");
    end(&t);
}

/* A baseline that is worse than it was lets the judged run be no worse. */
static void edited_baseline(struct kg_record *rec, const void *arg) {
    struct tampering t;
    (void)arg;
    begin(&t, rec);
    change_quietly(t.older_dir, "data/results.ndjson", "\"peak_bytes\":1048576", "\"peak_bytes\":4048576");
    refused_by_all(&t, t.older);
    end(&t);
}

/* Without an index to begin with: what was never right is not indexed as right. */
static void results_of_another(struct kg_record *rec, const void *arg) {
    struct tampering t;
    char *text = NULL;
    size_t size_bytes = 0;
    struct kg_error err;
    (void)arg;
    begin(&t, rec);
    char *from = kg_path_join(t.older_dir, "data/results.ndjson"), *to = kg_path_join(t.dir, "data/results.ndjson");
    kg_must(kg_file_read(from, &text, &size_bytes, &err), &err);
    kg_must(kg_file_write(to, text, size_bytes, &err), &err);
    refused_by_all(&t, t.id);
    kg_maker_remove_index(t.lab.root);
    refused_by_all(&t, t.id);
    free(to);
    free(from);
    free(text);
    end(&t);
}

/* A commit that is not the run's keeps it from being a baseline: no run's head may be edited. */
static void edited_head(struct kg_record *rec, const void *arg) {
    struct tampering t;
    (void)arg;
    begin(&t, rec);
    change_quietly(t.older_dir, "data/source.json", "\"dirty\":false", "\"dirty\": true");
    kg_verb_refuses(t.lab.root, ARGS("regress"), KG_EXIT_INTEGRITY, "data/source.json: changed");
    const char *const *const verbs[] = { ARGS("list"), ARGS("history", "*"), ARGS("query", "SELECT 1") };
    for (size_t i = 0; i < KG_COUNT_OF(verbs); i++) kg_verb_refuses(t.lab.root, verbs[i], KG_EXIT_INTEGRITY, t.older);
    end(&t);
}

static void edited_rows(struct kg_record *rec, const void *arg) {
    static const char *const EDITS[] = {
        "UPDATE metric_row SET value = 1048576 WHERE value = 2097152",
        "DELETE FROM metric_row WHERE value = 2097152",
        "UPDATE metric_row SET value = 2097152 WHERE value = 1048576",
        "UPDATE result_row SET status = 'skip'",
        "UPDATE bundle SET verdict = 'fail'",
        "UPDATE bundle SET state = 'partial'",
        "UPDATE bundle SET git_dirty = 1",
        "UPDATE bundle SET comparison_key = 'x' WHERE started_us < (SELECT max(started_us) FROM bundle)",
        "UPDATE bundle SET git_commit = '0123456789012345678901234567890123456789'",
        "DELETE FROM env",
        "UPDATE tcase SET case_key = case_key || '2'",
        "UPDATE tcase SET def_sha = 'mine'",
        "UPDATE figure_name SET name = 'mine' WHERE name = 'kv.peak'",
        "DELETE FROM result_row",
        "DELETE FROM bundle",
        "UPDATE bundle SET bundle_no = bundle_no + 1",
        "UPDATE result_row SET bundle_no = -1",
    };
    /* An object's id is its hash: there is no other for it. */
    static const char *const SHARED[] = {
        "UPDATE build SET json = '{}'",
    };
    struct tampering t;
    (void)arg;
    begin(&t, rec);
    char *before = kg_maker_dump(t.lab.root);
    for (size_t i = 0; i < KG_COUNT_OF(EDITS); i++) {
        change_index(t.lab.root, EDITS[i]);
        json_t *r = kg_verb_json(t.lab.root, ARGS("regress"), KG_EXIT_FAILED);
        ck_assert_msg(json_array_size(json_object_get(r, "baseline")) == N_BEFORE, "%s", EDITS[i]);
        json_decref(r);
    }
    for (size_t i = 0; i < KG_COUNT_OF(SHARED); i++) {
        change_index(t.lab.root, SHARED[i]);
        kg_verb_refuses(t.lab.root, ARGS("regress"), KG_EXIT_INTEGRITY, "run 'kigo reindex'");
        kg_verb_expect(t.lab.root, ARGS("reindex"), KG_EXIT_OK, NULL);
        kg_verb_expect(t.lab.root, ARGS("regress"), KG_EXIT_FAILED, NULL);
    }
    char *after = kg_maker_dump(t.lab.root);
    kg_maker_expect_same(after, before);
    free(after);
    free(before);
    end(&t);
}

/* What a trigger or a view would do to rows is not seen in them. */
static void foreign_schema(struct kg_record *rec, const void *arg) {
    static const char *const ADDED[] = {
        "CREATE TRIGGER green AFTER INSERT ON bundle BEGIN UPDATE bundle SET verdict = 'pass'; END",
        "CREATE VIEW mine AS SELECT 1",
        "CREATE TABLE mine(x)",
        "CREATE VIRTUAL TABLE mine USING fts5(x)",
        "DROP INDEX result_by_case",
        "PRAGMA user_version = 0",
        "DROP VIEW run; CREATE VIEW run AS SELECT bundle_id AS run, 'pass' AS verdict FROM bundle",
    };
    struct tampering t;
    (void)arg;
    begin(&t, rec);
    char *before = kg_maker_dump(t.lab.root);
    for (size_t i = 0; i < KG_COUNT_OF(ADDED); i++) {
        change_index(t.lab.root, ADDED[i]);
        const char *const *const verbs[] = { ARGS("regress"), ARGS("list"), ARGS("query", "SELECT 1"),
                                             ARGS("prune", "--apply") };
        for (size_t k = 0; k < KG_COUNT_OF(verbs); k++)
            kg_verb_refuses(t.lab.root, verbs[k], KG_EXIT_INTEGRITY, "'kigo reindex' makes it again");
        kg_verb_expect(t.lab.root, ARGS("reindex"), KG_EXIT_OK, NULL);
        char *after = kg_maker_dump(t.lab.root);
        kg_maker_expect_same(after, before);
        free(after);
    }
    free(before);
    end(&t);
}

/* Whole and right, but not the bundle that was indexed under its name. */
static void replaced_folder(struct kg_record *rec, const void *arg) {
    struct tampering t;
    struct kg_error err;
    char *again = NULL, *verdict = NULL;
    (void)arg;
    begin(&t, rec);
    const struct kg_made_run red = { .started_us = t.lab.clock_us - INT64_C(3600000000),
                                     .commit = t.lab.commits[N_BEFORE],
                                     .n_cases = N_CASES,
                                     .canary = 1,
                                     .fill = fail_victim };
    kg_must(kg_path_remove(t.dir, &err), &err);
    kg_must(kg_made_run_write(t.lab.root, &red, &again, &err), &err);
    ck_assert_str_eq(again, t.id);
    kg_verb_expect(t.lab.root, ARGS("query", "SELECT verdict FROM bundle ORDER BY started_us DESC LIMIT 1"), KG_EXIT_OK,
                   &verdict);
    ck_assert_msg(strstr(verdict, "fail") != NULL, "%s", verdict);
    json_t *r = kg_verb_json(t.lab.root, ARGS("regress"), KG_EXIT_FAILED);
    const json_t *first = json_array_get(json_object_get(r, "judgements"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(first, "subject")), "status");
    json_decref(r);
    free(verdict);
    free(again);
    end(&t);
}

static void row_says_old(struct kg_record *rec, const void *arg) {
    struct tampering t;
    (void)arg;
    begin(&t, rec);
    change_index(t.lab.root,
                 "UPDATE bundle SET started_us = 1 WHERE started_us = (SELECT max(started_us) FROM bundle)");
    kg_verb_expect(t.lab.root, ARGS("prune", "--keep", "1", "--apply"), KG_EXIT_OK, NULL);
    ck_assert(kg_path_is_dir(t.dir));
    change_index(t.lab.root, "UPDATE bundle SET comparison_key = '', verdict = 'fail'");
    kg_verb_expect(t.lab.root, ARGS("prune", "--keep", "1", "--apply"), KG_EXIT_OK, NULL);
    ck_assert(kg_path_is_dir(t.dir) && kg_path_is_dir(t.older_dir));
    end(&t);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "edited_evidence", .name = #function, .timeout_s = 120, .run = function }

static const struct kg_case CASES[] = {
    CASE(edited_results), CASE(edited_baseline), CASE(results_of_another), CASE(edited_head),
    CASE(edited_rows),    CASE(foreign_schema),  CASE(replaced_folder),    CASE(row_says_old),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
