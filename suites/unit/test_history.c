/* The index: equal to the folders whichever way it grew, read only to queries, and refused where it cannot be
 * understood. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "history/id_cache.h"
#include "history/trust.h"
#include "suites/harness/case.h"
#include "suites/support/asked_history.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_maker.h"
#include "suites/support/publishers.h"
#include <kigo/history.h>
#include <check.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void open_and_close(const char *root) {
    struct kg_history *history;
    struct kg_bundle_findings problems = { NULL, 0 };
    struct kg_error err;
    EXPECT_OK(kg_history_open(root, &history, &problems, &err), err);
    ck_assert_msg(problems.n_items == 0, "%s", kg_maker_list(&problems));
    kg_bundle_findings_free(&problems);
    kg_history_close(history);
}

static void sql(const char *root, const char *text) {
    char *path = kg_path_join(root, "index.sqlite");
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
    free(path);
}

/* One number a query gives; the case fails if it gives anything else. */
struct number {
    size_t n_rows;
    double value;
};

static bool take_number(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct number *number = arg;
    (void)names;
    if (!cells || n_columns != 1) return true;
    number->n_rows++;
    number->value = cells[0].kind == KG_CELL_REAL ? cells[0].real : (double)cells[0].integer;
    return true;
}

static double ask(const char *root, const char *text) {
    struct kg_history *history;
    struct number number = { 0, 0 };
    struct kg_error err;
    kg_asked_open(root, &history, NULL);
    EXPECT_OK(kg_history_query(history, text, NULL, 0, take_number, &number, &err), err);
    kg_history_close(history);
    ck_assert_msg(number.n_rows == 1, "%zu rows: %s", number.n_rows, text);
    return number.value;
}

static void write_runs(const char *root) {
    static const char *const RUNS[][4] = {
        { "pass", "pass", "pass", "pass" },
        { "pass", "fail", "skip", "norun" },
        { "crash", "pass", "timeout", "pass" },
    };
    struct kg_bundle_summary summary;
    struct kg_error err;
    for (size_t i = 0; i < KG_COUNT_OF(RUNS); i++) {
        EXPECT_OK(kg_maker_write(root, RUNS[i], 4 - i, &summary, &err), err);
        ck_assert_str_eq(summary.note, "");
    }
}

/* Grown by seal, rebuilt by open, rebuilt by reindex: one dump. */
static void incremental_equals_reindex(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    size_t n_indexed = 0;
    struct kg_error err;
    (void)arg;
    write_runs(root);
    char *grown = kg_maker_dump(root);
    EXPECT_OK(kg_history_reindex(root, &n_indexed, NULL, &err), err);
    ck_assert_uint_eq(n_indexed, 3);
    char *again = kg_maker_dump(root);
    kg_maker_remove_index(root);
    open_and_close(root);
    char *opened = kg_maker_dump(root);
    kg_maker_remove_index(root);
    EXPECT_OK(kg_history_reindex(root, &n_indexed, NULL, &err), err);
    char *rebuilt = kg_maker_dump(root);
    ck_assert_ptr_nonnull(strstr(grown, "metric_row:"));
    kg_maker_expect_same(again, grown);
    kg_maker_expect_same(opened, grown);
    kg_maker_expect_same(rebuilt, grown);
    free(rebuilt);
    free(opened);
    free(again);
    free(grown);
}

/* Two runs whose ids have the first 43 bits of SHA-256 in common, and of each a figure whose name has the first 40 in
 * common with the other's: found by trying, in seconds. */
static void name_memory(void *arg, size_t i, struct kg_made_case *c) {
    (void)i;
    c->more_memory = arg;
}

