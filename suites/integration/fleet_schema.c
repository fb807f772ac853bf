#include "suites/integration/fleet_schema.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/integration/fleet_lab.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* From the newest version to an older one. */
static const char TO_4[] =
    "DROP INDEX kigo.result_by_run;"
    "SET search_path = kigo;"
    "CREATE OR REPLACE VIEW figure AS SELECT b.bundle_id AS run, r.result_id AS result_no, c.case_key, c.layer, c.op,"
    " c.name AS case_name, coalesce(c.backend, '-') AS backend, coalesce(c.dtype, '-') AS dtype,"
    " coalesce(c.shape, '-') AS shape, coalesce(c.spec, '-') AS spec, r.status, f.name AS figure, f.unit, m.value,"
    " m.tol AS value_limit, m.n AS n_values, m.mad, m.ci_lo AS ci_low, m.ci_hi AS ci_high, m.valid"
    " FROM bundle b JOIN result_row r ON r.result_id BETWEEN b.bundle_no << 20 AND (b.bundle_no << 20) + 1048575"
    "  AND r.runner_no = b.runner_no AND r.month = b.month"
    " JOIN metric_row m ON m.result_id = r.result_id AND m.runner_no = r.runner_no AND m.month = r.month"
    " JOIN figure_name f ON f.figure_id = m.figure_id JOIN tcase c ON c.case_id = r.case_id;"
    "CREATE OR REPLACE VIEW failure AS SELECT b.bundle_id AS run, r.result_id AS result_no, c.case_key, c.layer, c.op,"
    " c.name AS case_name, coalesce(c.backend, '-') AS backend, coalesce(c.dtype, '-') AS dtype,"
    " coalesce(c.shape, '-') AS shape, coalesce(c.spec, '-') AS spec, r.status, coalesce(r.reason, '') AS reason,"
    " r.seed AS case_seed, r.duration_ns / 1e9::double precision AS case_seconds"
    " FROM bundle b JOIN result_row r ON r.result_id BETWEEN b.bundle_no << 20 AND (b.bundle_no << 20) + 1048575"
    "  AND r.runner_no = b.runner_no AND r.month = b.month"
    " JOIN tcase c ON c.case_id = r.case_id WHERE r.status NOT IN ('pass', 'skip');"
    "UPDATE schema_version SET version = 4",
                  TO_1[] = "DROP INDEX kigo.result_by_run; DROP TABLE kigo.tombstone;"
                           "DROP VIEW kigo.run, kigo.figure, kigo.failure; ALTER FUNCTION kigo.my_runner() RESET ALL;"
                           "UPDATE kigo.schema_version SET version = 1";

void kg_fleet_versions(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, false)) return;
    char *dir = kg_maker_sealed(lab.bundles, 1);
    kg_fleet_lab_kigo(&lab, "postgres", ARGS("push", dir), KG_EXIT_USAGE, "'kigo fleet init'", NULL);
    kg_fleet_lab_kigo(&lab, "postgres", ARGS("fleet", "migrate"), KG_EXIT_USAGE, "'kigo fleet init'", NULL);
    kg_fleet_lab_kigo(&lab, "postgres", ARGS("fleet", "init"), KG_EXIT_OK, "version 5", NULL);
    kg_fleet_lab_kigo(&lab, "postgres", ARGS("fleet", "init"), KG_EXIT_OK, "version 5", NULL);
    free(kg_fleet_lab_sql(&lab, "postgres", TO_1));
    kg_fleet_lab_kigo(&lab, "postgres", ARGS("push", dir), KG_EXIT_INTEGRITY, "'kigo fleet migrate'", NULL);
    kg_fleet_lab_kigo(&lab, "postgres", ARGS("fleet", "migrate"), KG_EXIT_OK, "version 5", NULL);
    kg_fleet_lab_kigo(&lab, "postgres", ARGS("push", dir), KG_EXIT_OK, ": pushed", NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.run"), 1);
    free(kg_fleet_lab_sql(&lab, "postgres", "UPDATE kigo.schema_version SET version = 6"));
    static const char *const NEWER[][3] = { { "push", "@" },     { "pull", "2" },        { "fleet", "status" },
                                            { "fleet", "init" }, { "fleet", "migrate" }, { "fleet", "reindex" } };
    for (size_t i = 0; i < KG_COUNT_OF(NEWER); i++) {
        const char *const args[] = { NEWER[i][0], strcmp(NEWER[i][1], "@") == 0 ? dir : NEWER[i][1], NULL };
        kg_fleet_lab_kigo(&lab, "postgres", args, KG_EXIT_INTEGRITY, "use the newer kigo", NULL);
    }
    free(dir);
    kg_fleet_lab_close(&lab);
}

