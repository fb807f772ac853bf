#include "history/row.h"

#define METRIC_ROW "(?,?,?,?,?,?,?,?,?,?)"
#define METRIC_ROWS_4 METRIC_ROW "," METRIC_ROW "," METRIC_ROW "," METRIC_ROW
#define METRIC_ROWS_16 METRIC_ROWS_4 "," METRIC_ROWS_4 "," METRIC_ROWS_4 "," METRIC_ROWS_4

/* ?1, or where another row has it the last parameter. */
#define FREE_ID(table, id, other)                                                                                      \
    "CASE WHEN EXISTS(SELECT 1 FROM " table " WHERE " id " = ?1) THEN " other " ELSE ?1 END"

static const char *const STATEMENTS[KG_STMT_COUNT] = {
    [KG_STMT_ENV] = "INSERT OR IGNORE INTO env VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    [KG_STMT_BUILD] = "INSERT OR IGNORE INTO build VALUES(?,?,?,?,?,?,?,?)",
    [KG_STMT_BUNDLE] = "INSERT INTO bundle VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [KG_STMT_BUNDLE_NO] = "SELECT bundle_no FROM bundle WHERE bundle_no = ? AND bundle_id <> ?",
    [KG_STMT_CASE] = "INSERT INTO tcase VALUES(" FREE_ID("tcase", "case_id", "?12") ",?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)",
    [KG_STMT_FIND_CASE] = "SELECT case_id FROM tcase WHERE case_id IN (?1, ?12) AND case_key IS ?2 AND suite IS ?3 AND "
                          "layer IS ?4 AND op IS ?5"
                          " AND name IS ?6 AND backend IS ?7 AND dtype IS ?8 AND shape IS ?9 AND spec IS ?10"
                          " AND def_sha IS ?11",
    [KG_STMT_RESULT] = "INSERT INTO result_row VALUES(?,?,?,?,?,?,?,?)",
    [KG_STMT_CLEAR_RESULTS] = "DELETE FROM result_row WHERE result_id BETWEEN ? AND ?",
    [KG_STMT_FIGURE] = "INSERT INTO figure_name VALUES(" FREE_ID("figure_name", "figure_id", "?4") ",?2,?3)",
    [KG_STMT_FIND_FIGURE] = "SELECT figure_id FROM figure_name WHERE figure_id IN (?1, ?4) AND name = ?2 AND unit = ?3",
    [KG_STMT_METRIC] = "INSERT INTO metric_row VALUES" METRIC_ROW,
    /* FAIL: the caller takes a whole bundle back. To take back rows of one statement SQLite would copy pages first. */
    [KG_STMT_METRICS] = "INSERT OR FAIL INTO metric_row VALUES" METRIC_ROWS_16 "," METRIC_ROWS_16,
    [KG_STMT_CLEAR_METRICS] = "DELETE FROM metric_row WHERE result_id BETWEEN ? AND ?",
};

enum kg_status kg_row_begin(struct kg_history *history, enum kg_history_stmt which, struct kg_row *row,
                            struct kg_error *err) {
    sqlite3_stmt **stmt = &history->stmts[which];
    *row = (struct kg_row){ .history = history };
    if (!*stmt && sqlite3_prepare_v3(history->db, STATEMENTS[which], -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL) != 0)
        return kg_history_fail(history, "preparing an insert", err);
    row->stmt = *stmt;
    return KG_OK;
}

/* The next column; what cannot be bound makes kg_row_end fail. */
static void bound(struct kg_row *row, int code) {
    row->n_bound++;
    if (code != SQLITE_OK) row->failed = true;
}

static void bind_null(struct kg_row *row) {
    bound(row, sqlite3_bind_null(row->stmt, row->n_bound + 1));
}

void kg_row_real(struct kg_row *row, double value) {
    bound(row, sqlite3_bind_double(row->stmt, row->n_bound + 1, value));
}

void kg_row_text(struct kg_row *row, const char *text) {
    if (text) bound(row, sqlite3_bind_text(row->stmt, row->n_bound + 1, text, -1, SQLITE_TRANSIENT));
    else bind_null(row);
}

void kg_row_int(struct kg_row *row, int64_t value) {
    bound(row, sqlite3_bind_int64(row->stmt, row->n_bound + 1, value));
}

void kg_row_int_of(struct kg_row *row, const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    if (json_is_integer(value)) kg_row_int(row, json_integer_value(value));
    else bind_null(row);
}

void kg_row_real_of(struct kg_row *row, const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    if (json_is_number(value)) kg_row_real(row, json_number_value(value));
    else bind_null(row);
}

void kg_row_number(struct kg_row *row, const struct kg_node *value) {
    if (kg_node_is_number(value)) kg_row_real(row, kg_node_number(value));
    else bind_null(row);
}

void kg_row_node_text(struct kg_row *row, const struct kg_node *object, const char *name) {
    kg_row_text(row, kg_node_text(object, name));
}

void kg_row_node_int(struct kg_row *row, const struct kg_node *object, const char *name) {
    const struct kg_node *value = kg_node_member(object, name);
    if (value && value->kind == KG_NODE_INT) kg_row_int(row, kg_node_integer(value));
    else bind_null(row);
}

void kg_row_node_real(struct kg_row *row, const struct kg_node *object, const char *name) {
    kg_row_number(row, kg_node_member(object, name));
}

void kg_row_text_of(struct kg_row *row, const json_t *object, const char *name) {
    kg_row_text(row, json_string_value(json_object_get(object, name)));
}

enum kg_status kg_row_end(struct kg_row *row, struct kg_error *err) {
    const bool good = !row->failed && sqlite3_step(row->stmt) == SQLITE_DONE;
    const enum kg_status status = good ? KG_OK : kg_history_fail(row->history, "inserting", err);
    sqlite3_reset(row->stmt);
    sqlite3_clear_bindings(row->stmt);
    return status;
}

enum kg_status kg_row_find(struct kg_row *row, int64_t *id, bool *found, struct kg_error *err) {
    const int code = row->failed ? SQLITE_NOMEM : sqlite3_step(row->stmt);
    *found = code == SQLITE_ROW;
    if (*found) *id = sqlite3_column_int64(row->stmt, 0);
    const enum kg_status status =
        *found || code == SQLITE_DONE ? KG_OK : kg_history_fail(row->history, "looking for a row", err);
    sqlite3_reset(row->stmt);
    sqlite3_clear_bindings(row->stmt);
    return status;
}

enum kg_status kg_row_name(struct kg_history *history, enum kg_history_stmt find, enum kg_history_stmt insert,
                           kg_row_put_fn *put, const void *what, const int64_t ids[2], int64_t *id,
                           struct kg_error *err) {
    bool found = false;
    for (int inserts = 0; inserts < 2 && !found; inserts++) {
        struct kg_row row;
        enum kg_status status = kg_row_begin(history, inserts ? insert : find, &row, err);
        if (status != KG_OK) return status;
        kg_row_int(&row, ids[0]);
        put(&row, what);
        kg_row_int(&row, ids[1]);
        status = inserts ? kg_row_end(&row, err) : kg_row_find(&row, id, &found, err);
        if (status != KG_OK) return status;
    }
    if (!found) *id = sqlite3_last_insert_rowid(history->db);
    return KG_OK;
}
