/* The inside of an open index. */
#ifndef KIGO_HISTORY_INTERNAL_H
#define KIGO_HISTORY_INTERNAL_H

#include "base/hash.h"
#include "history/id_cache.h"
#include "history/store.h"
#include <kigo/history.h>
#include <sqlite3.h>

enum kg_history_stmt {
    KG_STMT_ENV,
    KG_STMT_BUILD,
    KG_STMT_BUNDLE,
    KG_STMT_BUNDLE_NO,
    KG_STMT_CASE,
    KG_STMT_FIND_CASE,
    KG_STMT_RESULT,
    KG_STMT_CLEAR_RESULTS,
    KG_STMT_FIGURE,
    KG_STMT_FIND_FIGURE,
    KG_STMT_METRIC,
    KG_STMT_METRICS, /* KG_METRICS_AT_ONCE rows */
    KG_STMT_CLEAR_METRICS,
    KG_STMT_COUNT,
};

struct kg_history {
    const struct kg_store
        *store; /* NULL: an index, and all below is its own; else there are those up to `path` alone */
    void *place;
    struct kg_history *shelf; /* index of the store's runs that were brought (shelf.h); NULL before the first */
    bool shelf_is_temporary, shelf_is_old; /* old: others were brought since it was opened */
    char *root;                            /* of a store: the shelf's, NULL before it is made */
    char *path;                            /* of the index file, or ":memory:"; or what messages call the store */
    char *why_in_memory;
    sqlite3 *db;
    sqlite3_stmt *stmts[KG_STMT_COUNT];           /* prepared when first used */
    struct kg_id_cache cases, figures;            /* rows of tcase and figure known to be there */
    struct kg_verified *verified;                 /* notes, opened when first asked for */
    struct kg_history *scratch;                   /* an index in memory, to see what rows a folder has; likewise */
    struct kg_bundle_findings repaired, left_out; /* runs whose rows were made again; that could not be indexed */
    size_t n_unread; /* folders and annotations that could not be read when it was opened */
};

/* The index and what SQLite and kigo keep beside it; ended by NULL. */
extern const char *const KG_INDEX_FILES[];

/* kg_history_query_within of an index. */
KG_WARN_UNUSED enum kg_status kg_history_query_index(struct kg_history *history, const struct kg_query_limits *limits,
                                                     const char *sql, const char *const *args, size_t n_args,
                                                     kg_row_fn *row, void *arg, struct kg_error *err);

/* Message of the last SQLite error with the index's path; the status that fits its code: KG_ERR_UNWRITABLE where what
 * cannot be written may still be read. */
enum kg_status kg_history_fail(const struct kg_history *history, const char *doing, struct kg_error *err);

/* Clears the caches of row ids. Call it whenever rows may have been removed. */
void kg_history_clear_ids(struct kg_history *history);

/* A connection that takes nothing from the file for granted: no function of consequence runs from its schema. */
void kg_history_distrust(sqlite3 *db);

/* Runs SQL without results. */
KG_WARN_UNUSED enum kg_status kg_history_exec(struct kg_history *history, const char *sql, struct kg_error *err);

/* Whether the root lets an index file be written; *why (malloc'ed): why not. */
bool kg_history_is_writable(const char *root, char **why);

/* Opens the file (on_disk) or an index in memory, and sets it up, whatever it holds. */
KG_WARN_UNUSED enum kg_status kg_history_open_any(const char *root, bool on_disk, struct kg_history **history,
                                                  struct kg_error *err);
/* The same, migrated and its schema checked; no look at the folders. */
KG_WARN_UNUSED enum kg_status kg_history_open_file(const char *root, bool on_disk, struct kg_history **history,
                                                   struct kg_error *err);

/* An empty index in memory. */
KG_WARN_UNUSED enum kg_status kg_history_open_scratch(const char *root, struct kg_history **history,
                                                      struct kg_error *err);

/* SHA-256 over a run's row of `bundle` with its machine and build; unless head_only, over its results and figures as
 * well, with their names. */
KG_WARN_UNUSED enum kg_status kg_history_digest(struct kg_history *history, const char *bundle_id, bool head_only,
                                                char sha256[KG_SHA256_HEX_SIZE], struct kg_error *err);

/* The number that a run's rows have: 43 bits of its id's hash, or the next that no other run has. Who sends bundles can
 * make two ids whose hashes meet. */
KG_WARN_UNUSED enum kg_status kg_history_bundle_no(struct kg_history *history, const char *bundle_id,
                                                   int64_t *bundle_no, struct kg_error *err);

/* Makes a bundle's rows again from its folder. */
KG_WARN_UNUSED enum kg_status kg_history_replace(struct kg_history *history, const char *bundle_id,
                                                 struct kg_error *err);

/* KG_ERR_FORMAT unless tables, indexes and views are those that kigo makes, and nothing else is there: a trigger would
 * change what kigo writes, a view what it reads. */
KG_WARN_UNUSED enum kg_status kg_history_check_schema(struct kg_history *history, struct kg_error *err);

/* KG_ERR_FORMAT if the pages of the small tables are damaged, or an index of theirs lacks a row that the table has: a
 * run that a query does not find is missing from the baseline. The rows of results are not looked at: those that decide
 * are hashed (history/trust.h), by the index that they are read by. Measured, 1000 runs of 1000 cases with 4 figures
 * each: 2 ms of processor time; quick_check of the whole file would take 0.7 s. */
KG_WARN_UNUSED enum kg_status kg_history_check_tables(struct kg_history *history, struct kg_error *err);

/* Drops whatever the file holds, and makes the schema; inside a transaction of the caller. */
KG_WARN_UNUSED enum kg_status kg_history_start_over(struct kg_history *history, struct kg_error *err);

/* Runs the migrations that the file lacks, inside a transaction of the caller. */
KG_WARN_UNUSED enum kg_status kg_history_make_schema(struct kg_history *history, struct kg_error *err);

/* Drops the indexes of results, and makes them: sorted once behind many runs they take a fraction of what row by row
 * takes, as each run has rows on most of their pages. Inside a transaction of the caller. */
KG_WARN_UNUSED enum kg_status kg_history_unindex_results(struct kg_history *history, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_history_index_results(struct kg_history *history, struct kg_error *err);

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
