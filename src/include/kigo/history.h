/* The history: an SQLite index over the bundles of a root folder, at <root>/index.sqlite.
 *
 * The folders are the truth. The index is brought up to date whenever it is opened, may be deleted at any time, and is
 * the same, dump for dump, whether it grew run by run or was rebuilt at once: every id in it is a natural key or a
 * hash.
 *
 * bundle(bundle_id, path, state, verdict, exit_code, started_us, sealed_us, git_commit, git_branch, git_dirty,
 *        content_sha256, env_id, build_id, seed, n_planned, n_pass, n_fail, n_skip, n_crash, n_timeout, n_norun,
 *        overhead_share, manifest_sha256, sig_state, bundle_no, comparison_key)
 * env(env_id, ...)  build(build_id, ...)
 * tcase(case_id, case_key, suite, layer, op, name, backend, dtype, shape, spec, def_sha)
 * result(result_id, bundle_id, case_id, status, reason, seed, started_us, duration_ns)
 * metric(result_id, seq, name, unit, value, tol, n, median, mad, ci_lo, ci_hi, valid)
 *   of an error figure: name "<comparison>.max_abs" (or nmse, one_minus_cos, mixed), value and its tolerance; and
 *   "<comparison>.margin"; of a timing: "<name>.<kind>.<state>", unit ns, value = median; of memory: "<tag>.peak" and
 *   "<tag>.left"; of any other: its own name. valid is 0 where a number was not finite or a timing was discarded.
 * annotation(annotation_id, kind, bundle_id, case_key, until_us, utc_us, author, text): the files of <root>/annotations
 * result and metric are views over result_row, metric_row and figure, which hold ids in the place of names. */
#ifndef KIGO_HISTORY_H
#define KIGO_HISTORY_H

#include <kigo/bundle.h>
#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For one thread at a time. */
struct kg_history;

/* Opens the index of a root, made or migrated as needed, and brings it up to date with the folders: bundles it lacks
 * are added, those whose folder is gone are dropped. Bundles that cannot be read are added to problems (may be NULL) as
 * findings whose path is the bundle's id. Where the root cannot be written, the index is built in memory.
 * KG_ERR_SCHEMA if it was written by a newer kigo, KG_ERR_NOT_FOUND without the folder. */
KG_WARN_UNUSED enum kg_status kg_history_open(const char *root, struct kg_history **history,
                                              struct kg_bundle_findings *problems, struct kg_error *err);
void kg_history_close(struct kg_history *history);

/* Adds one published bundle; one that is there already is good. */
KG_WARN_UNUSED enum kg_status kg_history_add(const char *root, const char *bundle_id, struct kg_error *err);

/* Says in the index that a bundle has a signature, if the bundle is in it. */
KG_WARN_UNUSED enum kg_status kg_history_note_signature(const char *root, const char *bundle_id, struct kg_error *err);

/* Empties the index and fills it again from the folders, in one transaction; *n_indexed counts bundles. An index file
 * that is not a database is replaced. */
KG_WARN_UNUSED enum kg_status kg_history_reindex(const char *root, size_t *n_indexed,
                                                 struct kg_bundle_findings *problems, struct kg_error *err);

/* A cell of a query's row; text is not NUL-terminated by its length alone: `size_bytes` counts. */
enum kg_cell_kind { KG_CELL_NULL, KG_CELL_INT, KG_CELL_REAL, KG_CELL_TEXT, KG_CELL_BLOB };
struct kg_cell {
    enum kg_cell_kind kind;
    int64_t integer;
    double real;
    const char *text; /* of TEXT and BLOB; valid during the call back */
    size_t size_bytes;
};

/* Called once with cells NULL (column names only), then for each row; false ends the query. */
typedef bool kg_row_fn(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells);

/* Runs one SQL statement that only reads. KG_ERR_USAGE for anything that could write, for several statements, and for
 * SQL that SQLite does not accept. args (may be NULL) are bound as text to ?1, ?2, ... */
KG_WARN_UNUSED enum kg_status kg_history_query(struct kg_history *history, const char *sql, const char *const *args,
                                               size_t n_args, kg_row_fn *row, void *arg, struct kg_error *err);

#endif
