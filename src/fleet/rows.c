/* A bundle's rows: those that an index in memory has of its folder, copied table by table. */
#include "fleet/internal.h"
#include "base/buffer.h"
#include "base/size.h"
#include "history/folder.h"
#include "history/internal.h"
#include <math.h>
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
enum { COPY_BYTES = 1 << 16 }; /* that are sent at once */

/* COPY's text format: a tab between cells, \N for NULL, control characters that would end a cell or a row escaped. The
 * index's texts hold no NUL. */
static void put_text(struct kg_buffer *line, const char *text) {
    static const char ESCAPED[] = "\\\n\r\t", LETTERS[] = "\\nrt";
    for (;; text++) {
        const size_t plain = strcspn(text, ESCAPED);
        kg_buffer_append(line, text, plain);
        text += plain;
        if (!*text) return;
        kg_buffer_printf(line, "\\%c", LETTERS[strchr(ESCAPED, *text) - ESCAPED]);
    }
}

static void put_real(struct kg_buffer *line, double value) {
    if (isinf(value)) kg_buffer_puts(line, value > 0 ? "Infinity" : "-Infinity");
    else kg_buffer_printf(line, "%.17g", value);
}

static void put_row(struct kg_buffer *line, sqlite3_stmt *stmt) {
    const int n = sqlite3_column_count(stmt);
    for (int i = 0; i < n; i++) {
        switch (sqlite3_column_type(stmt, i)) {
        case SQLITE_NULL: kg_buffer_puts(line, "\\N"); break;
        case SQLITE_INTEGER: kg_buffer_printf(line, "%lld", sqlite3_column_int64(stmt, i)); break;
        case SQLITE_FLOAT: put_real(line, sqlite3_column_double(stmt, i)); break;
        default: put_text(line, (const char *)sqlite3_column_text(stmt, i)); break;
        }
        kg_buffer_puts(line, i + 1 < n ? "\t" : "\n");
    }
}

static enum kg_status send(struct kg_fleet *fleet, struct kg_buffer *lines, struct kg_error *err) {
    const bool good = lines->len == 0 || fleet->pq->putCopyData(fleet->conn, lines->data, (int)lines->len) == 1;
    kg_buffer_clear(lines);
    return good ? KG_OK : kg_fleet_fail(fleet, "sending rows", NULL, err);
}

static enum kg_status send_all(struct kg_fleet *fleet, struct kg_history *index, const struct table *table,
                               struct kg_error *err) {
    char *sql = kg_xasprintf("SELECT %s FROM %s", table->columns, table->name);
    struct kg_buffer lines = KG_BUFFER_INIT;
    sqlite3_stmt *stmt = NULL;
    enum kg_status status = KG_OK;
    int code = sqlite3_prepare_v2(index->db, sql, -1, &stmt, NULL);
    if (code == SQLITE_OK)
        while (status == KG_OK && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
            put_row(&lines, stmt);
            if (lines.len >= COPY_BYTES) status = send(fleet, &lines, err);
        }
    if (status == KG_OK && code != SQLITE_DONE) status = kg_history_fail(index, "reading rows", err);
    if (status == KG_OK) status = send(fleet, &lines, err);
    sqlite3_finalize(stmt);
    kg_buffer_free(&lines);
    free(sql);
    return status;
}

/* All rows of a table of the index, into pg_temp.pushed_<table>. */
static enum kg_status copy(struct kg_fleet *fleet, struct kg_history *index, const struct table *table,
                           struct kg_error *err) {
    const struct kg_libpq *pq = fleet->pq;
    char *sql = kg_xasprintf("COPY pg_temp.pushed_%s FROM STDIN", table->name);
    PGresult *result = pq->exec(fleet->conn, sql);
    enum kg_status status = KG_OK;
    free(sql);
    if (pq->resultStatus(result) != PGRES_COPY_IN) return kg_fleet_fail(fleet, "beginning a copy", result, err);
    pq->clear(result);
    status = send_all(fleet, index, table, err);
    const char *const why = status == KG_OK ? NULL : "given up";
    if (pq->putCopyEnd(fleet->conn, why) != 1 && status == KG_OK)
        status = kg_fleet_fail(fleet, "ending a copy", NULL, err);
    while ((result = pq->getResult(fleet->conn))) {
        if (status == KG_OK && pq->resultStatus(result) != PGRES_COMMAND_OK)
            status = kg_fleet_fail(fleet, "copying rows", result, err);
        else pq->clear(result);
    }
    return status;
}

