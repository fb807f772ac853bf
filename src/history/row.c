#include "history/row.h"

static const char *const STATEMENTS[KG_STMT_COUNT] = {
    [KG_STMT_ENV] = "INSERT OR IGNORE INTO env VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    [KG_STMT_BUILD] = "INSERT OR IGNORE INTO build VALUES(?,?,?,?,?,?,?,?)",
    [KG_STMT_BUNDLE] = "INSERT INTO bundle VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [KG_STMT_CASE] = "INSERT OR IGNORE INTO tcase VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    [KG_STMT_RESULT] = "INSERT INTO result_row VALUES(?,?,?,?,?,?,?,?)",
    [KG_STMT_FIGURE] = "INSERT OR IGNORE INTO figure VALUES(?,?,?)",
    [KG_STMT_METRIC] = "INSERT INTO metric_row VALUES(?,?,?,?,?,?,?,?,?,?)",
};

enum kg_status kg_row_begin(struct kg_history *history, enum kg_history_stmt which, struct kg_row *row,
                            struct kg_error *err) {
    sqlite3_stmt **stmt = &history->stmts[which];
    *row = (struct kg_row){ history, NULL, 0 };
    if (!*stmt && sqlite3_prepare_v3(history->db, STATEMENTS[which], -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL) != 0)
        return kg_history_fail(history, "preparing an insert", err);
    row->stmt = *stmt;
    return KG_OK;
}

void kg_row_text(struct kg_row *row, const char *text) {
    row->n_bound++;
    if (text) sqlite3_bind_text(row->stmt, row->n_bound, text, -1, SQLITE_TRANSIENT);
    else sqlite3_bind_null(row->stmt, row->n_bound);
}

void kg_row_int(struct kg_row *row, int64_t value) {
    sqlite3_bind_int64(row->stmt, ++row->n_bound, value);
}

void kg_row_int_of(struct kg_row *row, const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    row->n_bound++;
    if (json_is_integer(value)) sqlite3_bind_int64(row->stmt, row->n_bound, json_integer_value(value));
    else sqlite3_bind_null(row->stmt, row->n_bound);
}

void kg_row_real_of(struct kg_row *row, const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    row->n_bound++;
    if (json_is_number(value)) sqlite3_bind_double(row->stmt, row->n_bound, json_number_value(value));
    else sqlite3_bind_null(row->stmt, row->n_bound);
}

void kg_row_number(struct kg_row *row, const struct kg_node *value) {
    row->n_bound++;
    if (kg_node_is_number(value)) sqlite3_bind_double(row->stmt, row->n_bound, kg_node_number(value));
    else sqlite3_bind_null(row->stmt, row->n_bound);
}

void kg_row_node_text(struct kg_row *row, const struct kg_node *object, const char *name) {
    kg_row_text(row, kg_node_text(object, name));
}

void kg_row_node_int(struct kg_row *row, const struct kg_node *object, const char *name) {
    const struct kg_node *value = kg_node_member(object, name);
    row->n_bound++;
    if (value && value->kind == KG_NODE_INT) sqlite3_bind_int64(row->stmt, row->n_bound, kg_node_integer(value));
    else sqlite3_bind_null(row->stmt, row->n_bound);
}

void kg_row_node_real(struct kg_row *row, const struct kg_node *object, const char *name) {
    kg_row_number(row, kg_node_member(object, name));
}

void kg_row_text_of(struct kg_row *row, const json_t *object, const char *name) {
    kg_row_text(row, json_string_value(json_object_get(object, name)));
}

enum kg_status kg_row_end(struct kg_row *row, struct kg_error *err) {
    const int code = sqlite3_step(row->stmt);
    const enum kg_status status = code == SQLITE_DONE ? KG_OK : kg_history_fail(row->history, "inserting", err);
    sqlite3_reset(row->stmt);
    sqlite3_clear_bindings(row->stmt);
    return status;
}
