/* Reading the index with SQL that cannot write: a connection opened for reading, and an authorizer that lets only
 * selects through (it also stops ATTACH, which could make files), from the tables and views of the index alone. */
#include "history/internal.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/size.h"
#include <stdlib.h>
#include <string.h>

/* What one query may use and has used. */
struct asking {
    const struct kg_query_limits *limits; /* NULL: none */
    uint64_t begin_ns;
    struct kg_buffer tables; /* "\nname\n" of each table and view of the index that no module makes up */
    bool stopped, late;
};

static enum kg_status fail_reading(const struct kg_history *history, sqlite3 *db, struct kg_error *err) {
    const int code = sqlite3_errcode(db);
    const bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
    return kg_fail(err, damaged ? KG_ERR_FORMAT : KG_ERR_IO, "%s: %s%s", history->path, sqlite3_errmsg(db),
                   damaged ? "; 'kigo reindex' makes it again" : "");
}

/* Whether the statement's words are not at fault. */
static bool is_of_file(int code) {
    static const int KINDS[] = { SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_IOERR,    SQLITE_CANTOPEN,
                                 SQLITE_BUSY,    SQLITE_FULL,   SQLITE_READONLY, SQLITE_PROTOCOL };
    for (size_t i = 0; i < KG_COUNT_OF(KINDS); i++)
        if ((code & 0xFF) == KINDS[i]) return true;
    return false;
}

static bool begins_with_any(const char *name, const char *const *beginnings, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0) return true;
    return false;
}

/* Reading columns of the index and of its schema. */
static bool is_own_table(const struct asking *asking, const char *name, const char *column) {
    static const char *const OTHERS[] = { "sqlite_schema", "sqlite_master" };
    if (!*column) return true; /* rows are counted, values are not read */
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++)
        if (strcmp(name, OTHERS[i]) == 0) return true;
    char *line = kg_xasprintf("\n%s\n", name);
    const bool known = strstr(kg_buffer_text(&asking->tables), line) != NULL;
    free(line);
    return known;
}

static int only_reading(void *arg, int action, const char *first, const char *second, const char *database,
                        const char *trigger) {
    static const char *const PRAGMAS[] = { "table_info", "table_list", "table_xinfo", "index_list", "index_info" };
    /* They load code, or take and give pointers that SQL has no business with. */
    static const char *const FUNCTIONS[] = { "load_extension", "fts", "rtree", "geopoly", "carray" };
    (void)database;
    (void)trigger;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_READ: return is_own_table(arg, first, second) ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_FUNCTION:
        return second && begins_with_any(second, FUNCTIONS, KG_COUNT_OF(FUNCTIONS)) ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA:
        for (size_t i = 0; first && i < KG_COUNT_OF(PRAGMAS); i++)
            if (strcmp(first, PRAGMAS[i]) == 0) return SQLITE_OK;
        return SQLITE_DENY;
    default: return SQLITE_DENY;
    }
}

static enum kg_status list_tables(const struct kg_history *history, sqlite3 *db, struct kg_buffer *tables,
                                  struct kg_error *err) {
    static const char SQL[] = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"
                              " AND sql NOT LIKE 'CREATE VIRTUAL%'";
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(db, SQL, -1, &stmt, NULL);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(stmt);
        if (code == SQLITE_ROW) kg_buffer_printf(tables, "\n%s\n", (const char *)sqlite3_column_text(stmt, 0));
    }
    const enum kg_status status = code == SQLITE_DONE ? KG_OK : fail_reading(history, db, err);
    sqlite3_finalize(stmt);
    return status;
}

static int look_up(void *arg) {
    struct asking *asking = arg;
    const struct kg_query_limits *limits = asking->limits;
    const double seconds = (double)(kg_clock_monotonic_ns() - asking->begin_ns) * 1e-9;
    asking->late = seconds > limits->seconds;
    asking->stopped = limits->stop && limits->stop(limits->user, seconds);
    return asking->late || asking->stopped;
}

/* Sorting happens in memory too, so that no disk fills. */
static void limit(sqlite3 *db, struct asking *asking) {
    enum { OPERATIONS_BETWEEN_LOOKS = 10000, MAX_VALUE_BYTES = 16 << 20, MAX_SQL_BYTES = 1 << 20, MAX_PATTERN = 256 };
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
    if (!asking->limits) return;
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES);
    sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, MAX_SQL_BYTES);
    sqlite3_limit(db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN);
    sqlite3_exec(db, "PRAGMA temp_store = memory", NULL, NULL, NULL);
    sqlite3_busy_timeout(db, (int)(asking->limits->seconds * 1000));
    sqlite3_progress_handler(db, OPERATIONS_BETWEEN_LOOKS, look_up, asking);
}

static enum kg_status over_limit(const struct asking *asking, int code, struct kg_error *err) {
    if (asking->stopped) return kg_fail(err, KG_ERR_CANCELLED, "the query was ended by a signal");
    if (asking->late)
        return kg_fail(err, KG_ERR_CANCELLED, "the query took longer than %g s: narrow it, or raise --max-seconds",
                       asking->limits->seconds);
    if (code == SQLITE_NOMEM && asking->limits)
        return kg_fail(err, KG_ERR_NO_MEMORY, "the query needs more than %llu MiB: narrow it, or raise --max-mib",
                       (unsigned long long)(asking->limits->memory_bytes >> 20));
    return KG_OK;
}

