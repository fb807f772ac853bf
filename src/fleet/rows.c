/* A bundle's rows: those that an index in memory has of its folder, sent table by table as arrays of their columns.
 * COPY would not go where rows have owners, and tables in between would be made and dropped with every push. */
#include "fleet/internal.h"
#include "base/buffer.h"
#include "base/size.h"
#include "fleet/arrays.h"
#include "history/folder.h"
#include "history/internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order in which they are filled, so that two pushes wait for each other and never both. */
static const struct table {
    const char *name, *columns;
    const char *key; /* of rows that runs share; NULL: each run has rows that no other has */
} TABLES[] = {
    { "env",
      "env_id, cpu_model, n_cpus, memory_bytes, os, kernel, gpu_name, gpu_driver, cuda_runtime, gpu_power_limit_w, "
      "json",
      "env_id" },
    { "build", "build_id, version, compiler, cflags, sanitizers, cuda, program_sha256, json", "build_id" },
    { "bundle",
      "bundle_id, path, state, verdict, exit_code, started_us, sealed_us, git_commit, git_branch, git_dirty, "
      "content_sha256, env_id, build_id, seed, n_planned, n_pass, n_fail, n_skip, n_crash, n_timeout, n_norun, "
      "overhead_share, manifest_sha256, sig_state, bundle_no, comparison_key",
      NULL },
    { "tcase", "case_id, case_key, suite, layer, op, name, backend, dtype, shape, spec, def_sha", "case_id" },
    { "figure_name", "figure_id, name, unit", "figure_id" },
    { "result_row", "result_id, bundle_no, case_id, status, reason, seed, started_us, duration_ns", NULL },
    { "metric_row", "result_id, seq, figure_id, value, tol, n, mad, ci_lo, ci_hi, valid", NULL },
};
/* Rows of one statement: the server holds them in work_mem (4 MiB) several times over, and goes on with some while
 * the next are read. */
enum { MOST_ROWS = 1 << 14, MOST_BYTES = 4 << 20, N_PLACE = 2, MOST_ARGS = KG_FLEET_MOST_COLUMNS + N_PLACE };

/* A table under way. */
struct filling {
    struct kg_fleet *fleet;
    const struct table *table;
    const struct kg_fleet_place *place;
    struct kg_fleet_arrays arrays;
    bool is_waiting; /* for the answer to a statement */
};

static enum kg_status send(struct filling *f, const char *sql, struct kg_error *err) {
    const struct kg_libpq *const pq = f->fleet->pq;
    const int n = f->arrays.n_columns, n_args = f->table->key ? n : n + N_PLACE;
    Oid types[MOST_ARGS] = { 0 };
    const char *values[MOST_ARGS] = { NULL };
    int lengths[MOST_ARGS] = { 0 }, formats[MOST_ARGS] = { 0 };
    kg_fleet_arrays_bind(&f->arrays, types, values, lengths, formats);
    values[n] = f->place->runner_no;
    values[n + 1] = f->place->month;
    if (!pq->sendQueryParams(f->fleet->conn, sql, n_args, types, values, lengths, formats, 0))
        return kg_fleet_fail(f->fleet, "sending rows", NULL, err);
    f->is_waiting = true;
    return KG_OK;
}

/* Waits for the answer to what was sent; *result is the caller's, result may be NULL. */
static enum kg_status hear(struct filling *f, PGresult **result, struct kg_error *err) {
    const struct kg_libpq *const pq = f->fleet->pq;
    enum kg_status status = KG_OK;
    PGresult *one;
    if (!f->is_waiting) return KG_OK;
    f->is_waiting = false;
    while ((one = pq->getResult(f->fleet->conn))) {
        const ExecStatusType ended = pq->resultStatus(one);
        const bool good = ended == PGRES_COMMAND_OK || ended == PGRES_TUPLES_OK;
        if (status == KG_OK && !good) status = kg_fleet_fail(f->fleet, f->table->name, one, err);
        else if (good && result && !*result) *result = one;
        else pq->clear(one);
    }
    return status;
}

/* Rows that no other run has: on their way when it returns. */
static enum kg_status put_own(struct filling *f, struct kg_error *err) {
    char *const arrays = kg_fleet_arrays_sql(&f->arrays);
    char *sql = kg_xasprintf("INSERT INTO %s(%s, runner_no, month) SELECT p.*, $%d::integer, $%d::date"
                             " FROM unnest(%s) AS p(%s)",
                             f->table->name, f->table->columns, f->arrays.n_columns + 1, f->arrays.n_columns + 2,
                             arrays, f->table->columns);
    enum kg_status status = hear(f, NULL, err);
    if (status == KG_OK) status = send(f, sql, err);
    free(sql);
    free(arrays);
    return status;
}

/* How many rows of the arrays are in the table, and how many are others there under the same ids: who may push may add
 * a row under the id that another run's row will have. */
