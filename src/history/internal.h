/* The inside of an open index. */
#ifndef KIGO_HISTORY_INTERNAL_H
#define KIGO_HISTORY_INTERNAL_H

#include "history/id_cache.h"
#include <kigo/history.h>
#include <sqlite3.h>

enum kg_history_stmt {
    KG_STMT_ENV,
    KG_STMT_BUILD,
    KG_STMT_BUNDLE,
    KG_STMT_CASE,
    KG_STMT_RESULT,
    KG_STMT_FIGURE,
    KG_STMT_METRIC,
    KG_STMT_COUNT,
};

struct kg_history {
    char *root;
    char *path; /* of the index file, ":memory:" where the root cannot be written */
    sqlite3 *db;
    sqlite3_stmt *stmts[KG_STMT_COUNT]; /* prepared when first used */
    struct kg_id_cache cases, figures;  /* rows of tcase and figure known to be there */
};

/* Message of the last SQLite error with the index's path; the status that fits its code. */
enum kg_status kg_history_fail(const struct kg_history *history, const char *doing, struct kg_error *err);

/* Clears the caches of row ids. Call it whenever rows may have been removed. */
void kg_history_clear_ids(struct kg_history *history);

/* Runs SQL without results. */
KG_WARN_UNUSED enum kg_status kg_history_exec(struct kg_history *history, const char *sql, struct kg_error *err);

/* Opens the file, sets it up and migrates it; no look at the folders. */
KG_WARN_UNUSED enum kg_status kg_history_open_file(const char *root, struct kg_history **history, struct kg_error *err);

/* Brings the schema to this program's version; KG_ERR_SCHEMA if the file's is newer. */
KG_WARN_UNUSED enum kg_status kg_history_migrate(struct kg_history *history, struct kg_error *err);

/* Makes the table of annotations equal to their files (or, with problems NULL, only says whether it is not). Inside a
 * transaction of the caller unless problems is NULL. */
KG_WARN_UNUSED enum kg_status kg_history_sync_annotations(struct kg_history *history, bool *differs,
                                                          struct kg_bundle_findings *problems, struct kg_error *err);

/* Inserts the rows of a folder, inside a transaction of the caller. */
struct kg_history_folder;
KG_WARN_UNUSED enum kg_status kg_history_insert(struct kg_history *history, const char *bundle_id,
                                                const struct kg_history_folder *folder, struct kg_error *err);

#endif
