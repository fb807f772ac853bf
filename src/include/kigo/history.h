/* The history: an SQLite index over the bundles of a root folder, at <root>/index.sqlite.
 *
 * The bundle folders are the source of truth. Opening the index brings it up to date with them, and it may be deleted
 * at any time. Its dump is the same whether it grew run by run or was rebuilt at once: every id is a natural key or a
 * hash.
 *
 * bundle(bundle_id, path, state, verdict, exit_code, started_us, sealed_us, git_commit, git_branch, git_dirty,
 *        content_sha256, env_id, build_id, seed, n_planned, n_pass, n_fail, n_skip, n_crash, n_timeout, n_norun,
 *        overhead_share, manifest_sha256, sig_state, bundle_no, comparison_key)
 * env(env_id, ...)  build(build_id, ...)
 * tcase(case_id, case_key, suite, layer, op, name, backend, dtype, shape, spec, def_sha)
 * result(result_id, bundle_id, case_id, status, reason, seed, started_us, duration_ns)
 * metric(result_id, seq, name, unit, value, tol, n, median, mad, ci_lo, ci_hi, valid)
 *   error figure: name "<comparison>.max_abs" (or nmse, one_minus_cos, mixed), value and its tolerance; and
 *     "<comparison>.margin"
 *   timing: name "<name>.<kind>.<state>", unit ns, value = median
 *   memory: name "<tag>.peak" and "<tag>.left"
 *   other metric: name as recorded
 *   valid is 0 if a number was not finite or a timing was discarded.
 * annotation(annotation_id, kind, bundle_id, case_key, until_us, utc_us, author, text): the files of <root>/annotations
 * result and metric are views over the tables result_row, metric_row and figure, which store ids instead of names. */
#ifndef KIGO_HISTORY_H
#define KIGO_HISTORY_H

#include <kigo/bundle.h>
#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open index; one thread at a time may use it. */
struct kg_history;

/* Opens the index of a root, creates or migrates it if needed, and brings it up to date: new bundles are added, deleted
 * ones are dropped, those whose manifest is another are read again. Rows are not verified (history/trust.h).
 * KG_ERR_FORMAT if the file's schema is not kigo's. Bundles that cannot be read become findings in `problems` (may be
 * NULL), with the bundle's id as path. If the file cannot be written (no permission, read only, disk or quota full),
 * the index is built in memory. KG_ERR_SCHEMA if a newer kigo wrote the index, KG_ERR_NOT_FOUND if the root does not
 * exist. */
KG_WARN_UNUSED enum kg_status kg_history_open(const char *root, struct kg_history **history,
                                              struct kg_bundle_findings *problems, struct kg_error *err);
void kg_history_close(struct kg_history *history);

/* Why the index is in memory and not in its file; NULL: it is in its file. */
const char *kg_history_why_in_memory(const struct kg_history *history);

/* Adds one published bundle. KG_OK if it is already in the index. */
KG_WARN_UNUSED enum kg_status kg_history_add(const char *root, const char *bundle_id, struct kg_error *err);

/* Records in the index that a bundle is signed; does nothing if the index does not have the bundle. */
KG_WARN_UNUSED enum kg_status kg_history_note_signature(const char *root, const char *bundle_id, struct kg_error *err);

/* Rebuilds the index from the folders, in one transaction; *n_indexed is the number of bundles. Whatever else the file
 * held, triggers and views too, is dropped, of whatever version it is. What is not a database is replaced.
 * KG_ERR_UNWRITABLE as above: the old index stays. */
KG_WARN_UNUSED enum kg_status kg_history_reindex(const char *root, size_t *n_indexed,
                                                 struct kg_bundle_findings *problems, struct kg_error *err);

/* A cell of a query's row. text may contain NUL: use size_bytes. */
enum kg_cell_kind { KG_CELL_NULL, KG_CELL_INT, KG_CELL_REAL, KG_CELL_TEXT, KG_CELL_BLOB };
struct kg_cell {
    enum kg_cell_kind kind;
    int64_t integer;
    double real;
    const char *text; /* TEXT and BLOB; valid during the callback */
    size_t size_bytes;
};

/* Called once with the column names and cells NULL, then for each row. Returns false to end the query. */
typedef bool kg_row_fn(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells);

/* Runs one read-only SQL statement. args (may be NULL) are bound as text to ?1, ?2, ... KG_ERR_USAGE for a statement
 * that could write or read anything but the index's own tables and views, for functions that load code or handle
 * pointers, for several statements, and for SQL that SQLite does not accept. */
KG_WARN_UNUSED enum kg_status kg_history_query(struct kg_history *history, const char *sql, const char *const *args,
                                               size_t n_args, kg_row_fn *row, void *arg, struct kg_error *err);

/* What a statement that somebody wrote may take. */
struct kg_query_limits {
    double seconds;
    uint64_t memory_bytes;                    /* of SQLite, in the whole process, beyond what it has at the call */
    bool (*stop)(void *user, double seconds); /* called again and again meanwhile; true ends the query; NULL: none */
    void *user;
};

/* The same within limits (NULL: none). KG_ERR_CANCELLED past the time or when stopped, KG_ERR_NO_MEMORY past the
 * memory. The answer is cut then: rows may have been given before. */
KG_WARN_UNUSED enum kg_status kg_history_query_within(struct kg_history *history, const struct kg_query_limits *limits,
                                                      const char *sql, const char *const *args, size_t n_args,
                                                      kg_row_fn *row, void *arg, struct kg_error *err);

#ifdef __cplusplus
}
#endif

#endif