static enum kg_status compare_shared(struct filling *f, const char *arrays, int *n_there, struct kg_error *err) {
    const struct table *const table = f->table;
    char *sql = kg_xasprintf("SELECT count(*), count(*) FILTER (WHERE ROW(p.*) IS DISTINCT FROM ROW(t.*))"
                             " FROM unnest(%s) AS p(%s) JOIN %s t USING (%s)",
                             arrays, table->columns, table->name, table->key);
    struct kg_fleet_rows rows = { .fleet = f->fleet };
    enum kg_status status = send(f, sql, err);
    if (status == KG_OK) status = hear(f, &rows.result, err);
    if (status == KG_OK && rows.result) {
        *n_there = (int)kg_fleet_integer(&rows, 0, 0);
        if (kg_fleet_integer(&rows, 0, 1) > 0)
            status = kg_fail(err, KG_ERR_INTEGRITY,
                             "%s: %s rows of %s are others than this run's under the same ids; 'kigo fleet reindex' "
                             "makes them again",
                             f->fleet->where, kg_fleet_cell(&rows, 0, 1), table->name);
    }
    kg_fleet_rows_free(&rows);
    free(sql);
    return status;
}

/* In the order of their ids, so that two pushes wait for each other and never both. */
static enum kg_status insert_shared(struct filling *f, const char *arrays, struct kg_error *err) {
    const struct table *const table = f->table;
    char *sql = kg_xasprintf("INSERT INTO %s(%s) SELECT p.* FROM unnest(%s) AS p(%s) ORDER BY 1 ON CONFLICT DO NOTHING",
                             table->name, table->columns, arrays, table->columns);
    enum kg_status status = send(f, sql, err);
    if (status == KG_OK) status = hear(f, NULL, err);
    free(sql);
    return status;
}

/* Most pushes find all of them there. */
static enum kg_status put_shared(struct filling *f, struct kg_error *err) {
    char *const arrays = kg_fleet_arrays_sql(&f->arrays);
    int n_there = 0;
    enum kg_status status = compare_shared(f, arrays, &n_there, err);
    if (status == KG_OK && n_there < f->arrays.n_rows) {
        status = insert_shared(f, arrays, err);
        if (status == KG_OK) status = compare_shared(f, arrays, &n_there, err);
    }
    free(arrays);
    return status;
}

static enum kg_status put_some(struct filling *f, struct kg_error *err) {
    if (f->arrays.n_rows == 0) return KG_OK;
    const enum kg_status status = f->table->key ? put_shared(f, err) : put_own(f, err);
    kg_fleet_arrays_clear(&f->arrays);
    return status;
}

static enum kg_status put_rows(struct filling *f, struct kg_history *index, sqlite3_stmt *stmt, struct kg_error *err) {
    enum kg_status status = KG_OK;
    int code = SQLITE_DONE;
    while (status == KG_OK && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        status = kg_fleet_arrays_add(&f->arrays, stmt, err);
        if (status == KG_OK && (f->arrays.n_rows == MOST_ROWS || f->arrays.n_bytes >= MOST_BYTES))
            status = put_some(f, err);
    }
    if (status == KG_OK && code != SQLITE_DONE) status = kg_history_fail(index, "reading rows", err);
    return status == KG_OK ? put_some(f, err) : status;
}

static enum kg_status put_table(struct kg_fleet *fleet, struct kg_history *index, const struct table *table,
                                const struct kg_fleet_place *place, struct kg_error *err) {
    struct filling f = { .fleet = fleet, .table = table, .place = place };
    char *sql = kg_xasprintf("SELECT %s FROM %s ORDER BY 1", table->columns, table->name);
    sqlite3_stmt *stmt = NULL;
    enum kg_status status = KG_OK;
    if (sqlite3_prepare_v2(index->db, sql, -1, &stmt, NULL) != SQLITE_OK)
        status = kg_history_fail(index, "reading rows", err);
    if (status == KG_OK) {
        struct kg_error why;
        kg_fleet_arrays_open(&f.arrays, stmt);
        status = put_rows(&f, index, stmt, err);
        const enum kg_status last = hear(&f, NULL, status == KG_OK ? err : &why);
        if (status == KG_OK) status = last;
        kg_fleet_arrays_close(&f.arrays);
    }
    sqlite3_finalize(stmt);
    free(sql);
    return status;
}

enum kg_status kg_fleet_read_rows(const char *root, const char *id, struct kg_history **index, struct kg_error *err) {
    struct kg_history_folder folder;
    enum kg_status status = kg_history_folder_read(root, id, &folder, err);
    if (status == KG_OK) status = kg_history_open_scratch(root, index, err);
    if (status == KG_OK) status = kg_history_exec(*index, "BEGIN", err); /* one, not one a row */
    if (status == KG_OK) status = kg_history_insert(*index, id, &folder, err);
    if (status == KG_OK) status = kg_history_exec(*index, "COMMIT", err);
    kg_history_folder_free(&folder);
    return status;
}

enum kg_status kg_fleet_put_rows(struct kg_fleet *fleet, struct kg_history *index, const struct kg_fleet_place *place,
                                 struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < KG_COUNT_OF(TABLES) && status == KG_OK; i++)
        status = put_table(fleet, index, &TABLES[i], place, err);
    return status;
}

enum kg_status kg_fleet_delete_rows(struct kg_fleet *fleet, struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t i = KG_COUNT_OF(TABLES); i-- > 0 && status == KG_OK;) {
        char *sql = kg_xasprintf("DELETE FROM %s", TABLES[i].name);
        status = kg_fleet_exec(fleet, "deleting rows", sql, err);
        free(sql);
    }
    return status;
}
