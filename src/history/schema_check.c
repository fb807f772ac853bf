/* Whether the file holds what kigo makes and nothing else. */
#include "base/buffer.h"
#include "base/file.h"
#include "history/internal.h"
#include <stdlib.h>
#include <string.h>

/* SQLite makes these tables itself (ANALYZE, AUTOINCREMENT); nothing that is read comes from them. */
#define OF_SQLITE "(type = 'table' AND name IN ('sqlite_sequence', 'sqlite_stat1', 'sqlite_stat4'))"

/* Lines "type name table sql"; *name is the first that `known` does not have, if it is given. */
static enum kg_status list_schema(struct kg_history *history, const char *known, struct kg_buffer *out, char **name,
                                  struct kg_error *err) {
    static const char SQL[] = "SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, ''),"
                              " type || ' ' || name FROM sqlite_schema WHERE NOT " OF_SQLITE " ORDER BY type, name";
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(history->db, SQL, -1, &stmt, NULL);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(stmt);
        if (code != SQLITE_ROW) break;
        const char *line = (const char *)sqlite3_column_text(stmt, 0),
                   *what = (const char *)sqlite3_column_text(stmt, 1);
        if (known && !*name && (!line || !strstr(known, line))) *name = kg_xstrdup(what ? what : "without a name");
        kg_buffer_printf(out, "%s\n", line ? line : "");
    }
    const enum kg_status status = code == SQLITE_DONE ? KG_OK : kg_history_fail(history, "reading its schema", err);
    sqlite3_finalize(stmt);
    return status;
}

enum kg_status kg_history_check_schema(struct kg_history *history, struct kg_error *err) {
    struct kg_history *scratch = NULL;
    struct kg_buffer wanted = KG_BUFFER_INIT, found = KG_BUFFER_INIT;
    char *other = NULL;
    enum kg_status status = kg_history_open_scratch(history->root, &scratch, err);
    if (status == KG_OK) status = list_schema(scratch, NULL, &wanted, NULL, err);
    if (status == KG_OK) status = list_schema(history, kg_buffer_text(&wanted), &found, &other, err);
    if (status == KG_OK && strcmp(kg_buffer_text(&wanted), kg_buffer_text(&found)) != 0)
        status = kg_fail(err, KG_ERR_FORMAT,
                         "%s was changed by another program than kigo (%s); 'kigo reindex' makes it again",
                         history->path, other ? other : "something of it is missing");
    free(other);
    kg_buffer_free(&wanted);
    kg_buffer_free(&found);
    kg_history_close(scratch);
    return status;
}

/* A page that could not be read is found, too: no damage of the file. SQLite says the code where it follows a tree, and
 * none where it follows a value's overflow pages, whose numbers it has held against the file's size before.
 */
static bool is_unread(const char *damage) {
    static const char CODE[] = "error code=";
    if (strstr(damage, "failed to get page")) return true;
    const char *at = strstr(damage, CODE);
    const long primary = at ? strtol(at + strlen(CODE), NULL, 10) & 0xFF : SQLITE_OK;
    return primary == SQLITE_IOERR || primary == SQLITE_NOMEM;
}

/* What SQLite finds wrong with a table and its indexes, malloc'ed; NULL: nothing. */
static enum kg_status find_damage(struct kg_history *history, const char *table, char **damage, struct kg_error *err) {
    char *sql = kg_xasprintf("PRAGMA integrity_check(%s)", table);
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(history->db, sql, -1, &stmt, NULL);
    if (code == SQLITE_OK) code = sqlite3_step(stmt);
    const char *found = code == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    if (found && strcmp(found, "ok") != 0) *damage = kg_xstrdup(found);
    const enum kg_status status = code == SQLITE_ROW ? KG_OK : kg_history_fail(history, "looking for damage", err);
    sqlite3_finalize(stmt);
    free(sql);
    return status;
}

enum kg_status kg_history_check_tables(struct kg_history *history, struct kg_error *err) {
    static const char *const TABLES[] = { "bundle", "env", "build", "annotation", "tcase", "figure_name" };
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof TABLES / sizeof *TABLES && status == KG_OK; i++) {
        char *damage = NULL;
        status = find_damage(history, TABLES[i], &damage, err);
        if (damage && is_unread(damage))
            status = kg_fail(err, KG_ERR_IO, "%s: its table %s cannot be read (disk I/O error: %.200s)", history->path,
                             TABLES[i], damage);
        else if (damage)
            status = kg_fail(err, KG_ERR_FORMAT, "%s: its table %s is damaged (%.200s); 'kigo reindex' makes it again",
                             history->path, TABLES[i], damage);
        free(damage);
    }
    return status;
}

/* Statements that drop all of the file's triggers and views, and then its tables. */
static enum kg_status list_drops(struct kg_history *history, struct kg_dir_list *drops, struct kg_error *err) {
    static const char SQL[] = "SELECT 'DROP ' || type || ' IF EXISTS \"' || replace(name, '\"', '\"\"') || '\"'"
                              " FROM sqlite_schema WHERE type IN ('trigger', 'view', 'table') AND NOT " OF_SQLITE
                              " ORDER BY type = 'table', type = 'view', name";
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(history->db, SQL, -1, &stmt, NULL);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(stmt);
        if (code != SQLITE_ROW) break;
        const char *sql = (const char *)sqlite3_column_text(stmt, 0);
        drops->names = kg_xrealloc(drops->names, (drops->n_names + 1) * sizeof *drops->names);
        drops->names[drops->n_names++] = kg_xstrdup(sql ? sql : "");
    }
    const enum kg_status status = code == SQLITE_DONE ? KG_OK : kg_history_fail(history, "reading its schema", err);
    sqlite3_finalize(stmt);
    return status;
}

enum kg_status kg_history_start_over(struct kg_history *history, struct kg_error *err) {
    struct kg_dir_list drops = { 0 };
    enum kg_status status = list_drops(history, &drops, err);
    for (size_t i = 0; i < drops.n_names && status == KG_OK; i++) {
        status = kg_history_exec(history, drops.names[i], err);
        /* What this SQLite cannot drop (a virtual table of a module it lacks) goes with the file. */
        if (status != KG_OK && sqlite3_errcode(history->db) == SQLITE_ERROR) status = KG_ERR_FORMAT;
    }
    if (status == KG_OK) status = kg_history_exec(history, "PRAGMA user_version = 0", err);
    if (status == KG_OK) status = kg_history_make_schema(history, err);
    kg_dir_list_free(&drops);
    return status;
}
