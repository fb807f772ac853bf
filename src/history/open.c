/* Opening the index, and keeping it equal to the folders. */
#include "history/internal.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUSY_TIMEOUT_MS = 60000 };

enum kg_status kg_history_fail(const struct kg_history *history, const char *doing, struct kg_error *err) {
    const int code = sqlite3_errcode(history->db);
    const enum kg_status status = code == SQLITE_NOTADB || code == SQLITE_CORRUPT ? KG_ERR_FORMAT
                                  : code == SQLITE_BUSY || code == SQLITE_LOCKED  ? KG_ERR_BUSY
                                  : code == SQLITE_NOMEM                          ? KG_ERR_NO_MEMORY
                                                                                  : KG_ERR_IO;
    return kg_fail(err, status, "%s: %s: %s", history->path, doing, sqlite3_errmsg(history->db));
}

enum kg_status kg_history_exec(struct kg_history *history, const char *sql, struct kg_error *err) {
    if (sqlite3_exec(history->db, sql, NULL, NULL, NULL) == SQLITE_OK) return KG_OK;
    return kg_history_fail(history, "setting up", err);
}

void kg_history_close(struct kg_history *history) {
    if (!history) return;
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

/* Names of the root's bundle folders, sorted; the caller frees. */
static enum kg_status list_folders(const char *root, struct kg_dir_list *list, struct kg_error *err) {
    const enum kg_status status = kg_dir_list(root, list, err);
    if (status != KG_OK) return status;
    size_t kept = 0;
    for (size_t i = 0; i < list->n_names; i++) {
        int64_t started_us;
        char *path = kg_path_join(root, list->names[i]);
        const bool is_bundle = kg_bundle_id_parse(list->names[i], &started_us) && kg_path_is_dir(path);
        free(path);
        if (is_bundle) list->names[kept++] = list->names[i];
        else free(list->names[i]);
    }
    list->n_names = kept;
    return KG_OK;
}

/* Ids in the index, sorted bytewise as the folders are. */
static enum kg_status list_indexed(struct kg_history *history, struct kg_dir_list *list, struct kg_error *err) {
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(history->db, "SELECT bundle_id FROM bundle ORDER BY bundle_id", -1, &stmt, NULL) !=
        SQLITE_OK)
        return kg_history_fail(history, "listing bundles", err);
    int code;
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        list->names = kg_xrealloc(list->names, (list->n_names + 1) * sizeof *list->names);
        list->names[list->n_names++] = kg_xstrdup((const char *)sqlite3_column_text(stmt, 0));
    }
    sqlite3_finalize(stmt);
    return code == SQLITE_DONE ? KG_OK : kg_history_fail(history, "listing bundles", err);
}

static enum kg_status drop(struct kg_history *history, const char *bundle_id, struct kg_error *err) {
    static const char *const DELETES[] = {
        "DELETE FROM metric WHERE result_id IN (SELECT result_id FROM result WHERE bundle_id = ?1)",
        "DELETE FROM result WHERE bundle_id = ?1",
        "DELETE FROM annotation WHERE bundle_id = ?1",
        "DELETE FROM bundle WHERE bundle_id = ?1",
    };
    for (size_t i = 0; i < sizeof DELETES / sizeof *DELETES; i++) {
        sqlite3_stmt *stmt = NULL;
        const bool good = sqlite3_prepare_v2(history->db, DELETES[i], -1, &stmt, NULL) == SQLITE_OK &&
                          sqlite3_bind_text(stmt, 1, bundle_id, -1, SQLITE_TRANSIENT) == SQLITE_OK &&
                          sqlite3_step(stmt) == SQLITE_DONE;
        sqlite3_finalize(stmt);
        if (!good) return kg_history_fail(history, "dropping a bundle", err);
    }
    return KG_OK;
}

/* Adds one bundle; what of it was inserted before an error is taken back. */
static enum kg_status add(struct kg_history *history, const char *bundle_id, struct kg_bundle_findings *problems,
                          struct kg_error *err) {
    struct kg_error own;
    enum kg_status status = kg_history_exec(history, "SAVEPOINT one", err);
    if (status != KG_OK) return status;
    status = kg_history_insert(history, bundle_id, &own);
    if (status == KG_OK) return kg_history_exec(history, "RELEASE one", err);
    const enum kg_status undone = kg_history_exec(history, "ROLLBACK TO one; RELEASE one", err);
    if (undone != KG_OK) return undone;
    const bool unreadable = status == KG_ERR_FORMAT || status == KG_ERR_INTEGRITY;
    if (unreadable && problems) kg_finding_add(problems, "unreadable", bundle_id, "%s", own.message);
    if (unreadable && problems) return KG_OK;
    return kg_fail(err, status, "%s", own.message);
}

enum change_kind { CHANGE_ADD, CHANGE_DROP };

/* Walks both sorted lists; for each name in one of them only, calls the change (or, without one, says that there is one). */
static enum kg_status apply_changes(struct kg_history *history, const struct kg_dir_list *folders,
                                    const struct kg_dir_list *indexed, bool dry, bool *any, size_t *n_dropped,
                                    struct kg_bundle_findings *problems, struct kg_error *err) {
    size_t f = 0, x = 0;
    enum kg_status status = KG_OK;
    while (status == KG_OK && (f < folders->n_names || x < indexed->n_names)) {
        const int order = f == folders->n_names   ? 1
                          : x == indexed->n_names ? -1
                                                  : strcmp(folders->names[f], indexed->names[x]);
        *any = *any || order != 0;
        if (order < 0 && !dry) status = add(history, folders->names[f], problems, err);
        if (order > 0 && !dry) status = drop(history, indexed->names[x], err);
        *n_dropped += order > 0;
        f += order <= 0;
        x += order >= 0;
    }
    return status;
}