static void hashes_that_meet(struct kg_record *rec, const void *arg) {
    static const struct {
        int64_t started_us;
        char tag[8];
    } RUNS[] = { { INT64_C(1764000002218356), "t669300" }, { INT64_C(1764000003364751), "t721735" } };
    const char *root = kg_scratch_dir(rec);
    struct kg_history *history;
    struct kg_error err;
    char *ids[KG_COUNT_OF(RUNS)];
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(RUNS); i++) {
        char tag[sizeof RUNS[i].tag];
        memcpy(tag, RUNS[i].tag, sizeof tag);
        const struct kg_made_run run = {
            .started_us = RUNS[i].started_us, .n_cases = 1, .fill = name_memory, .arg = tag
        };
        EXPECT_OK(kg_made_run_write(root, &run, &ids[i], &err), err);
        open_and_close(root);
    }
    ck_assert_str_ne(ids[0], ids[1]);
    int64_t both[2]; /* the first bits of a SHA-256 (FIPS 180-2), and 63 bits of the next eight bytes, below zero */
    kg_hash_ids("abc", 3, 40, both);
    ck_assert_int_eq(both[0], 0xba7816bf8f);
    ck_assert_int_eq(both[1], -1 - (0x414140de5dae2223 >> 1));
    ck_assert_int_eq(kg_hash_id("abc", 3, 40), both[0]);
    ck_assert_int_eq(kg_hash_id(ids[0], strlen(ids[0]), 43), kg_hash_id(ids[1], strlen(ids[1]), 43));
    ck_assert_int_eq(kg_hash_id("t669300.peak\0bytes", 18, 40), kg_hash_id("t721735.peak\0bytes", 18, 40));
    EXPECT_OK(kg_history_open(root, &history, NULL, &err), err);
    EXPECT_OK(kg_trust_heads(history, NULL, &err), err);
    EXPECT_OK(kg_trust_runs(history, (const char *const *)ids, KG_COUNT_OF(ids), &err), err);
    ck_assert_uint_eq(kg_trust_repaired(history)->n_items, 0);
    kg_history_close(history);
    for (size_t i = 0; i < KG_COUNT_OF(RUNS); i++) {
        char *own =
            kg_xasprintf("SELECT count(*) FROM figure WHERE run = '%s' AND figure = '%s.peak'", ids[i], RUNS[i].tag);
        ck_assert_double_eq(ask(root, own), 1);
        free(own);
    }
    ck_assert_double_eq(ask(root, "SELECT count(*) FROM figure WHERE figure LIKE 't%.peak'"), 2);
    /* The one that was first goes: what it was called stays the other's alone. */
    char *dir = kg_path_join(root, ids[0]);
    EXPECT_OK(kg_path_remove(dir, &err), err);
    ck_assert_double_eq(ask(root, "SELECT count(DISTINCT figure) FROM figure WHERE figure LIKE 't%.peak'"), 1);
    EXPECT_OK(kg_made_run_write(root,
                                &(const struct kg_made_run){ .started_us = RUNS[1].started_us + 1000000,
                                                             .n_cases = 1,
                                                             .fill = name_memory,
                                                             .arg = (char[]){ "t721735" } },
                                NULL, &err),
              err);
    ck_assert_double_eq(ask(root, "SELECT count(*) FROM figure WHERE figure = 't721735.peak'"), 2);
    ck_assert_double_eq(ask(root, "SELECT count(*) FROM figure_name WHERE name = 't721735.peak'"), 1);
    free(dir);
    for (size_t i = 0; i < KG_COUNT_OF(RUNS); i++) free(ids[i]);
}

/* Takes one folder away, lets the index see it, and puts it back. */
static void leave_and_come_back(const char *root, const char *id, const char *all) {
    char *away = kg_xasprintf("%s/../away-%s", root, id), *home = kg_path_join(root, id);
    ck_assert_int_eq(rename(home, away), 0);
    open_and_close(root); /* drops it, and what only it had */
    char *without = kg_maker_dump(root);
    ck_assert(strcmp(all, without) != 0);
    kg_maker_remove_index(root);
    open_and_close(root);
    char *fresh_without = kg_maker_dump(root);
    kg_maker_expect_same(fresh_without, without);
    ck_assert_int_eq(rename(away, home), 0);
    open_and_close(root); /* adds it after younger ones */
    char *back = kg_maker_dump(root);
    kg_maker_expect_same(back, all);
    free(back);
    free(fresh_without);
    free(without);
    free(home);
    free(away);
}

/* Bundles that come in another order than their ids': a copied folder, an older run sealed late, a pruned one. */
static void order_does_not_matter(struct kg_record *rec, const void *arg) {
    char *root = kg_path_join(kg_scratch_dir(rec), "root");
    struct kg_dir_list list;
    struct kg_error err;
    size_t n_bundles = 0;
    (void)arg;
    write_runs(root);
    char *all = kg_maker_dump(root);
    EXPECT_OK(kg_dir_list(root, &list, &err), err);
    for (size_t i = 0; i < list.n_names; i++) {
        if (list.names[i][0] != '2') continue;
        leave_and_come_back(root, list.names[i], all);
        n_bundles++;
    }
    ck_assert_uint_eq(n_bundles, 3);
    kg_dir_list_free(&list);
    free(all);
    free(root);
}

