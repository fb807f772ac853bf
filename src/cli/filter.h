/* Which runs and cases a verb over the history speaks of. */
#ifndef KIGO_CLI_FILTER_H
#define KIGO_CLI_FILTER_H

#include "cli/bundles.h"
#include "history/run.h"
#include "history/store.h"

struct kg_filter {
    const char *layer, *op, *dtype, *shape, *backend; /* patterns; NULL: any */
    const char *commits;                              /* A..B, as git rev-list takes it */
    const char *machine;                              /* part of the GPU's or CPU's name */
    const char *repository;
};

/* Rows of a table of options. */
#define KG_FILTER_OPTION(variable, name_, metavar_, help_)                                                             \
    { .name = name_, .kind = KG_OPTION_TEXT, .value = (variable), .metavar = metavar_, .help = help_ }
#define KG_FILTER_OPTIONS(f)                                                                                           \
    KG_FILTER_OPTION(&(f)->layer, "layer", "PATTERN", "only cases of this layer (* matches any text)"),                \
        KG_FILTER_OPTION(&(f)->op, "op", "PATTERN", "only cases of this operation"),                                   \
        KG_FILTER_OPTION(&(f)->dtype, "dtype", "PATTERN", "only cases of this precision"),                             \
        KG_FILTER_OPTION(&(f)->shape, "shape", "PATTERN", "only cases of this shape"),                                 \
        KG_FILTER_OPTION(&(f)->backend, "backend", "PATTERN", "only cases of this back end"),                          \
        KG_FILTER_OPTION(&(f)->commits, "commits", "A..B", "only runs of these commits, as git rev-list lists them"),  \
        KG_FILTER_OPTION(&(f)->machine, "machine", "TEXT", "only runs on a GPU or CPU whose name holds this"),         \
        KG_FILTER_OPTION(&(f)->repository, "repo", "DIR", "git repository that knows the commits")
#define KG_LIMIT_OPTION(variable)                                                                                      \
    {                                                                                                                  \
        .name = "limit", .letter = 'n', .kind = KG_OPTION_INT, .value = (variable), .metavar = "N",                    \
        .help = "only the newest N", .min = 1, .max = 1e9                                                              \
    }

/* The filter as arguments of SQL: ?1 to ?5 are patterns for tcase c, ?6 commits for bundle b, a line each, ?7 a
 * machine for env e; NULL where anything is wanted. A statement's own arguments begin at ?8. */
enum { KG_FILTER_ARGS = 7 };
#define KG_FILTER_CASE_SQL                                                                                             \
    "(?1 IS NULL OR c.layer GLOB ?1) AND (?2 IS NULL OR c.op GLOB ?2) AND (?3 IS NULL OR c.dtype GLOB ?3) AND"         \
    " (?4 IS NULL OR c.shape GLOB ?4) AND (?5 IS NULL OR c.backend GLOB ?5)"
#define KG_FILTER_RUN_SQL                                                                                              \
    "(?6 IS NULL OR instr(?6, b.git_commit) > 0) AND (?7 IS NULL OR"                                                   \
    " instr(lower(coalesce(e.gpu_name, '') || ' ' || coalesce(e.cpu_model, '')), lower(?7)) > 0)"

/* The same for PostgreSQL (history/store.h). */
#define KG_FILTER_LIKE(n, column) "(?" n " IS NULL OR " column " LIKE " KG_POSTGRES_LIKE("?" n) ")"
#define KG_FILTER_CASE_POSTGRES                                                                                        \
    KG_FILTER_LIKE("1", "c.layer")                                                                                     \
    " AND " KG_FILTER_LIKE("2", "c.op") " AND " KG_FILTER_LIKE("3", "c.dtype") " AND " KG_FILTER_LIKE(                 \
        "4", "c.shape") " AND " KG_FILTER_LIKE("5", "c.backend")
