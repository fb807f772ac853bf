/* Opening the index file. */
#include "history/internal.h"
#include "base/buffer.h"
#include "base/file.h"
#include <stdlib.h>
#include <unistd.h>

enum { BUSY_TIMEOUT_MS = 60000 };

enum kg_status kg_history_fail(const struct kg_history *history, const char *doing, struct kg_error *err) {
    const int code = sqlite3_errcode(history->db);
    const enum kg_status status = code == SQLITE_NOTADB || code == SQLITE_CORRUPT ? KG_ERR_FORMAT
                                  : code == SQLITE_BUSY || code == SQLITE_LOCKED  ? KG_ERR_BUSY
                                  : code == SQLITE_NOMEM                          ? KG_ERR_NO_MEMORY
                                                                                  : KG_ERR_IO;
    return kg_fail(err, status, "%s: %s: %s%s", history->path, doing, sqlite3_errmsg(history->db),
                   status == KG_ERR_FORMAT ? "; 'kigo reindex' makes it again" : "");
}

enum kg_status kg_history_exec(struct kg_history *history, const char *sql, struct kg_error *err) {
    if (sqlite3_exec(history->db, sql, NULL, NULL, NULL) == SQLITE_OK) return KG_OK;
    return kg_history_fail(history, "setting up", err);
}

void kg_history_forget(struct kg_history *history) {
    kg_id_cache_clear(&history->cases);
    kg_id_cache_clear(&history->figures);
}

void kg_history_close(struct kg_history *history) {
    if (!history) return;
    kg_history_forget(history);
    for (size_t i = 0; i < KG_STMT_COUNT; i++) sqlite3_finalize(history->stmts[i]);
    sqlite3_close(history->db);
    free(history->path);
    free(history->root);
    free(history);
}

enum kg_status kg_history_open_file(const char *root, struct kg_history **out, struct kg_error *err) {
    static const char SETUP[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536;";
    if (!kg_path_is_dir(root)) return kg_fail(err, KG_ERR_NOT_FOUND, "%s: no such folder of bundles", root);
    struct kg_history *history = kg_xcalloc(1, sizeof *history);
    history->root = kg_xstrdup(root);
    history->path = access(root, W_OK) == 0 ? kg_path_join(root, "index.sqlite") : kg_xstrdup(":memory:");
    enum kg_status status = KG_OK;
    if (sqlite3_open_v2(history->path, &history->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
        status = kg_history_fail(history, "opening", err);
    if (status == KG_OK) {
        sqlite3_busy_timeout(history->db, BUSY_TIMEOUT_MS);
        sqlite3_db_config(history->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(history->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        status = kg_history_exec(history, SETUP, err);
    }
    if (status == KG_OK) status = kg_history_migrate(history, err);
    if (status == KG_OK) *out = history;
    else kg_history_close(history);
    return status;
}