/* Of tables that every store has. */
static void known_figures(struct kg_record *rec, const void *arg) {
#define NAMED " JOIN figure_name f USING(figure_id)"
    static const struct {
        const char *sql;
        double want;
    } FIGURES[] = {
        { "SELECT count(*) FROM bundle", 3 },
        { "SELECT count(*) FROM result_row", 9 },
        { "SELECT count(*) FROM tcase", 4 },
        { "SELECT sum(n_pass) FROM bundle", 4 + 1 + 1 },
        { "SELECT count(*) FROM result_row WHERE status = 'pass'", 6 },
        { "SELECT count(*) FROM result_row WHERE status <> 'pass' AND reason IS NULL", 0 },
        { "SELECT count(DISTINCT env_id) FROM bundle", 1 },
        { "SELECT count(*) FROM bundle WHERE manifest_sha256 = '' OR length(manifest_sha256) <> 64", 0 },
        { "SELECT DISTINCT value FROM metric_row" NAMED " JOIN result_row USING(result_id) JOIN tcase USING(case_id)"
          " WHERE tcase.name = 'case_1' AND f.name = 'logits.max_abs'",
          0.002 },
        { "SELECT DISTINCT tol FROM metric_row" NAMED " WHERE name = 'logits.max_abs'", 0.01 },
        { "SELECT DISTINCT tol FROM metric_row" NAMED " WHERE name = 'logits.margin'", 1 },
        { "SELECT DISTINCT value FROM metric_row" NAMED " JOIN result_row USING(result_id) JOIN tcase USING(case_id)"
          " WHERE tcase.name = 'case_2' AND f.name = 'speed'",
          102 },
        { "SELECT max(value) FROM metric_row" NAMED
          " WHERE name = 'decode.host.warm' AND unit = 'ns' AND mad IS NOT NULL",
          8 },
        { "SELECT DISTINCT value FROM metric_row" NAMED " WHERE name = 'weights.peak'", 4096 },
        { "SELECT count(*) FROM metric_row WHERE valid <> 1", 0 },
        { "SELECT max(duration_ns) FROM result_row", 4000000 },
        { "SELECT count(*) FROM bundle WHERE verdict = 'fail' AND exit_code = 1", 2 },
    };
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    write_runs(root);
    for (size_t i = 0; i < KG_COUNT_OF(FIGURES); i++) {
        const double got = ask(root, FIGURES[i].sql);
        ck_assert_msg(got == FIGURES[i].want, "%s: %.17g, not %.17g", FIGURES[i].sql, got, FIGURES[i].want);
    }
}

static void number(void *arg, size_t i, struct kg_made_case *c) {
    (void)arg;
    c->time_ns = 1000 + (double)i;
}

/* Figures go into the index some dozens at a time: numbers of them below, at and above whole dozens. */
static void each_figure_of_each_case(struct kg_record *rec, const void *arg) {
    static const size_t N_CASES[] = { 2, 3, 8, 9, 40 };
    enum { FIGURES = 12 }; /* of a case that the maker makes */
    static const char ALL[] = "SELECT count(*) FROM metric_row",
                      OWN[] = "SELECT count(*) FROM metric_row" NAMED
                              " JOIN result_row USING(result_id) JOIN tcase USING(case_id) WHERE f.name ="
                              " 'time.graph.warm' AND value = 1000 + CAST(substr(tcase.name, 6) AS INT)",
                      PLACES[] = "SELECT count(*) FROM (SELECT max(seq) AS last, count(DISTINCT figure_id) AS n FROM"
                                 " metric_row GROUP BY result_id) AS places WHERE last = n - 1";
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(N_CASES); i++) {
        char *root = kg_xasprintf("%s/%zu", kg_scratch_dir(rec), i);
        const struct kg_made_run run = { .started_us = 1, .n_cases = N_CASES[i], .fill = number };
        struct kg_error err;
        EXPECT_OK(kg_dir_make(root, &err), err);
        EXPECT_OK(kg_made_run_write(root, &run, NULL, &err), err);
        ck_assert_double_eq(ask(root, ALL), (double)(N_CASES[i] * FIGURES));
        ck_assert_double_eq(ask(root, OWN), (double)N_CASES[i]);
        ck_assert_double_eq(ask(root, PLACES), (double)N_CASES[i]);
        free(root);
    }
}