/* Everything but when it was pushed; malloc'ed. */
static char *dump(const struct kg_fleet_lab *lab) {
    static const char *const TABLES[] = { "runner", "archive", "archive_chunk", "env",        "build",
                                          "bundle", "tcase",   "figure_name",   "result_row", "metric_row",
                                          "run",    "figure",  "failure" };
    struct kg_buffer sql = KG_BUFFER_INIT;
    for (size_t i = 0; i < KG_COUNT_OF(TABLES); i++)
        kg_buffer_printf(&sql, "%s(SELECT '%s ' || t::text FROM kigo.%s t ORDER BY t)", i ? " UNION ALL " : "",
                         TABLES[i], TABLES[i]);
    char *rows = kg_fleet_lab_sql(lab, "postgres", sql.data);
    kg_buffer_free(&sql);
    return rows;
}

static void fail_some(void *arg, size_t i, struct kg_made_case *c) {
    (void)arg;
    if (i % 2) c->status = "fail";
    c->max_abs = 1.0 / 3;
}

static void push_made_as(const struct kg_fleet_lab *lab, const char *user, int64_t started_s, size_t n_cases) {
    const struct kg_made_run run = { .started_us = started_s * 1000000, .n_cases = n_cases, .fill = fail_some };
    struct kg_error err;
    char *id = NULL;
    EXPECT_OK(kg_made_run_write(lab->bundles, &run, &id, &err), err);
    char *dir = kg_path_join(lab->bundles, id);
    kg_fleet_lab_kigo(lab, user, ARGS("push", dir), KG_EXIT_OK, ": pushed", NULL);
    free(dir);
    free(id);
}

static void push_made(const struct kg_fleet_lab *lab, int64_t started_s, size_t n_cases) {
    push_made_as(lab, "postgres", started_s, n_cases);
}

/* Partitions of results that lack an index by run that is valid. */
static const char N_WITHOUT_INDEX[] =
    "SELECT count(*) FROM pg_inherits p WHERE p.inhparent = 'kigo.result_row'::regclass AND NOT EXISTS (SELECT FROM"
    " pg_index i JOIN pg_inherits q ON q.inhrelid = i.indexrelid WHERE i.indrelid = p.inhrelid AND i.indisvalid"
    " AND q.inhparent = 'kigo.result_by_run'::regclass)";

void kg_fleet_older_versions_migrate(struct kg_record *rec, const void *arg) {
    static const char *const OLDER[] = { TO_4, TO_1 };
    struct kg_fleet_lab lab;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, false)) return;
    kg_fleet_lab_kigo(&lab, "postgres", ARGS("fleet", "init"), KG_EXIT_OK, "version 5", NULL);
    push_made(&lab, 1614600000 /* 2021-03 */, 3);
    push_made(&lab, 1617300000 /* 2021-04 */, 4);
    char *before = dump(&lab);
    ck_assert_msg(strstr(before, "\nfigure ") && strstr(before, "\nfailure "), "%.2000s", before);
    for (size_t i = 0; i < KG_COUNT_OF(OLDER); i++) {
        free(kg_fleet_lab_sql(&lab, "postgres", OLDER[i]));
        if (OLDER[i] == TO_4) {
            char *as_4 = dump(&lab);
            kg_maker_expect_same(as_4, before);
            free(as_4);
        }
        kg_fleet_lab_kigo(&lab, "postgres", ARGS("list"), KG_EXIT_INTEGRITY, "'kigo fleet migrate'", NULL);
        kg_fleet_lab_kigo(&lab, "postgres", ARGS("fleet", "migrate"), KG_EXIT_OK, "version 5", NULL);
        char *after = dump(&lab);
        kg_maker_expect_same(after, before);
        free(after);
        ck_assert_int_eq(kg_fleet_lab_number(&lab, N_WITHOUT_INDEX), 0);
        ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT has_table_privilege('kigo_reader', 'kigo.figure', 'SELECT')"
                                                   "::int + has_table_privilege('kigo_reader', 'kigo.failure',"
                                                   " 'SELECT')::int"),
                         2);
    }
    push_made(&lab, 1620000000 /* 2021-05 */, 1); /* a month that is made since */
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.result_row_2021_05"), 1);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, N_WITHOUT_INDEX), 0);
    free(before);
    kg_fleet_lab_close(&lab);
}

