/* The index's schema as a list of migrations: entry n brings a file of version n to n + 1. Entries are only ever added.
 */
#include "history/internal.h"
#include <stdio.h>

#define INDEXES_OF_RESULTS                                                                                             \
    "CREATE INDEX result_by_bundle ON result_row(bundle_no);"                                                          \
    "CREATE INDEX result_by_case ON result_row(case_id);"

static const char *const MIGRATIONS[] = {
    "CREATE TABLE env(env_id TEXT PRIMARY KEY, cpu_model TEXT, n_cpus INTEGER, memory_bytes INTEGER, os TEXT,"
    " kernel TEXT, gpu_name TEXT, gpu_driver INTEGER, cuda_runtime INTEGER, gpu_power_limit_w REAL, json TEXT NOT NULL)"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE build(build_id TEXT PRIMARY KEY, version TEXT, compiler TEXT, cflags TEXT, sanitizers TEXT,"
    " cuda TEXT, program_sha256 TEXT, json TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE bundle(bundle_id TEXT PRIMARY KEY, path TEXT NOT NULL, state TEXT NOT NULL, verdict TEXT NOT NULL,"
    " exit_code INTEGER NOT NULL, started_us INTEGER NOT NULL, sealed_us INTEGER NOT NULL, git_commit TEXT,"
    " git_branch TEXT, git_dirty INTEGER, content_sha256 TEXT, env_id TEXT REFERENCES env,"
    " build_id TEXT REFERENCES build, seed TEXT NOT NULL, n_planned INTEGER NOT NULL, n_pass INTEGER NOT NULL,"
    " n_fail INTEGER NOT NULL, n_skip INTEGER NOT NULL, n_crash INTEGER NOT NULL, n_timeout INTEGER NOT NULL,"
    " n_norun INTEGER NOT NULL, overhead_share REAL, manifest_sha256 TEXT NOT NULL, sig_state TEXT NOT NULL)"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE tcase(case_id INTEGER PRIMARY KEY, case_key TEXT NOT NULL, suite TEXT NOT NULL, layer TEXT NOT NULL,"
    " op TEXT NOT NULL, name TEXT NOT NULL, backend TEXT, dtype TEXT, shape TEXT, spec TEXT, def_sha TEXT NOT NULL)"
    " STRICT;"
    "CREATE TABLE result(result_id INTEGER PRIMARY KEY, bundle_id TEXT NOT NULL REFERENCES bundle,"
    " case_id INTEGER NOT NULL REFERENCES tcase, status TEXT NOT NULL, reason TEXT, seed TEXT, started_us INTEGER,"
    " duration_ns INTEGER) STRICT;"
    "CREATE TABLE metric(result_id INTEGER NOT NULL REFERENCES result, seq INTEGER NOT NULL, name TEXT NOT NULL,"
    " unit TEXT NOT NULL, value REAL, tol REAL, n INTEGER, median REAL, mad REAL, ci_lo REAL, ci_hi REAL,"
    " valid INTEGER NOT NULL, PRIMARY KEY(result_id, seq)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE annotation(bundle_id TEXT NOT NULL REFERENCES bundle, case_key TEXT NOT NULL, utc_us INTEGER NOT "
    "NULL,"
    " author TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY(bundle_id, case_key, utc_us, author))"
    " STRICT, WITHOUT ROWID;"
    "CREATE INDEX bundle_by_time ON bundle(started_us);"
    "CREATE INDEX tcase_by_key ON tcase(case_key);"
    "CREATE INDEX result_by_bundle ON result(bundle_id);"
    "CREATE INDEX result_by_case ON result(case_id);",

    /* Figures' names are stored once, and ids instead of names in the large tables: `result` and `metric` are views.
     * What was indexed is dropped, and read again from the folders. */
    "DROP TABLE metric; DROP TABLE result; DROP TABLE tcase; DROP TABLE bundle; DROP TABLE env; DROP TABLE build;"
    "DROP TABLE annotation;"
    "CREATE TABLE env(env_id TEXT PRIMARY KEY, cpu_model TEXT, n_cpus INTEGER, memory_bytes INTEGER, os TEXT,"
    " kernel TEXT, gpu_name TEXT, gpu_driver INTEGER, cuda_runtime INTEGER, gpu_power_limit_w REAL, json TEXT NOT NULL)"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE build(build_id TEXT PRIMARY KEY, version TEXT, compiler TEXT, cflags TEXT, sanitizers TEXT,"
    " cuda TEXT, program_sha256 TEXT, json TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE bundle(bundle_id TEXT PRIMARY KEY, path TEXT NOT NULL, state TEXT NOT NULL, verdict TEXT NOT NULL,"
    " exit_code INTEGER NOT NULL, started_us INTEGER NOT NULL, sealed_us INTEGER NOT NULL, git_commit TEXT,"
    " git_branch TEXT, git_dirty INTEGER, content_sha256 TEXT, env_id TEXT REFERENCES env,"
    " build_id TEXT REFERENCES build, seed TEXT NOT NULL, n_planned INTEGER NOT NULL, n_pass INTEGER NOT NULL,"
    " n_fail INTEGER NOT NULL, n_skip INTEGER NOT NULL, n_crash INTEGER NOT NULL, n_timeout INTEGER NOT NULL,"
    " n_norun INTEGER NOT NULL, overhead_share REAL, manifest_sha256 TEXT NOT NULL, sig_state TEXT NOT NULL,"
    " bundle_no INTEGER NOT NULL UNIQUE, comparison_key TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE tcase(case_id INTEGER PRIMARY KEY, case_key TEXT NOT NULL, suite TEXT NOT NULL, layer TEXT NOT NULL,"
    " op TEXT NOT NULL, name TEXT NOT NULL, backend TEXT, dtype TEXT, shape TEXT, spec TEXT, def_sha TEXT NOT NULL)"
    " STRICT;"
    "CREATE TABLE figure(figure_id INTEGER PRIMARY KEY, name TEXT NOT NULL, unit TEXT NOT NULL) STRICT;"
    "CREATE TABLE result_row(result_id INTEGER PRIMARY KEY, bundle_no INTEGER NOT NULL,"
    " case_id INTEGER NOT NULL REFERENCES tcase, status TEXT NOT NULL, reason TEXT, seed TEXT, started_us INTEGER,"
    " duration_ns INTEGER) STRICT;"
    "CREATE TABLE metric_row(result_id INTEGER NOT NULL REFERENCES result_row, seq INTEGER NOT NULL,"
    " figure_id INTEGER NOT NULL REFERENCES figure, value REAL, tol REAL, n INTEGER, mad REAL, ci_lo REAL, ci_hi REAL,"
    " valid INTEGER NOT NULL, PRIMARY KEY(result_id, seq)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE annotation(annotation_id TEXT PRIMARY KEY, kind TEXT NOT NULL, bundle_id TEXT, case_key TEXT,"
    " until_us INTEGER, utc_us INTEGER NOT NULL, author TEXT NOT NULL, text TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE VIEW result AS SELECT r.result_id, b.bundle_id, r.case_id, r.status, r.reason, r.seed, r.started_us,"
    " r.duration_ns FROM result_row r JOIN bundle b ON b.bundle_no = r.bundle_no;"
    "CREATE VIEW metric AS SELECT m.result_id, m.seq, f.name, f.unit, m.value, m.tol, m.n,"
    " CASE WHEN m.mad IS NOT NULL THEN m.value END AS median, m.mad, m.ci_lo, m.ci_hi, m.valid"
    " FROM metric_row m JOIN figure f ON f.figure_id = m.figure_id;"
    "CREATE INDEX bundle_by_time ON bundle(started_us);"
    "CREATE INDEX tcase_by_key ON tcase(case_key);" INDEXES_OF_RESULTS,
    /* Errors without a limit, mixed limits and more members of the comparison key are read from the folders again. */
    "DELETE FROM metric_row; DELETE FROM result_row; DELETE FROM tcase; DELETE FROM bundle; DELETE FROM figure;",

    /* Views for people (history/views.h): a column's name means one thing, whatever is joined, and those that two views
     * share are never NULL. Figures' names made room for the view of figures. */
    "DROP VIEW metric; DROP TABLE metric_row; DROP TABLE figure;"
    "DELETE FROM result_row; DELETE FROM tcase; DELETE FROM bundle;"
    "CREATE TABLE figure_name(figure_id INTEGER PRIMARY KEY, name TEXT NOT NULL, unit TEXT NOT NULL) STRICT;"
    "CREATE TABLE metric_row(result_id INTEGER NOT NULL REFERENCES result_row, seq INTEGER NOT NULL,"
    " figure_id INTEGER NOT NULL REFERENCES figure_name, value REAL, tol REAL, n INTEGER, mad REAL, ci_lo REAL,"
    " ci_hi REAL, valid INTEGER NOT NULL, PRIMARY KEY(result_id, seq)) STRICT, WITHOUT ROWID;"
    "CREATE VIEW metric AS SELECT m.result_id, m.seq, f.name, f.unit, m.value, m.tol, m.n,"
    " CASE WHEN m.mad IS NOT NULL THEN m.value END AS median, m.mad, m.ci_lo, m.ci_hi, m.valid"
    " FROM metric_row m JOIN figure_name f ON f.figure_id = m.figure_id;"
    "CREATE VIEW run AS SELECT b.bundle_id AS run, b.verdict, b.state, b.exit_code,"
    " strftime('%Y-%m-%d %H:%M:%S', b.started_us / 1000000, 'unixepoch') AS started_utc,"
    " (b.sealed_us - b.started_us) / 1e6 AS run_seconds, b.overhead_share, b.n_planned, b.n_pass, b.n_fail, b.n_skip,"
    " b.n_crash, b.n_timeout, b.n_norun, b.seed AS run_seed, b.git_commit, b.git_branch, b.git_dirty,"
    " e.gpu_name, e.gpu_power_limit_w, e.gpu_driver, e.cuda_runtime, e.cpu_model, e.n_cpus,"
    " e.memory_bytes AS host_memory_bytes, e.os, e.kernel, c.compiler, c.cflags, c.sanitizers, c.cuda AS cuda_compiler,"
    " b.sig_state <> 'unsigned' AS has_signature, b.comparison_key"
    " FROM bundle b LEFT JOIN env e ON e.env_id = b.env_id LEFT JOIN build c ON c.build_id = b.build_id;"
    "CREATE VIEW figure AS SELECT b.bundle_id AS run, r.result_id AS result_no, c.case_key, c.layer, c.op, c.name AS "
    "case_name,"
    " coalesce(c.backend, '-') AS backend, coalesce(c.dtype, '-') AS dtype, coalesce(c.shape, '-') AS shape,"
    " coalesce(c.spec, '-') AS spec, r.status, f.name AS figure, f.unit, m.value, m.tol AS value_limit,"
    " m.n AS n_values, m.mad, m.ci_lo AS ci_low, m.ci_hi AS ci_high, m.valid"
    " FROM metric_row m JOIN figure_name f ON f.figure_id = m.figure_id JOIN result_row r ON r.result_id = m.result_id"
    " JOIN tcase c ON c.case_id = r.case_id JOIN bundle b ON b.bundle_no = r.bundle_no;"
    "CREATE VIEW failure AS SELECT b.bundle_id AS run, r.result_id AS result_no, c.case_key, c.layer, c.op, c.name AS "
    "case_name,"
    " coalesce(c.backend, '-') AS backend, coalesce(c.dtype, '-') AS dtype, coalesce(c.shape, '-') AS shape,"
    " coalesce(c.spec, '-') AS spec, r.status, coalesce(r.reason, '') AS reason, r.seed AS case_seed,"
    " r.duration_ns / 1e9 AS case_seconds"
    " FROM result_row r JOIN tcase c ON c.case_id = r.case_id JOIN bundle b ON b.bundle_no = r.bundle_no"
    " WHERE r.status NOT IN ('pass', 'skip');",
};
enum { SCHEMA_VERSION = sizeof MIGRATIONS / sizeof *MIGRATIONS };

static enum kg_status read_version(struct kg_history *history, int *version, struct kg_error *err) {
    sqlite3_stmt *stmt = NULL;
    enum kg_status status = KG_OK;
    if (sqlite3_prepare_v2(history->db, "PRAGMA user_version", -1, &stmt, NULL) != SQLITE_OK ||
        sqlite3_step(stmt) != SQLITE_ROW)
        status = kg_history_fail(history, "reading its version", err);
    else *version = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return status;
}

static enum kg_status check_version(const struct kg_history *history, int version, struct kg_error *err) {
    if (version >= 0 && version <= SCHEMA_VERSION) return KG_OK;
    return kg_fail(err, KG_ERR_SCHEMA,
                   "%s has schema version %d, this kigo knows up to %d; use the newer kigo, or let 'kigo reindex' of "
                   "this one make it again",
                   history->path, version, (int)SCHEMA_VERSION);
}

enum kg_status kg_history_make_schema(struct kg_history *history, struct kg_error *err) {
    int version = 0;
    enum kg_status status = read_version(history, &version, err);
    if (status == KG_OK) status = check_version(history, version, err);
    for (; status == KG_OK && version < SCHEMA_VERSION; version++) {
        char set_version[48];
        snprintf(set_version, sizeof set_version, "PRAGMA user_version = %d", version + 1);
        status = kg_history_exec(history, MIGRATIONS[version], err);
        if (status != KG_OK && sqlite3_errcode(history->db) == SQLITE_ERROR)
            status = kg_fail(err, KG_ERR_FORMAT,
                             "%s has other tables than its version %d (%s); 'kigo reindex' makes it again",
                             history->path, version, sqlite3_errmsg(history->db));
        if (status == KG_OK) status = kg_history_exec(history, set_version, err);
    }
    return status;
}

enum kg_status kg_history_migrate(struct kg_history *history, struct kg_error *err) {
    int version = 0;
    enum kg_status status = read_version(history, &version, err);
    if (status == KG_OK) status = check_version(history, version, err);
    if (status != KG_OK || version == SCHEMA_VERSION) return status;

    status = kg_history_exec(history, "BEGIN IMMEDIATE", err);
    if (status != KG_OK) return status;
    status = kg_history_make_schema(history, err); /* another process may have come first */
    if (status == KG_OK) return kg_history_exec(history, "COMMIT", err);
    sqlite3_exec(history->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

enum kg_status kg_history_unindex_results(struct kg_history *history, struct kg_error *err) {
    return kg_history_exec(history, "DROP INDEX result_by_bundle; DROP INDEX result_by_case", err);
}

enum kg_status kg_history_index_results(struct kg_history *history, struct kg_error *err) {
    return kg_history_exec(history, INDEXES_OF_RESULTS, err);
}