static bool ignore_rows(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    (void)arg;
    (void)n_columns;
    (void)names;
    (void)cells;
    return true;
}

static void queries_only_read(struct kg_record *rec, const void *arg) {
    static const char *const REFUSED[] = {
        "DELETE FROM bundle",
        "UPDATE result SET status = 'pass'",
        "INSERT INTO annotation VALUES('a','b','c','d',1,1,'e','f')",
        "DROP TABLE metric",
        "CREATE TABLE t(a)",
        "CREATE TEMP TABLE t(a)",
        "CREATE VIEW v AS SELECT 1",
        "ATTACH 'other.db' AS other",
        "VACUUM",
        "VACUUM INTO 'copy.db'",
        "PRAGMA user_version = 9",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA writable_schema = 1",
        "BEGIN IMMEDIATE",
        "REINDEX",
        "ANALYZE",
        "WITH d AS (SELECT 1) DELETE FROM bundle",
        "EXPLAIN DELETE FROM bundle",
        "SELECT 1; DELETE FROM bundle",
        "SELECT 1; SELECT 2",
        "SELECT load_extension('x')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT * FROM dbstat",
        "SELECT * FROM sqlite_stmt",
        "SELECT * FROM pragma_compile_options",
        "SELECT * FROM nothing",
        "SELEC 1",
        "",
        "-- only a comment",
    };
    static const char *const ACCEPTED[] = {
        "SELECT 1",
        "SELECT 1;",
        " SELECT count(*) FROM bundle ; -- behind",
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 5) SELECT sum(x) FROM c",
        "EXPLAIN QUERY PLAN SELECT * FROM result",
        "PRAGMA table_info(bundle)",
        "SELECT json_extract(json, '$.cpu.model') FROM env",
        "SELECT name FROM sqlite_schema",
    };
    const char *root = kg_scratch_dir(rec);
    struct kg_history *history;
    struct kg_error err;
    (void)arg;
    write_runs(root);
    char *before = kg_maker_dump(root);
    EXPECT_OK(kg_history_open(root, &history, NULL, &err), err);
    for (size_t i = 0; i < KG_COUNT_OF(REFUSED); i++)
        ck_assert_msg(kg_history_query(history, REFUSED[i], NULL, 0, ignore_rows, NULL, &err) == KG_ERR_USAGE, "%s",
                      REFUSED[i]);
    for (size_t i = 0; i < KG_COUNT_OF(ACCEPTED); i++)
        EXPECT_OK(kg_history_query(history, ACCEPTED[i], NULL, 0, ignore_rows, NULL, &err), err);
    kg_history_close(history);
    char *after = kg_maker_dump(root);
    kg_maker_expect_same(after, before);
    ck_assert_uint_eq(kg_maker_count(root, "other.db"), 0);
    ck_assert_uint_eq(kg_maker_count(root, "copy.db"), 0);
    free(after);
    free(before);
}

static void newer_schema(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    static const char *const STATUSES[] = { "pass" };
    struct kg_history *history;
    struct kg_bundle_summary summary;
    size_t n_indexed;
    struct kg_error err;
    (void)arg;
    write_runs(root);
    sql(root, "PRAGMA user_version = 999");
    ck_assert_int_eq(kg_history_open(root, &history, NULL, &err), KG_ERR_SCHEMA);
    ck_assert_int_eq(kg_status_exit_code(err.status), KG_EXIT_INTEGRITY);
    ck_assert_msg(strstr(err.message, "999") != NULL, "%s", err.message);
    /* A run is published all the same, and says that it is not indexed. */
    EXPECT_OK(kg_maker_write(root, STATUSES, 1, &summary, &err), err);
    ck_assert_msg(strstr(summary.note, "not indexed") != NULL, "%s", summary.note);
    ck_assert_uint_eq(kg_maker_count(root, "2"), 4);
    EXPECT_OK(kg_history_reindex(root, &n_indexed, NULL, &err), err);
    ck_assert_uint_eq(n_indexed, 4);
    ck_assert_double_eq(ask(root, "SELECT count(*) FROM bundle"), 4);
}