enum { N_CASES = 300, N_MORE = 120 };

/* The one run many times more, as rows, by 30 runners over two years of three: the other months are empty. */
static void grow(const struct kg_fleet_lab *lab) {
    static const char GROW[] =
        "SET search_path = kigo;"
        "CREATE TEMP TABLE kept_result AS SELECT * FROM result_row;"
        "CREATE TEMP TABLE kept_metric AS SELECT * FROM metric_row;"
        "INSERT INTO runner(name) SELECT 'of many ' || n FROM generate_series(0, 29) AS n;"
        "CREATE TEMP TABLE more AS SELECT n, 1000000000000 + n AS no, w.runner_no,"
        " (date '2023-01-01' + n %% 24 * interval '1 month')::date AS month FROM generate_series(1, %d) AS n"
        " JOIN runner w ON w.name = 'of many ' || n %% 30;"
        "SELECT count(make_month((date '2023-01-01' + n * interval '1 month')::date)) FROM generate_series(0, 35) AS n;"
        "INSERT INTO bundle SELECT s.* FROM bundle b, more, LATERAL jsonb_populate_record(b, jsonb_build_object("
        " 'bundle_id', 'run ' || n, 'bundle_no', no, 'runner_no', more.runner_no, 'month', more.month,"
        " 'started_us', n)) AS s;"
        "INSERT INTO result_row SELECT (no << 20) + (r.result_id & 1048575), no, r.case_id, r.status, r.reason, r.seed,"
        " r.started_us, r.duration_ns, more.runner_no, more.month FROM kept_result r, more;"
        "INSERT INTO metric_row SELECT (no << 20) + (m.result_id & 1048575), m.seq, m.figure_id, m.value, m.tol, m.n,"
        " m.mad, m.ci_lo, m.ci_hi, m.valid, more.runner_no, more.month FROM kept_metric m, more";
    char *sql = kg_xasprintf(GROW, (int)N_MORE);
    free(kg_fleet_lab_sql(lab, "postgres", sql));
    free(sql);
}

/* Of results and figures, by a part of a plan: those that it passed on, and those that it looked at and dropped. */
static double rows_read(const json_t *node) {
    const char *table = json_string_value(json_object_get(node, "Relation Name"));
    double n = 0;
    size_t i;
    const json_t *part;
    if (table && (strncmp(table, "result_row", 10) == 0 || strncmp(table, "metric_row", 10) == 0))
        n = json_number_value(json_object_get(node, "Actual Loops")) *
            (json_number_value(json_object_get(node, "Actual Rows")) +
             json_number_value(json_object_get(node, "Rows Removed by Filter")) +
             json_number_value(json_object_get(node, "Rows Removed by Index Recheck")));
    json_array_foreach(json_object_get(node, "Plans"), i, part) n += rows_read(part);
    return n;
}

static void expect_to_read(const struct kg_fleet_lab *lab, const char *question, double n) {
    char *sql = kg_xasprintf("SET search_path = kigo; EXPLAIN (ANALYZE, FORMAT JSON) %s", question),
         *text = kg_fleet_lab_sql(lab, "reader", sql);
    json_t *plans = json_loads(text, 0, NULL);
    const double n_read = rows_read(json_object_get(json_array_get(plans, 0), "Plan"));
    ck_assert_msg(n_read == n, "%.0f rows are read for %.0f: %s\n%.2000s", n_read, n, question, text);
    json_decref(plans);
    free(text);
    free(sql);
}