/* From there into the table itself: COPY does not go where rows have owners. */
static enum kg_status insert(struct kg_fleet *fleet, const struct table *table, const struct kg_fleet_place *place,
                             struct kg_error *err) {
    const char *const args[] = { place->runner_no, place->month };
    const char *const name = table->name, *const columns = table->columns;
    char *sql =
        table->key
            ? kg_xasprintf("INSERT INTO %s(%s) SELECT %s FROM pg_temp.pushed_%s ORDER BY 1 ON CONFLICT DO NOTHING",
                           name, columns, columns, name)
            : kg_xasprintf("INSERT INTO %s(%s, runner_no, month) SELECT %s, $1::integer, $2::date"
                           " FROM pg_temp.pushed_%s",
                           name, columns, columns, name);
    const enum kg_status status = kg_fleet_tell(fleet, name, sql, args, table->key ? 0 : 2, err);
    free(sql);
    return status;
}

/* Who may push may add a row under the id that another run's row will have. */
static enum kg_status compare_shared(struct kg_fleet *fleet, const struct table *table, struct kg_error *err) {
    char *sql = kg_xasprintf("SELECT count(*) FROM pg_temp.pushed_%s p JOIN %s t USING (%s)"
                             " WHERE ROW(p.*) IS DISTINCT FROM ROW(t.*)",
                             table->name, table->name, table->key);
    struct kg_fleet_rows rows;
    enum kg_status status = kg_fleet_ask(fleet, table->name, sql, NULL, 0, &rows, err);
    if (status == KG_OK && kg_fleet_integer(&rows, 0, 0) > 0)
        status = kg_fail(err, KG_ERR_INTEGRITY,
                         "%s: %s rows of %s are others than this run's under the same ids; 'kigo fleet reindex' makes "
                         "them again",
                         fleet->where, kg_fleet_cell(&rows, 0, 0), table->name);
    kg_fleet_rows_free(&rows);
    free(sql);
    return status;
}

static enum kg_status put_table(struct kg_fleet *fleet, struct kg_history *index, const struct table *table,
                                const struct kg_fleet_place *place, struct kg_error *err) {
    char *make = kg_xasprintf("CREATE TEMP TABLE IF NOT EXISTS pushed_%s ON COMMIT DROP AS SELECT %s FROM %s"
                              " WITH NO DATA; TRUNCATE pg_temp.pushed_%s",
                              table->name, table->columns, table->name, table->name);
    enum kg_status status = kg_fleet_exec(fleet, table->name, make, err);
    free(make);
    if (status == KG_OK) status = copy(fleet, index, table, err);
    if (status == KG_OK) status = insert(fleet, table, place, err);
    if (status == KG_OK && table->key) status = compare_shared(fleet, table, err);
    return status;
}

enum kg_status kg_fleet_put_rows(struct kg_fleet *fleet, const char *root, const char *id,
                                 const struct kg_fleet_place *place, struct kg_error *err) {
    struct kg_history_folder folder;
    struct kg_history *index = NULL;
    enum kg_status status = kg_history_folder_read(root, id, &folder, err);
    if (status == KG_OK) status = kg_history_open_scratch(root, &index, err);
    if (status == KG_OK) status = kg_history_insert(index, id, &folder, err);
    kg_history_folder_free(&folder);
    for (size_t i = 0; i < KG_COUNT_OF(TABLES) && status == KG_OK; i++)
        status = put_table(fleet, index, &TABLES[i], place, err);
    kg_history_close(index);
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
