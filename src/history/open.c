/* Opening the index file. */
#include "history/internal.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "bundle/beside.h"
#include "bundle/verified.h"
#include "history/shelf.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

const char *const KG_INDEX_FILES[] = { "index.sqlite",         "index.sqlite-wal",  "index.sqlite-shm",
                                       "index.sqlite-journal", "index.sqlite-lock", NULL };
enum { BUSY_TIMEOUT_MS = 60000, PAUSE_MS = 20 };

/* A full disk or quota, a file system that is read only, a lack of permission: reading may go on. */
static bool is_unwritable(sqlite3 *db) {
    static const int ERRNOS[] = { ENOSPC, EDQUOT, EROFS, EACCES, EPERM };
    const int code = sqlite3_extended_errcode(db), kind = code & 0xFF;
    if (kind == SQLITE_FULL || kind == SQLITE_READONLY || code == SQLITE_IOERR_SHMSIZE) return true;
    if (kind != SQLITE_IOERR && kind != SQLITE_CANTOPEN) return false;
    /* Where a file cannot be made SQLite tries to open it for reading, and keeps that error: there is none. */
    if (kind == SQLITE_CANTOPEN && sqlite3_system_errno(db) == ENOENT) return true;
    for (size_t i = 0; i < sizeof ERRNOS / sizeof *ERRNOS; i++)
        if (sqlite3_system_errno(db) == ERRNOS[i]) return true;
    return false;
}

enum kg_status kg_history_fail(const struct kg_history *history, const char *doing, struct kg_error *err) {
    const int code = sqlite3_errcode(history->db);
    const enum kg_status status = code == SQLITE_NOTADB || code == SQLITE_CORRUPT ? KG_ERR_FORMAT
                                  : code == SQLITE_BUSY || code == SQLITE_LOCKED  ? KG_ERR_BUSY
                                  : code == SQLITE_NOMEM                          ? KG_ERR_NO_MEMORY
                                  : is_unwritable(history->db)                    ? KG_ERR_UNWRITABLE
                                                                                  : KG_ERR_IO;
    const int kind = code & 0xFF;
    const int cause = kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN ? sqlite3_system_errno(history->db) : 0;
    const bool says = cause != 0 && cause != ENOENT; /* see is_unwritable */
    return kg_fail(err, status, "%s: %s: %s%s%s%s", history->path, doing, sqlite3_errmsg(history->db), says ? ": " : "",
                   says ? strerror(cause) : "", status == KG_ERR_FORMAT ? "; 'kigo reindex' makes it again" : "");
}

enum kg_status kg_history_exec(struct kg_history *history, const char *sql, struct kg_error *err) {
    if (sqlite3_exec(history->db, sql, NULL, NULL, NULL) == SQLITE_OK) return KG_OK;
    return kg_history_fail(history, "setting up", err);
}

void kg_history_clear_ids(struct kg_history *history) {
    kg_id_cache_clear(&history->cases);
    kg_id_cache_clear(&history->figures);
}

void kg_history_close(struct kg_history *history) {
    if (!history) return;
    if (history->store) kg_shelf_close(history);
    if (history->store) history->store->close(history->place);
    kg_history_close(history->scratch);
    kg_verified_close(history->verified);
    kg_bundle_findings_free(&history->repaired);
    kg_bundle_findings_free(&history->left_out);
    kg_history_clear_ids(history);
    for (size_t i = 0; i < KG_STMT_COUNT; i++) sqlite3_finalize(history->stmts[i]);
    sqlite3_close(history->db);
    free(history->why_in_memory);
    free(history->path);
    free(history->root);
    free(history);
}

/* Sets the file up. Switching a fresh file to WAL, and opening one whose WAL another process is about to remove, fail
 * with SQLITE_BUSY without asking the busy handler: the folder's lock lets one process at a time do it, and what others
 * still hold is waited for. Where folders cannot be locked the waiting alone has to do. */