static void from_an_empty_file(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *path = kg_path_join(root, "index.sqlite");
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_file_write(path, "", 0, &err), err); /* version 0 without a table */
    open_and_close(root);
    ck_assert_double_eq(ask(root, "SELECT count(*) FROM bundle"), 0);
    free(path);
}

static void file_that_is_no_database(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *path = kg_path_join(root, "index.sqlite");
    struct kg_history *history;
    struct kg_error err;
    size_t n_indexed;
    (void)arg;
    write_runs(root);
    char *good = kg_maker_dump(root);
    kg_maker_remove_index(root);
    struct kg_buffer noise = KG_BUFFER_INIT;
    for (int i = 0; i < 5000; i++) kg_buffer_puts(&noise, "no database ");
    EXPECT_OK(kg_file_write(path, noise.data, noise.len, &err), err);
    ck_assert_int_eq(kg_history_open(root, &history, NULL, &err), KG_ERR_FORMAT);
    EXPECT_OK(kg_history_reindex(root, &n_indexed, NULL, &err), err);
    char *again = kg_maker_dump(root);
    kg_maker_expect_same(again, good);
    free(again);
    free(good);
    kg_buffer_free(&noise);
    free(path);
}

/* One folder that cannot be read does not hide the others. */
static void unreadable_bundle(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    struct kg_dir_list list;
    struct kg_history *history;
    struct kg_bundle_findings problems = { NULL, 0 };
    struct kg_error err;
    size_t n_indexed;
    (void)arg;
    write_runs(root);
    EXPECT_OK(kg_dir_list(root, &list, &err), err);
    char *dir = kg_path_join(root, list.names[1]);
    kg_maker_append(dir, "data/results.ndjson", "{\"torn");
    EXPECT_OK(kg_history_reindex(root, &n_indexed, &problems, &err), err);
    ck_assert_uint_eq(n_indexed, 2);
    ck_assert_uint_eq(problems.n_items, 1);
    ck_assert_str_eq(problems.items[0].path, list.names[1]);
    kg_bundle_findings_free(&problems);
    EXPECT_OK(kg_history_open(root, &history, &problems, &err), err);
    ck_assert_uint_eq(problems.n_items, 1);
    kg_history_close(history);
    kg_bundle_findings_free(&problems);
    kg_dir_list_free(&list);
    free(dir);
}

/* More folders than are read ahead at a time, one of them unreadable: all in, in any number of rounds. */
static void many_folders(struct kg_record *rec, const void *arg) {
    enum { N_COPIES = 40, SPOILT = 17 };
    const char *root = kg_scratch_dir(rec);
    struct kg_bundle_findings problems = { NULL, 0 };
    size_t n_indexed = 0;
    struct kg_error err;
    (void)arg;
    for (int i = 0; i < N_COPIES; i++) {
        char *to = kg_xasprintf("%s/20261120T0938%02dZ-nogit-%08x", root, i, i),
             *copy = kg_maker_copy(kg_maker_template(), to);
        if (i == SPOILT) kg_maker_append(copy, "data/plan.ndjson", "{");
        free(copy);
        free(to);
    }
    EXPECT_OK(kg_history_reindex(root, &n_indexed, &problems, &err), err);
    ck_assert_uint_eq(n_indexed, N_COPIES - 1);
    ck_assert_uint_eq(problems.n_items, 1);
    ck_assert_double_eq(ask(root, "SELECT count(*) FROM result"), 3 * (N_COPIES - 1));
    ck_assert_double_eq(ask(root, "SELECT count(DISTINCT result_id) FROM metric"), 3 * (N_COPIES - 1));
    ck_assert_double_eq(ask(root, "SELECT count(*) FROM tcase"), 3);
    kg_bundle_findings_free(&problems);
}