#define KG_FILTER_RUN_POSTGRES                                                                                         \
    "(?6 IS NULL OR strpos(?6, b.git_commit) > 0) AND (?7 IS NULL OR"                                                  \
    " strpos(lower(coalesce(e.gpu_name, '') || ' ' || coalesce(e.cpu_model, '') COLLATE \"C\"),"                       \
    " lower(?7 COLLATE \"C\")) > 0)"

/* Runs that the filter takes, newest first: those that hold a case which it takes, if it chooses cases (?9 not NULL),
 * the first ?8 of them; columns are of bundle b and env e. Arguments: kg_filter_bind_runs. */
#define KG_FILTER_RUNS_SQLITE(columns)                                                                                 \
    "SELECT " columns " FROM bundle b LEFT JOIN env e USING(env_id) WHERE " KG_FILTER_RUN_SQL                          \
    " AND (?9 IS NULL OR EXISTS (SELECT 1 FROM result_row r JOIN tcase c USING(case_id)"                               \
    " WHERE r.bundle_no = b.bundle_no AND " KG_FILTER_CASE_SQL "))"                                                    \
    " ORDER BY b.started_us DESC, b.bundle_id DESC LIMIT CAST(?8 AS BIGINT)"
#define KG_FILTER_RUNS_POSTGRES(columns)                                                                               \
    "SELECT " columns " FROM bundle b LEFT JOIN env e USING(env_id) WHERE " KG_FILTER_RUN_POSTGRES                     \
    " AND (?9 IS NULL OR EXISTS (SELECT 1 FROM result_row r JOIN tcase c USING(case_id)"                               \
    " WHERE r.result_id BETWEEN b.bundle_no << 20 AND (b.bundle_no << 20) + 1048575 AND r.runner_no = b.runner_no"     \
    " AND r.month = b.month AND " KG_FILTER_CASE_POSTGRES "))"                                                         \
    " ORDER BY b.started_us DESC, b.bundle_id COLLATE \"C\" DESC LIMIT CAST(?8 AS BIGINT)"
enum { KG_FILTER_RUNS_ARGS = KG_FILTER_ARGS + 2 };

struct kg_filter_args {
    const char *values[KG_FILTER_ARGS + 4]; /* room for the statement's own */
    char *owned[KG_FILTER_ARGS + 4];
};
KG_WARN_UNUSED enum kg_status kg_filter_bind(const struct kg_filter *filter, const char *root,
                                             struct kg_filter_args *args, struct kg_error *err);
/* The same for the two statements above. */
KG_WARN_UNUSED enum kg_status kg_filter_bind_runs(const struct kg_filter *filter, const char *root, int64_t limit,
                                                  struct kg_filter_args *args, struct kg_error *err);
void kg_filter_args_free(struct kg_filter_args *args);

bool kg_filter_has_case(const struct kg_filter *filter); /* whether any case is left out */
bool kg_filter_is_set(const struct kg_filter *filter);   /* whether any case or run is */
/* Whether a plan line's case is wanted; or one of the index, whose key also matches a pattern (NULL: any). */
bool kg_filter_takes(const struct kg_filter *filter, const json_t *plan);

bool kg_filter_takes_case(const struct kg_filter *filter, const char *case_pattern, const struct kg_case_info *c);

/* As kg_cli_bundle_find; 'latest' is the latest run of the commits and machine wanted, and any other must be of them.
 */
KG_WARN_UNUSED enum kg_status kg_filter_find(const char *verb, const struct kg_filter *filter, const char *root,
                                             const char *run, char **dir, struct kg_error *err);

/* The same of an open fleet: the run's id, malloc'ed. */
KG_WARN_UNUSED enum kg_status kg_filter_find_in(struct kg_history *fleet, const struct kg_filter *filter,
                                                const char *run, char **id, struct kg_error *err);

/* A pattern in which only * and ? mean something, as SQLite's GLOB takes it. malloc'ed; NULL for NULL. */
char *kg_glob_of(const char *pattern);

#endif
