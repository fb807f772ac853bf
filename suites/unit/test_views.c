/* The index's views for people: they say what the tables hold, and every column is documented. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/markdown.h"
#include "base/size.h"
#include "history/views.h"
#include "suites/harness/case.h"
#include "suites/support/asked_history.h"
#include "suites/support/bundle_maker.h"
#include <kigo/history.h>
#include <check.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

static void write_runs(const char *root) {
    static const char *const RUNS[][4] = {
        { "pass", "pass", "pass", "pass" },
        { "pass", "fail", "skip", "norun" },
        { "crash", "pass", "timeout", "pass" },
    };
    struct kg_bundle_summary summary;
    struct kg_error err;
    for (size_t i = 0; i < KG_COUNT_OF(RUNS); i++) EXPECT_OK(kg_maker_write(root, RUNS[i], 4, &summary, &err), err);
}

/* Cells of an answer, a blank behind each. */
static bool take_cells(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_buffer *out = arg;
    (void)names;
    for (size_t i = 0; cells && i < n_columns; i++) {
        if (cells[i].kind == KG_CELL_TEXT) kg_buffer_append(out, cells[i].text, cells[i].size_bytes);
        else if (cells[i].kind == KG_CELL_NULL) kg_buffer_puts(out, "NULL");
        else kg_buffer_printf(out, "%.9g", cells[i].kind == KG_CELL_REAL ? cells[i].real : (double)cells[i].integer);
        kg_buffer_puts(out, " ");
    }
    return true;
}

/* malloc'ed */
static char *ask(const char *root, const char *sql) {
    struct kg_history *history;
    struct kg_buffer out = KG_BUFFER_INIT;
    struct kg_error err;
    kg_asked_open(root, &history, NULL);
    EXPECT_OK(kg_history_query(history, sql, NULL, 0, take_cells, &out, &err), err);
    kg_history_close(history);
    return out.data ? out.data : kg_xstrdup("");
}

static void expect_answer(const char *root, const char *sql, const char *want) {
    char *got = ask(root, sql);
    ck_assert_msg(strcmp(got, want) == 0, "%s: '%s', not '%s'", sql, got, want);
    free(got);
}

/* A run's start as the view says it, and as the table has it. */
static bool same_time(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    char text[KG_UTC_TEXT_SIZE];
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    ck_assert_int_eq(cells[1].kind, KG_CELL_INT);
    kg_clock_utc_text(cells[1].integer, text);
    ck_assert_uint_eq(cells[0].size_bytes, strlen("YYYY-MM-DD HH:MM:SS"));
    ck_assert_msg(strncmp(text, cells[0].text, 10) == 0 && strncmp(text + 11, cells[0].text + 11, 8) == 0,
                  "%.19s, not %s", cells[0].text, text);
    ++*(size_t *)arg;
    return true;
}

static void starts_are_those_of_the_table(struct kg_record *rec, const void *arg) {
    struct kg_history *history;
    size_t n_runs = 0;
    struct kg_error err;
    (void)arg;
    write_runs(kg_scratch_dir(rec));
    kg_asked_open(kg_scratch_dir(rec), &history, NULL);
    EXPECT_OK(kg_history_query(history, "SELECT started_utc, started_us FROM run JOIN bundle ON run = bundle_id", NULL,
                               0, same_time, &n_runs, &err),
              err);
    kg_history_close(history);
    ck_assert_uint_eq(n_runs, 3);
}

/* `result` and `metric`, which statements of older kigos name. */
static void views_of_older_kigos(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    write_runs(root);
    expect_answer(root,
                  "SELECT count(*) FROM result r JOIN bundle b ON b.bundle_id = r.bundle_id JOIN result_row w ON"
                  " w.result_id = r.result_id AND w.bundle_no = b.bundle_no AND w.status = r.status",
                  "12 ");
    expect_answer(root, "SELECT (SELECT count(*) FROM metric) - (SELECT count(*) FROM metric_row)", "0 ");
    expect_answer(root, "SELECT max(median) FROM metric WHERE name = 'decode.host.warm' AND unit = 'ns'", "8 ");
    expect_answer(root, "SELECT count(*) FROM metric WHERE (mad IS NULL) <> (median IS NULL)", "0 ");
}

