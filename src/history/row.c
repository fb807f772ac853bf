#include "history/row.h"

#define METRIC_ROW "(?,?,?,?,?,?,?,?,?,?)"
#define METRIC_ROWS_4 METRIC_ROW "," METRIC_ROW "," METRIC_ROW "," METRIC_ROW
#define METRIC_ROWS_16 METRIC_ROWS_4 "," METRIC_ROWS_4 "," METRIC_ROWS_4 "," METRIC_ROWS_4

static const char *const STATEMENTS[KG_STMT_COUNT] = {
    [KG_STMT_ENV] = "INSERT OR IGNORE INTO env VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    [KG_STMT_BUILD] = "INSERT OR IGNORE INTO build VALUES(?,?,?,?,?,?,?,?)",
    [KG_STMT_BUNDLE] = "INSERT INTO bundle VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [KG_STMT_CASE] = "INSERT OR IGNORE INTO tcase VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    [KG_STMT_RESULT] = "INSERT INTO result_row VALUES(?,?,?,?,?,?,?,?)",
    [KG_STMT_FIGURE] = "INSERT OR IGNORE INTO figure_name VALUES(?,?,?)",
    [KG_STMT_METRIC] = "INSERT INTO metric_row VALUES" METRIC_ROW,
    /* FAIL: the caller takes a whole bundle back. To take back rows of one statement SQLite would copy pages first. */
    [KG_STMT_METRICS] = "INSERT OR FAIL INTO metric_row VALUES" METRIC_ROWS_16 "," METRIC_ROWS_16,
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