static enum kg_status set_up(struct kg_history *history, bool migrated, struct kg_error *err) {
    static const char SETUP[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536;",
                      IN_MEMORY[] = "PRAGMA temp_store = memory";
    char *path = kg_path_join(history->root, "index.sqlite-lock");
    const bool on_disk = strcmp(history->path, ":memory:") != 0;
    const int fd = on_disk ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666) : -1;
    enum kg_status status = KG_ERR_BUSY;
    if (fd >= 0) (void)!flock(fd, LOCK_EX);
    for (int waited_ms = 0; status == KG_ERR_BUSY && waited_ms <= BUSY_TIMEOUT_MS; waited_ms += PAUSE_MS) {
        if (waited_ms > 0) usleep(PAUSE_MS * 1000);
        status = kg_history_exec(history, on_disk ? SETUP : IN_MEMORY, err);
    }
    if (status == KG_OK && migrated) status = kg_history_migrate(history, err);
    if (fd >= 0) close(fd);
    free(path);
    return status;
}

/* SQLite would follow a link and write where it leads, and wait for a pipe. */
static enum kg_status check_kinds(const char *root, struct kg_error *err) {
    enum kg_status status = KG_OK;
    struct kg_error why;
    for (size_t i = 0; KG_INDEX_FILES[i] && status == KG_OK; i++) {
        status = kg_beneath_check(root, KG_INDEX_FILES[i], &why);
        if (status == KG_ERR_NOT_FOUND) status = KG_OK;
    }
    return status == KG_OK ? KG_OK : kg_fail(err, status, "%s; 'kigo reindex' makes the index again", why.message);
}

/* path: of the file, or ":memory:"; taken over. */
static enum kg_status open_path(const char *root, char *path, bool migrated, struct kg_history **out,
                                struct kg_error *err) {
    struct kg_history *history = kg_xcalloc(1, sizeof *history);
    history->root = kg_xstrdup(root);
    history->path = path;
    enum kg_status status = strcmp(path, ":memory:") == 0 ? KG_OK : check_kinds(root, err);
    if (status == KG_OK &&
        sqlite3_open_v2(path, &history->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) !=
            SQLITE_OK)
        status = kg_history_fail(history, "opening", err);
    if (status == KG_OK) {
        sqlite3_busy_timeout(history->db, BUSY_TIMEOUT_MS);
        kg_history_distrust(history->db);
        status = set_up(history, migrated, err);
    }
    if (status == KG_OK) *out = history;
    else kg_history_close(history);
    return status;
}

void kg_history_distrust(sqlite3 *db) {
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
}

enum kg_status kg_history_open_scratch(const char *root, struct kg_history **history, struct kg_error *err) {
    return open_path(root, kg_xstrdup(":memory:"), true, history, err);
}

static char *path_of(const char *root, bool on_disk) {
    return on_disk ? kg_path_join(root, "index.sqlite") : kg_xstrdup(":memory:");
}

bool kg_history_is_writable(const char *root, char **why) {
    if (access(root, W_OK) == 0) return true;
    *why = kg_xasprintf("%s: %s", root, strerror(errno));
    return false;
}

const char *kg_history_why_in_memory(const struct kg_history *history) {
    return history->why_in_memory;
}

enum kg_status kg_history_open_any(const char *root, bool on_disk, struct kg_history **history, struct kg_error *err) {
    if (!kg_path_is_dir(root)) return kg_fail(err, KG_ERR_NOT_FOUND, KG_NO_BUNDLES, root);
    return open_path(root, path_of(root, on_disk), false, history, err);
}

enum kg_status kg_history_open_file(const char *root, bool on_disk, struct kg_history **out, struct kg_error *err) {
    struct kg_history *history = NULL;
    if (!kg_path_is_dir(root)) return kg_fail(err, KG_ERR_NOT_FOUND, KG_NO_BUNDLES, root);
    enum kg_status status = open_path(root, path_of(root, on_disk), true, &history, err);
    if (status == KG_OK) status = kg_history_check_schema(history, err);
    if (status == KG_OK) *out = history;
    else kg_history_close(history);
    return status;
}