static void say_what_tables_hold(struct kg_record *rec, const void *arg) {
    static const char *const ANSWERS[][2] = {
        { "SELECT verdict, count(*) FROM run GROUP BY verdict ORDER BY verdict", "fail 1 incomplete 1 pass 1 " },
        { "SELECT sum(n_planned) AS a, sum(n_pass) AS b, sum(n_fail) AS c, sum(n_skip) AS d, sum(n_crash) AS e,"
          " sum(n_timeout) AS f, sum(n_norun) AS g FROM run",
          "12 7 1 1 1 1 1 " },
        { "SELECT count(*) FROM run JOIN bundle ON run = bundle_id WHERE"
          " abs(run_seconds * 1e6 - (sealed_us - started_us)) < 1 AND has_signature = 0",
          "3 " },
        { "SELECT status, case_name FROM failure ORDER BY status",
          "crash case_0 fail case_1 norun case_3 timeout case_2 " },
        { "SELECT DISTINCT value, value_limit, status FROM figure WHERE case_name = 'case_1' AND"
          " figure = 'logits.max_abs' AND status = 'pass'",
          "0.002 0.01 pass " },
        { "SELECT DISTINCT unit, CASE WHEN mad IS NULL THEN 1 ELSE 0 END AS none FROM figure"
          " WHERE figure = 'decode.host.warm'",
          "ns 0 " },
        { "SELECT (SELECT count(*) FROM figure) - (SELECT count(*) FROM metric_row) AS n", "0 " },
        { "SELECT count(*) FROM failure NATURAL JOIN run", "4 " },
        { "SELECT count(*) FROM figure NATURAL JOIN run", NULL },
        { "SELECT count(*) FROM figure NATURAL JOIN failure", NULL },
    };
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    write_runs(root);
    char *all = ask(root, "SELECT count(*) FROM metric_row"),
         *of_failures = ask(root, "SELECT count(*) FROM metric_row JOIN result_row USING(result_id)"
                                  " WHERE status IN ('fail', 'crash', 'timeout', 'norun')");
    ck_assert_str_ne(all, "0 ");
    ck_assert_str_ne(of_failures, "0 ");
    const char *const counted[] = { all, of_failures };
    for (size_t i = 0, k = 0; i < KG_COUNT_OF(ANSWERS); i++)
        expect_answer(root, ANSWERS[i][0], ANSWERS[i][1] ? ANSWERS[i][1] : counted[k++]);
    free(of_failures);
    free(all);
}

/* Of every view in the index, and of no other. */
static void every_column_is_documented(struct kg_record *rec, const void *arg) {
    /* `result` and `metric` are no views for people. */
    static const char SQL[] =
        "SELECT v.name, c.name FROM sqlite_schema v JOIN pragma_table_info(v.name) c WHERE v.type = 'view' AND"
        " v.name NOT IN ('result', 'metric') ORDER BY v.name = 'failure', v.name = 'figure', c.cid";
    const char *root = kg_scratch_dir(rec);
    struct kg_buffer want = KG_BUFFER_INIT;
    (void)arg;
    write_runs(root);
    for (size_t i = 0; i < KG_N_VIEW_COLUMNS; i++) {
        ck_assert_msg(*KG_VIEW_COLUMNS[i].meaning, "%s.%s", KG_VIEW_COLUMNS[i].view, KG_VIEW_COLUMNS[i].column);
        kg_buffer_printf(&want, "%s %s ", KG_VIEW_COLUMNS[i].view, KG_VIEW_COLUMNS[i].column);
    }
    char *path = kg_path_join(root, "index.sqlite");
    struct kg_buffer found = KG_BUFFER_INIT;
    sqlite3_stmt *stmt;
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, SQL, -1, &stmt, NULL), SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW)
        kg_buffer_printf(&found, "%s %s ", (const char *)sqlite3_column_text(stmt, 0),
                         (const char *)sqlite3_column_text(stmt, 1));
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    ck_assert_str_eq(found.data, want.data);
    kg_buffer_free(&found);
    free(path);
    kg_buffer_free(&want);
}