/* Processes that index at once wait for each other. */
static void many_writers(struct kg_record *rec, const void *arg) {
    enum { N_CHILDREN = 4 };
    const char *root = kg_scratch_dir(rec);
    struct kg_error err;
    size_t n_indexed;
    pid_t children[N_CHILDREN];
    (void)arg;
    write_runs(root);
    char *good = kg_maker_dump(root);
    kg_maker_remove_index(root);
    for (int i = 0; i < N_CHILDREN; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0) {
            struct kg_history *history;
            enum kg_status status = KG_OK;
            for (int k = 0; k < 5 && status == KG_OK; k++) {
                status = i % 2 ? kg_history_reindex(root, &n_indexed, NULL, &err)
                               : kg_history_open(root, &history, NULL, &err);
                if (status == KG_OK && i % 2 == 0) kg_history_close(history);
            }
            if (status != KG_OK) fprintf(stderr, "child %d: %s\n", i, err.message);
            _exit(status == KG_OK ? 0 : 1);
        }
    }
    for (int i = 0; i < N_CHILDREN; i++) {
        int state = 0;
        ck_assert_int_eq(waitpid(children[i], &state, 0), children[i]);
        ck_assert_msg(WIFEXITED(state) && WEXITSTATUS(state) == 0, "child %d ended with %d", i, state);
    }
    char *again = kg_maker_dump(root);
    kg_maker_expect_same(again, good);
    free(again);
    free(good);
}

/* For some seconds; the whole minute is in full/test_full_size.c. */
static void many_publishers(struct kg_record *rec, const void *arg) {
    struct kg_published published;
    (void)arg;
    kg_publish_at_once(kg_scratch_dir(rec), 2, &published);
    ck_assert_uint_ge(published.n_reindexed, 1);
    ck_assert_uint_ge(published.n_asked, 1);
    kg_record_metric(rec, "published", "count", (double)published.n_runs);
}

/* SQLite's locking by files has no shared memory, as some network file systems: there is no WAL, and the index works.
 */
static void without_wal(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    sqlite3_vfs *usual = sqlite3_vfs_find(NULL), *dotfile = sqlite3_vfs_find("unix-dotfile");
    (void)arg;
    if (!dotfile) {
        kg_record_skip(rec, "this SQLite has no unix-dotfile VFS to try it with");
        return;
    }
    sqlite3_vfs_register(dotfile, 1);
    write_runs(root);
    const double n_runs = ask(root, "SELECT count(*) FROM bundle");
    sqlite3_vfs_register(usual, 1);
    ck_assert_double_eq(n_runs, 3);
    ck_assert_uint_eq(kg_maker_count(root, "index.sqlite-wal"), 0);
}

/* What a user who may only read the folder of bundles asks is answered from an index in memory. */
static void read_only_folder(struct kg_record *rec, const void *arg) {
    enum { GOOD, WRONG, OUT_OF_REACH, NOBODY = 65534 };
    const char *root = kg_scratch_dir(rec);
    int state = 0;
    (void)arg;
    write_runs(root);
    kg_maker_remove_index(root);
    ck_assert_int_eq(chmod(root, 0555), 0);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct kg_history *history;
        struct kg_error err;
        struct number n = { 0 };
        if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) _exit(OUT_OF_REACH);
        if (access(root, R_OK | X_OK) != 0) _exit(OUT_OF_REACH);
        enum kg_status status = kg_history_open(root, &history, NULL, &err);
        if (status == KG_OK)
            status = kg_history_query(history, "SELECT count(*) FROM bundle", NULL, 0, take_number, &n, &err);
        if (status != KG_OK) fprintf(stderr, "%s\n", err.message);
        _exit(status == KG_OK && n.value == 3 ? GOOD : WRONG);
    }
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert_int_eq(chmod(root, 0755), 0);
    ck_assert_msg(WIFEXITED(state) && WEXITSTATUS(state) != WRONG, "the reader ended with %d", state);
    if (WEXITSTATUS(state) == OUT_OF_REACH) kg_record_skip(rec, "the scratch folder is out of other users' reach");
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "history", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(incremental_equals_reindex),
    CASE(order_does_not_matter),
    CASE(hashes_that_meet),
    CASE(known_figures),
    CASE(each_figure_of_each_case),
    CASE(queries_only_read),
    CASE(newer_schema),
    CASE(from_an_empty_file),
    CASE(file_that_is_no_database),
    CASE(unreadable_bundle),
    CASE(many_folders),
    CASE(many_writers),
    CASE(many_publishers),
    CASE(without_wal),
    CASE(read_only_folder),
};

KG_ASKED_SUITE(history, CASES)