void kg_fleet_questions_read_their_runs(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *question;
        int n_runs;
        bool of_results; /* not of figures */
        bool when_new;   /* also before the server has counted the rows */
    } ROWS[] = {
        { "SELECT * FROM figure WHERE run = 'run 14'", 1, false, true },
        { "SELECT * FROM failure WHERE run = 'run 14'", 1, true, true },
        { "SELECT run, avg(value) FROM figure WHERE run IN (SELECT run FROM run ORDER BY started_utc LIMIT 3)"
          " GROUP BY run",
          3, false, true },
        { "SELECT a.case_key, a.value - b.value FROM figure a JOIN figure b USING (case_key, figure)"
          " WHERE a.run = 'run 14' AND b.run = 'run 15'",
          2, false, false },
    };
    struct kg_fleet_lab lab;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    push_made(&lab, 1672617600 /* 2023-01-02 */, N_CASES);
    const double n_figures = (double)kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.metric_row");
    grow(&lab);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.failure WHERE run = 'run 14'"), N_CASES / 2);
    for (int counted = 0; counted < 2; counted++) {
        if (counted) free(kg_fleet_lab_sql(&lab, "postgres", "ANALYZE"));
        for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
            if (counted || ROWS[i].when_new)
                expect_to_read(&lab, ROWS[i].question,
                               ROWS[i].n_runs * (N_CASES + (ROWS[i].of_results ? 0 : n_figures)));
    }
    kg_fleet_lab_close(&lab);
}

/* What the views say, and what kigo asks of the tables; malloc'ed. */
static char *answers(const struct kg_fleet_lab *lab) {
    static const char VIEWS[] =
        "SELECT string_agg(t, E'\\n' ORDER BY t COLLATE \"C\") FROM ((SELECT 'f ' || f::text FROM"
        " kigo.figure f) UNION ALL (SELECT 'x ' || x::text FROM kigo.failure x)) AS all_of(t)";
    char *views = kg_fleet_lab_sql(lab, "reader", VIEWS), *history;
    kg_fleet_lab_kigo(lab, "reader", ARGS("history", "*", "--figure", "*", "--json"), KG_EXIT_OK, NULL, &history);
    char *all = kg_xasprintf("%s\n%s", views, history);
    free(history);
    free(views);
    return all;
}

/* A runner may add rows in its name, also under the numbers of another's run: they are no part of that. Nor are those
 * of the run's runner in another month. */
void kg_fleet_rows_of_others_are_no_part(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *user, *sql;
    } ROWS[] = {
        { "runner_b", "INSERT INTO kigo.result_row SELECT result_id, bundle_no, case_id, 'crash', 'by another', seed,"
                      " started_us, duration_ns, kigo.my_runner(), month FROM kigo.result_row" },
        { "runner_b",
          "INSERT INTO kigo.metric_row SELECT result_id, seq, figure_id, 7, tol, n, mad, ci_lo, ci_hi, valid,"
          " kigo.my_runner(), month FROM kigo.metric_row" },
        { "runner_a", "INSERT INTO kigo.result_row SELECT result_id, bundle_no, case_id, 'crash', 'of another month',"
                      " seed, started_us, duration_ns, runner_no, '1999-01-01' FROM kigo.result_row"
                      " WHERE runner_no = kigo.my_runner()" },
        { "runner_a",
          "INSERT INTO kigo.metric_row SELECT result_id, seq, figure_id, 7, tol, n, mad, ci_lo, ci_hi, valid,"
          " runner_no, '1999-01-01' FROM kigo.metric_row WHERE runner_no = kigo.my_runner()" },
    };
    struct kg_fleet_lab lab;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    free(kg_fleet_lab_sql(&lab, "runner_b", "INSERT INTO kigo.runner(name) VALUES ('runner_b')"));
    push_made_as(&lab, "runner_a", 1614600000 /* 2021-03 */, 3);
    char *before = answers(&lab);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        free(kg_fleet_lab_sql(&lab, ROWS[i].user, ROWS[i].sql));
        char *after = answers(&lab);
        kg_maker_expect_same(after, before);
        free(after);
    }
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.result_row"), 9);
    free(before);
    kg_fleet_lab_close(&lab);
}