/* docs/history.md has the line of each column, and no line of another. */
static void page_has_every_column(struct kg_record *rec, const void *arg) {
    static const char HEAD[] = "| view | column | unit | meaning |\n| --- | --- | --- | --- |\n";
    struct kg_buffer want = KG_BUFFER_INIT;
    char *page;
    size_t n_bytes;
    struct kg_error err;
    (void)rec, (void)arg;
    kg_buffer_puts(&want, HEAD);
    for (size_t i = 0; i < KG_N_VIEW_COLUMNS; i++) {
        const struct kg_view_column *c = &KG_VIEW_COLUMNS[i];
        kg_markdown_row(&want, (const char *const[]){ c->view, c->column, c->unit, c->meaning }, 4);
    }
    kg_buffer_puts(&want, "\n");
    EXPECT_OK(kg_file_read(kg_fixture_path("../docs/history.md"), &page, &n_bytes, &err), err);
    const char *table = strstr(page, HEAD);
    ck_assert_msg(table && strncmp(table, want.data, want.len) == 0,
                  "docs/history.md has not the table that 'kigo query --schema --markdown' prints");
    free(page);
    kg_buffer_free(&want);
}

/* What views share joins them, so it is never NULL; and it means one thing. */
static void shared_columns_join(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    size_t n_shared = 0;
    (void)arg;
    write_runs(root);
    for (size_t i = 0; i < KG_N_VIEW_COLUMNS; i++) {
        const struct kg_view_column *a = &KG_VIEW_COLUMNS[i];
        for (size_t k = 0; k < KG_N_VIEW_COLUMNS; k++) {
            const struct kg_view_column *b = &KG_VIEW_COLUMNS[k];
            if (i == k || strcmp(a->column, b->column) != 0) continue;
            char *sql = kg_xasprintf("SELECT count(*) FROM %s WHERE %s IS NULL", a->view, a->column);
            expect_answer(root, sql, "0 ");
            ck_assert_str_eq(a->unit, b->unit);
            free(sql);
            n_shared++;
        }
    }
    ck_assert_uint_gt(n_shared, 0);
}

/* An index of the schema before the views, as kigo left it. */
static void older_index_is_made_again(struct kg_record *rec, const void *arg) {
    static const char BACK[] =
        "DROP VIEW run; DROP VIEW figure; DROP VIEW failure; DROP VIEW metric; DROP TABLE metric_row;"
        "DROP TABLE figure_name; CREATE TABLE figure(figure_id INTEGER PRIMARY KEY, name TEXT, unit TEXT) STRICT;"
        "CREATE TABLE metric_row(result_id INTEGER, seq INTEGER, figure_id INTEGER, value REAL, tol REAL, n INTEGER,"
        " mad REAL, ci_lo REAL, ci_hi REAL, valid INTEGER, PRIMARY KEY(result_id, seq)) STRICT, WITHOUT ROWID;"
        "CREATE VIEW metric AS SELECT * FROM metric_row; PRAGMA user_version = 3";
    const char *root = kg_scratch_dir(rec);
    char *path = kg_path_join(root, "index.sqlite");
    sqlite3 *db;
    (void)arg;
    write_runs(root);
    char *before = kg_maker_dump(root);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(db, BACK, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
    expect_answer(root, "SELECT count(*) FROM run", "3 ");
    char *after = kg_maker_dump(root);
    kg_maker_expect_same(after, before);
    free(after);
    free(before);
    free(path);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "views", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(say_what_tables_hold),
    CASE(every_column_is_documented),
    { .layer = "unit",
      .op = "views",
      .name = "page_has_every_column",
      .source_tree = true,
      .run = page_has_every_column },
    CASE(shared_columns_join),
    CASE(starts_are_those_of_the_table),
    CASE(views_of_older_kigos),
    CASE(older_index_is_made_again),
};

KG_ASKED_SUITE(views, CASES)