static enum kg_status compare_folders(struct kg_history *history, bool dry, bool *any,
                                      struct kg_bundle_findings *problems, struct kg_error *err) {
    static const char ORPHANS[] = "DELETE FROM tcase WHERE case_id NOT IN (SELECT case_id FROM result);"
                                  "DELETE FROM env WHERE env_id NOT IN (SELECT env_id FROM bundle);"
                                  "DELETE FROM build WHERE build_id NOT IN (SELECT build_id FROM bundle);";
    struct kg_dir_list folders = { 0 }, indexed = { 0 };
    size_t n_dropped = 0;
    enum kg_status status = list_folders(history->root, &folders, err);
    if (status == KG_OK) status = list_indexed(history, &indexed, err);
    if (status == KG_OK) status = apply_changes(history, &folders, &indexed, dry, any, &n_dropped, problems, err);
    if (status == KG_OK && n_dropped > 0 && !dry) status = kg_history_exec(history, ORPHANS, err);
    kg_dir_list_free(&indexed);
    kg_dir_list_free(&folders);
    return status;
}

/* Runs body inside one write transaction. */
static enum kg_status in_transaction(struct kg_history *history,
                                     enum kg_status (*body)(struct kg_history *history, void *arg,
                                                            struct kg_error *err),
                                     void *arg, struct kg_error *err) {
    enum kg_status status = kg_history_exec(history, "BEGIN IMMEDIATE", err);
    if (status != KG_OK) return status;
    status = body(history, arg, err);
    if (status == KG_OK) status = kg_history_exec(history, "COMMIT", err);
    if (status != KG_OK) sqlite3_exec(history->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

static enum kg_status sync_body(struct kg_history *history, void *arg, struct kg_error *err) {
    bool any = false;
    return compare_folders(history, false, &any, arg, err);
}

enum kg_status kg_history_open(const char *root, struct kg_history **out, struct kg_bundle_findings *problems,
                               struct kg_error *err) {
    struct kg_history *history = NULL;
    struct kg_bundle_findings own = { NULL, 0 };
    bool any = false;
    enum kg_status status = kg_history_open_file(root, &history, err);
    if (status != KG_OK) return status;
    status = compare_folders(history, true, &any, NULL, err);
    if (status == KG_OK && any) status = in_transaction(history, sync_body, problems ? problems : &own, err);
    kg_bundle_findings_free(&own);
    if (status == KG_OK) *out = history;
    else kg_history_close(history);
    return status;
}

static enum kg_status add_body(struct kg_history *history, void *arg, struct kg_error *err) {
    struct kg_dir_list indexed = { 0 };
    const char *bundle_id = arg;
    bool there = false;
    enum kg_status status = list_indexed(history, &indexed, err);
    for (size_t i = 0; i < indexed.n_names; i++) there = there || strcmp(indexed.names[i], bundle_id) == 0;
    kg_dir_list_free(&indexed);
    if (status == KG_OK && !there) status = add(history, bundle_id, NULL, err);
    return status;
}

enum kg_status kg_history_add(const char *root, const char *bundle_id, struct kg_error *err) {
    struct kg_history *history = NULL;
    enum kg_status status = kg_history_open_file(root, &history, err);
    if (status == KG_OK) status = in_transaction(history, add_body, (void *)(uintptr_t)bundle_id, err);
    kg_history_close(history);
    return status;
}

static enum kg_status reindex_body(struct kg_history *history, void *arg, struct kg_error *err) {
    static const char EMPTY[] = "DELETE FROM metric; DELETE FROM result; DELETE FROM tcase; DELETE FROM annotation;"
                                "DELETE FROM bundle; DELETE FROM env; DELETE FROM build;";
    const enum kg_status status = kg_history_exec(history, EMPTY, err);
    return status == KG_OK ? sync_body(history, arg, err) : status;
}

/* Removes an index that is no database, with its journals. */
static enum kg_status remove_index(const char *root, struct kg_error *err) {
    static const char *const FILES[] = { "index.sqlite", "index.sqlite-wal", "index.sqlite-shm" };
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES && status == KG_OK; i++) {
        char *path = kg_path_join(root, FILES[i]);
        status = kg_path_remove(path, err);
        free(path);
    }
    return status;
}

enum kg_status kg_history_reindex(const char *root, size_t *n_indexed, struct kg_bundle_findings *problems,
                                  struct kg_error *err) {
    struct kg_history *history = NULL;
    struct kg_bundle_findings own = { NULL, 0 };
    struct kg_dir_list indexed = { 0 };
    enum kg_status status = kg_history_open_file(root, &history, err);
    if (status == KG_OK) status = in_transaction(history, reindex_body, problems ? problems : &own, err);
    if (status == KG_ERR_FORMAT) {
        kg_history_close(history);
        history = NULL;
        status = remove_index(root, err);
        if (status == KG_OK) status = kg_history_open_file(root, &history, err);
        if (status == KG_OK) status = in_transaction(history, reindex_body, problems ? problems : &own, err);
    }
    if (status == KG_OK) status = list_indexed(history, &indexed, err);
    if (status == KG_OK) *n_indexed = indexed.n_names;
    kg_dir_list_free(&indexed);
    kg_bundle_findings_free(&own);
    kg_history_close(history);
    return status;
}