static struct kg_cell read_cell(sqlite3_stmt *stmt, int column) {
    struct kg_cell cell = { KG_CELL_NULL, 0, 0, "", 0 };
    const int type = sqlite3_column_type(stmt, column);
    switch (type) {
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
        cell.kind = type == SQLITE_TEXT ? KG_CELL_TEXT : KG_CELL_BLOB;
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

static enum kg_status prepare(const struct kg_history *history, sqlite3 *db, const char *sql, sqlite3_stmt **stmt,
                              struct kg_error *err) {
    const char *tail = NULL;
    const int code = sqlite3_prepare_v2(db, sql, -1, stmt, &tail);
    if (code != SQLITE_OK && is_of_file(code)) return fail_reading(history, db, err);
    if (code != SQLITE_OK && strstr(sqlite3_errmsg(db), "not authorized"))
        return kg_fail(err, KG_ERR_USAGE, "a query may only read (%s): %.400s", sqlite3_errmsg(db), sql);
    if (code != SQLITE_OK && strncmp(sqlite3_errmsg(db), "no such ", 8) == 0)
        return kg_fail(err, KG_ERR_USAGE, "%s: %.400s; 'kigo query --schema' lists what there is", sqlite3_errmsg(db),
                       sql);
    if (code != SQLITE_OK) return kg_fail(err, KG_ERR_USAGE, "%s: %.400s", sqlite3_errmsg(db), sql);
    if (!*stmt) return kg_fail(err, KG_ERR_USAGE, "the query is empty");
    if (!sqlite3_stmt_readonly(*stmt)) return kg_fail(err, KG_ERR_USAGE, "a query may only read: %.400s", sql);
    if (!nothing_follows(db, tail)) return kg_fail(err, KG_ERR_USAGE, "more than one statement: %.400s", tail);
    return KG_OK;
}

static enum kg_status run(const struct kg_history *history, const struct asking *asking, sqlite3_stmt *stmt,
                          kg_row_fn *row, void *arg, struct kg_error *err) {
    sqlite3 *db = sqlite3_db_handle(stmt);
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
    const enum kg_status over = over_limit(asking, code, err);
    if (over != KG_OK) return over;
    if (is_of_file(code)) return fail_reading(history, db, err);
    return kg_fail(err, KG_ERR_USAGE, "%s: %s", history->path, sqlite3_errmsg(db));
}

static enum kg_status ask(struct kg_history *history, sqlite3 *db, struct asking *asking, const char *sql,
                          const char *const *args, size_t n_args, kg_row_fn *row, void *arg, struct kg_error *err) {
    sqlite3_stmt *stmt = NULL;
    sqlite3_busy_timeout(db, 60000);
    kg_history_distrust(db);
    limit(db, asking);
    enum kg_status status = list_tables(history, db, &asking->tables, err);
    sqlite3_set_authorizer(db, only_reading, asking);
    if (status == KG_OK) status = prepare(history, db, sql, &stmt, err);
    for (size_t i = 0; status == KG_OK && i < n_args; i++)
        if (sqlite3_bind_text(stmt, (int)i + 1, args[i], -1, SQLITE_STATIC) != SQLITE_OK)
            status = kg_fail(err, KG_ERR_INTERNAL, "binding argument %zu: %s", i + 1, sqlite3_errmsg(db));
    if (status == KG_OK) status = run(history, asking, stmt, row, arg, err);
    sqlite3_finalize(stmt);
    return status;
}

enum kg_status kg_history_query_index(struct kg_history *history, const struct kg_query_limits *limits, const char *sql,
                                      const char *const *args, size_t n_args, kg_row_fn *row, void *arg,
                                      struct kg_error *err) {
    const bool in_memory = strcmp(history->path, ":memory:") == 0;
    struct asking asking = { .limits = limits, .begin_ns = kg_clock_monotonic_ns(), .tables = KG_BUFFER_INIT };
    sqlite3 *db = history->db;
    const sqlite3_int64 before =
        limits ? sqlite3_hard_heap_limit64(sqlite3_memory_used() + (sqlite3_int64)limits->memory_bytes) : 0;
    enum kg_status status = KG_OK;
    if (!in_memory &&
        sqlite3_open_v2(history->path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        status = kg_fail(err, KG_ERR_IO, "%s: opening for reading: %s", history->path, sqlite3_errmsg(db));
    if (status == KG_OK) status = ask(history, db, &asking, sql, args, n_args, row, arg, err);
    if (in_memory) {
        sqlite3_progress_handler(db, 0, NULL, NULL);
        sqlite3_set_authorizer(db, NULL, NULL);
    } else {
        sqlite3_close(db);
    }
    if (limits) sqlite3_hard_heap_limit64(before);
    kg_buffer_free(&asking.tables);
    return status;
}
