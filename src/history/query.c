/* Reading the index with SQL that cannot write: a connection opened for reading, and an authorizer that lets only
 * selects through (it also stops ATTACH, which could make files). */
#include "history/internal.h"
#include "base/buffer.h"
#include <stdlib.h>
#include <string.h>

static int only_reading(void *unused, int action, const char *first, const char *second, const char *database,
                        const char *trigger) {
    static const char *const PRAGMAS[] = { "table_info", "table_list", "table_xinfo", "index_list", "index_info" };
    (void)unused;
    (void)database;
    (void)trigger;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_FUNCTION: return second && strcmp(second, "load_extension") == 0 ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA:
        for (size_t i = 0; first && i < sizeof PRAGMAS / sizeof *PRAGMAS; i++)
            if (strcmp(first, PRAGMAS[i]) == 0) return SQLITE_OK;
        return SQLITE_DENY;
    default: return SQLITE_DENY;
    }
}

static struct kg_cell read_cell(sqlite3_stmt *stmt, int column) {
    struct kg_cell cell = { KG_CELL_NULL, 0, 0, "", 0 };
    switch (sqlite3_column_type(stmt, column)) {
    case SQLITE_INTEGER:
        cell.kind = KG_CELL_INT;
        cell.integer = sqlite3_column_int64(stmt, column);
        break;
    case SQLITE_FLOAT:
        cell.kind = KG_CELL_REAL;
        cell.real = sqlite3_column_double(stmt, column);
        break;
    case SQLITE_TEXT:
    case SQLITE_BLOB:
        cell.kind = sqlite3_column_type(stmt, column) == SQLITE_TEXT ? KG_CELL_TEXT : KG_CELL_BLOB;
        cell.text = sqlite3_column_blob(stmt, column); /* NULL for an empty one */
        cell.size_bytes = (size_t)sqlite3_column_bytes(stmt, column);
        if (!cell.text) cell.text = "";
        break;
    default: break;
    }
    return cell;
}

/* Whether only blanks, semicolons and comments follow: SQLite compiles them to no statement. */
static bool nothing_follows(sqlite3 *db, const char *tail) {
    while (*tail) {
        sqlite3_stmt *stmt = NULL;
        const char *next = tail;
        const int code = sqlite3_prepare_v2(db, tail, -1, &stmt, &next);
        const bool empty = code == SQLITE_OK && !stmt;
        sqlite3_finalize(stmt);
        if (!empty || next == tail) return empty;
        tail = next;
    }
    return true;
}

static enum kg_status prepare(sqlite3 *db, const char *sql, sqlite3_stmt **stmt, struct kg_error *err) {
    const char *tail = NULL;
    const int code = sqlite3_prepare_v2(db, sql, -1, stmt, &tail);
    if (code != SQLITE_OK && strstr(sqlite3_errmsg(db), "not authorized"))
        return kg_fail(err, KG_ERR_USAGE, "a query may only read (%s): %.400s", sqlite3_errmsg(db), sql);
    if (code != SQLITE_OK) return kg_fail(err, KG_ERR_USAGE, "%s: %.400s", sqlite3_errmsg(db), sql);
    if (!*stmt) return kg_fail(err, KG_ERR_USAGE, "the query is empty");
    if (!sqlite3_stmt_readonly(*stmt)) return kg_fail(err, KG_ERR_USAGE, "a query may only read: %.400s", sql);
    if (!nothing_follows(db, tail)) return kg_fail(err, KG_ERR_USAGE, "more than one statement: %.400s", tail);
    return KG_OK;
}

static enum kg_status run(const struct kg_history *history, sqlite3 *db, sqlite3_stmt *stmt, kg_row_fn *row, void *arg,
                          struct kg_error *err) {
    const size_t n = (size_t)sqlite3_column_count(stmt);
    char **copies = kg_xcalloc(n, sizeof *copies); /* the first step may compile again and free SQLite's */
    const char *const *names = (const char *const *)copies;
    struct kg_cell *cells = kg_xcalloc(n, sizeof *cells);
    for (size_t i = 0; i < n; i++) copies[i] = kg_xstrdup(sqlite3_column_name(stmt, (int)i));
    bool go_on = row(arg, n, names, NULL);
    int code = SQLITE_DONE;
    while (go_on && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        for (size_t i = 0; i < n; i++) cells[i] = read_cell(stmt, (int)i);
        go_on = row(arg, n, names, cells);
    }
    free(cells);
    for (size_t i = 0; i < n; i++) free(copies[i]);
    free(copies);
    if (!go_on || code == SQLITE_DONE) return KG_OK;
    const bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_IOERR;
    return kg_fail(err, damaged ? KG_ERR_FORMAT : KG_ERR_USAGE, "%s: %s", history->path, sqlite3_errmsg(db));
}

enum kg_status kg_history_query(struct kg_history *history, const char *sql, const char *const *args, size_t n_args,
                                kg_row_fn *row, void *arg, struct kg_error *err) {
    const bool in_memory = strcmp(history->path, ":memory:") == 0;
    sqlite3 *db = history->db;
    sqlite3_stmt *stmt = NULL;
    enum kg_status status = KG_OK;
    if (!in_memory &&
        sqlite3_open_v2(history->path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        status = kg_fail(err, KG_ERR_IO, "%s: opening for reading: %s", history->path, sqlite3_errmsg(db));
    if (status == KG_OK) {
        sqlite3_busy_timeout(db, 60000);
        kg_history_distrust(db);
        sqlite3_set_authorizer(db, only_reading, NULL);
        status = prepare(db, sql, &stmt, err);
    }
    for (size_t i = 0; status == KG_OK && i < n_args; i++)
        if (sqlite3_bind_text(stmt, (int)i + 1, args[i], -1, SQLITE_STATIC) != SQLITE_OK)
            status = kg_fail(err, KG_ERR_INTERNAL, "binding argument %zu: %s", i + 1, sqlite3_errmsg(db));
    if (status == KG_OK) status = run(history, db, stmt, row, arg, err);
    sqlite3_finalize(stmt);
    if (in_memory) sqlite3_set_authorizer(db, NULL, NULL);
    else sqlite3_close(db);
    return status;
}
