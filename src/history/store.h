/* Where a history's rows lie, and how they are asked for: the index of a folder (SQLite, query.c), or a fleet
 * (PostgreSQL, fleet/store.c). Both have the same tables, columns and values; who asks sees one function.
 *
 * Arguments are ?1, ?2, ... in both languages, and bound as text. Comparing one with a number takes a CAST. What
 * differs between the two:
 *
 *   SQLite                  PostgreSQL
 *   text is ordered by bytes   by the database's collation: COLLATE "C"
 *   GLOB                    KG_POSTGRES_LIKE
 *   instr, printf           strpos, to_char
 *   a row belongs to a run by bundle_no, or the upper bits of result_id; a fleet's by runner_no and month, too: a
 *   runner's rows count for its own runs alone. */
#ifndef KIGO_HISTORY_STORE_H
#define KIGO_HISTORY_STORE_H

#include <kigo/history.h>

/* One question in both languages; the same columns, types, rows and order. */
struct kg_sql {
    const char *sqlite, *postgres;
};

/* A pattern of GLOB with *, ? and [[] only (kg_glob_of), as LIKE takes it. */
#define KG_POSTGRES_LIKE(glob)                                                                                         \
    "replace(replace(replace(replace(replace(replace(" glob                                                            \
    ", '[[]', '['), '\\', '\\\\'), '%', '\\%'), '_', '\\_'), '*', '%'), '?', '_')"

/* Results r of run b of a fleet, to be joined. A subquery that cannot be merged: else the planner may read whole
 * partitions and join them by runner and month, as it takes a range of numbers for many. */
#define KG_POSTGRES_RESULTS                                                                                            \
    "LATERAL (SELECT * FROM result_row s WHERE s.result_id BETWEEN b.bundle_no << 20 AND (b.bundle_no << 20) + "       \
    "1048575"                                                                                                          \
    " AND s.runner_no = b.runner_no AND s.month = b.month OFFSET 0) r ON TRUE"
/* What differs in statements over the runs' rows, as arguments of a macro that writes the statement once: how text is
 * ordered, what joins results r of run b, which runs b are those of results r, which figures m those of r, and of what
 * long text the table's index is made. */
#define KG_SQLITE_WORDS                                                                                                \
    "", "result_row r ON r.bundle_no = b.bundle_no", "r.bundle_no = b.bundle_no", "m.result_id = r.result_id", ""
#define KG_POSTGRES_WORDS                                                                                              \
    " COLLATE \"C\"", KG_POSTGRES_RESULTS,                                                                             \
        "r.bundle_no = b.bundle_no AND r.runner_no = b.runner_no AND r.month = b.month",                               \
        "m.result_id = r.result_id AND m.runner_no = r.runner_no AND m.month = r.month", "md5"
/* A struct kg_sql of STATEMENT(order, of_run, of_case, of_result, digest), a macro. */
#define KG_SQL_CALL(statement, ...) statement(__VA_ARGS__)
#define KG_SQL_BOTH(statement)                                                                                         \
    { KG_SQL_CALL(statement, KG_SQLITE_WORDS), KG_SQL_CALL(statement, KG_POSTGRES_WORDS) }

/* A store that is no file of SQLite. */
struct kg_store {
    /* As kg_history_query_within. */
    enum kg_status (*query)(void *place, const struct kg_query_limits *limits, const char *sql, const char *const *args,
                            size_t n_args, kg_row_fn *row, void *arg, struct kg_error *err);
    /* Sees to it that <root>/<id> is the bundle of each of these runs, with the tag manifest that the store has, not
     * verified; and where a run claims to be sealed long before the one that it follows, that one too. KG_ERR_NOT_FOUND
     * for a run that the store does not have, KG_ERR_INTEGRITY for one without an archive. *any_new: set where a folder
     * was not there. */
    enum kg_status (*bring)(void *place, const char *root, const char *const *ids, size_t n_ids, bool *any_new,
                            struct kg_error *err);
    /* One statement that changes rows, with $1, $2, ... as text, in a transaction: *n_rows of them. */
    enum kg_status (*change)(void *place, const char *sql, const char *const *args, size_t n_args, int64_t *n_rows,
                             struct kg_error *err);
    void (*close)(void *place);
};

/* A history of another store; kg_history_close closes its place, too. where: what messages call it. */
struct kg_history *kg_history_of_store(const struct kg_store *store, void *place, const char *where);

/* Whether it is a store of that kind, and no folder. */
bool kg_history_is_store(const struct kg_history *history);
/* The folder of bundles; or what messages call the store. */
const char *kg_history_where(const struct kg_history *history);

/* As kg_history_query, and kg_history_query_within. */
KG_WARN_UNUSED enum kg_status kg_history_ask(struct kg_history *history, const struct kg_sql *sql,
                                             const char *const *args, size_t n_args, kg_row_fn *row, void *arg,
                                             struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_history_ask_within(struct kg_history *history, const struct kg_query_limits *limits,
                                                    const struct kg_sql *sql, const char *const *args, size_t n_args,
                                                    kg_row_fn *row, void *arg, struct kg_error *err);

#endif
