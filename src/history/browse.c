#include "history/browse.h"
#include "base/buffer.h"
#include "base/size.h"
#include "history/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *value_of(const struct kg_cell *cell) {
    json_t *value = NULL;
    switch (cell->kind) {
    case KG_CELL_INT: value = json_integer(cell->integer); break;
    case KG_CELL_REAL: value = json_real(cell->real); break;
    case KG_CELL_TEXT: value = json_stringn(cell->text, cell->size_bytes); break;
    case KG_CELL_NULL:
    case KG_CELL_BLOB: break;
    }
    return value ? value : json_null();
}

static bool add_row(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    if (!cells) return true;
    json_t *row = json_object();
    for (size_t i = 0; i < n_columns; i++) json_object_set_new(row, names[i], value_of(&cells[i]));
    json_array_append_new(arg, row);
    return true;
}

static enum kg_status ask(struct kg_history *history, const struct kg_sql *sql, const char *const *args, size_t n_args,
                          json_t **rows, struct kg_error *err) {
    const struct kg_query_limits limits = { .seconds = KG_BROWSE_SECONDS,
                                            .memory_bytes = (uint64_t)KG_BROWSE_MEMORY_MIB << 20 };
    json_t *list = json_array();
    const enum kg_status status = kg_history_ask_within(history, &limits, sql, args, n_args, add_row, list, err);
    if (status == KG_OK) *rows = list;
    else json_decref(list);
    return status;
}

/* A number as an argument. */
struct digits {
    char text[24];
};
static struct digits digits_of(int64_t n) {
    struct digits digits;
    snprintf(digits.text, sizeof digits.text, "%lld", (long long)n);
    return digits;
}

/* LIKE's pattern of a plain text, with ESCAPE '\'; "" for NULL and "", which asks for anything. */
static char *like_of(const char *before, const char *text, const char *after) {
    struct kg_buffer out = KG_BUFFER_INIT;
    if (!text || !*text) return kg_xstrdup("");
    kg_buffer_puts(&out, before);
    for (const char *s = text; *s; s++) {
        if (strchr("%_\\", *s)) kg_buffer_puts(&out, "\\");
        kg_buffer_append(&out, s, 1);
    }
    kg_buffer_puts(&out, after);
    return out.data;
}

#define RUN_COLUMNS                                                                                                    \
    "b.bundle_id, b.verdict, b.state, b.started_us, b.sealed_us, b.n_planned, b.n_pass, b.n_fail, b.n_skip,"           \
    " b.n_crash + b.n_timeout + b.n_norun AS n_lost, b.git_commit, b.git_branch, b.git_dirty,"                         \
    " coalesce(e.gpu_name, e.cpu_model, '') AS machine"
#define FROM_RUNS " FROM bundle b LEFT JOIN env e ON e.env_id = b.env_id"
/* Of a fleet. */
#define RUNNER_OF_RUN " LEFT JOIN runner w ON w.runner_no = b.runner_no"
#define NEWEST_FIRST(order) " ORDER BY b.started_us DESC, b.bundle_id" order " DESC"
#define NUMBER(argument) "CAST(" argument " AS BIGINT)"
#define MOST(argument) " LIMIT " NUMBER(argument)
#define RANGE(first, second) " LIMIT " NUMBER(first) " OFFSET " NUMBER(second)
/* Letters of either case, as far as ASCII goes in both languages. */
#define LOWER(text, order) "lower((" text ")" order ")"
#define LIKE(text, pattern, order) LOWER(text, order) " LIKE " LOWER(pattern, order) " ESCAPE '\\'"
/* Errors have a figure of that name beside them: error / limit. */
#define MARGIN(of_result)                                                                                              \
    "(SELECT max(m.value) FROM metric_row m WHERE " of_result " AND m.figure_id IN"                                    \
    " (SELECT f.figure_id FROM figure_name f WHERE f.name LIKE '%.margin')) AS margin"

enum kg_status kg_browse_runs(struct kg_history *history, const struct kg_browse_runs *wanted,
                              struct kg_browse_range range, json_t **rows, struct kg_error *err) {
#define RUNS(order, runner, joins, is_runner)                                                                          \
    "SELECT " RUN_COLUMNS ", " runner " AS runner" FROM_RUNS joins " WHERE (?1 = '' OR " LIKE(                         \
        "coalesce(e.gpu_name, '') || ' ' || coalesce(e.cpu_model, '')", "?1",                                          \
        order) ")"                                                                                                     \
               " AND (?2 = '' OR b.git_branch = ?2) AND (?3 = '' OR " LIKE(                                            \
                   "b.git_commit", "?3", order) ")"                                                                    \
                                                " AND (?4 = '' OR b.verdict = ?4) AND (?7 = '' OR " is_runner          \
                                                ")" NEWEST_FIRST(order) RANGE("?5", "?6")
    static const struct kg_sql SQL = { RUNS("", "NULL", "", "1 = 0"),
                                       RUNS(" COLLATE \"C\"", "w.name", RUNNER_OF_RUN, "w.name = ?7") };
    char *machine = like_of("%", wanted->machine, "%"), *commit = like_of("", wanted->commit, "%");
    const struct digits most = digits_of((int64_t)range.n_most), before = digits_of((int64_t)range.n_before);
    const char *const args[] = {
        machine,     wanted->branch ? wanted->branch : "", commit, wanted->verdict ? wanted->verdict : "", most.text,
        before.text, wanted->runner ? wanted->runner : ""
    };
    const enum kg_status status = ask(history, &SQL, args, KG_COUNT_OF(args), rows, err);
    free(commit);
    free(machine);
    return status;
}

/* The one row of an answer. */
static enum kg_status only(enum kg_status status, json_t *rows, json_t **row, const char *what, const char *name,
                           struct kg_error *err) {
    if (status != KG_OK) return status;
    *row = json_incref(json_array_get(rows, 0));
    json_decref(rows);
    return *row ? KG_OK : kg_fail(err, KG_ERR_NOT_FOUND, "there is no %s '%.80s'", what, name);
}

enum kg_status kg_browse_run(struct kg_history *history, const char *bundle_id, json_t **run, struct kg_error *err) {
#define RUN(runner, joins)                                                                                             \
    "SELECT " RUN_COLUMNS ", b.bundle_no, b.seed, b.manifest_sha256, b.sig_state, e.gpu_name, e.gpu_driver,"           \
    " e.cuda_runtime, e.cpu_model, e.n_cpus, e.os, e.kernel, c.compiler, c.cflags, " runner " AS runner" FROM_RUNS     \
    " LEFT JOIN build c ON c.build_id = b.build_id" joins " WHERE b.bundle_id = ?1"
    static const struct kg_sql SQL = { RUN("NULL", ""), RUN("w.name", RUNNER_OF_RUN) };
    json_t *rows = NULL;
    const enum kg_status status = ask(history, &SQL, &bundle_id, 1, &rows, err);
    return only(status, rows, run, "run", bundle_id, err);
}

/* The text of the first row's only column; NULL without a row. */
static enum kg_status text_of(enum kg_status status, json_t *rows, const char *column, char **text) {
    if (status != KG_OK) return status;
    const char *value = json_string_value(json_object_get(json_array_get(rows, 0), column));
    *text = value ? kg_xstrdup(value) : NULL;
    json_decref(rows);
    return KG_OK;
}

enum kg_status kg_browse_run_before(struct kg_history *history, const char *bundle_id, char **before,
                                    struct kg_error *err) {
#define RUN_BEFORE(order, of_run, of_case, of_result, digest)                                                          \
    "SELECT b.bundle_id FROM bundle b JOIN bundle a ON a.comparison_key = b.comparison_key WHERE a.bundle_id = ?1"     \
    " AND (b.started_us < a.started_us OR (b.started_us = a.started_us AND b.bundle_id" order                          \
    " < a.bundle_id))" NEWEST_FIRST(order) " LIMIT 1"
    static const struct kg_sql SQL = KG_SQL_BOTH(RUN_BEFORE);
    json_t *rows = NULL;
    const enum kg_status status = ask(history, &SQL, &bundle_id, 1, &rows, err);
    return text_of(status, rows, "bundle_id", before);
}

#define OF_RUN(of_run) " FROM bundle b JOIN " of_run " JOIN tcase c ON c.case_id = r.case_id WHERE b.bundle_id = ?1"
#define COUNT_OF(condition) "sum(CASE WHEN r.status " condition " THEN 1 ELSE 0 END)"

enum kg_status kg_browse_groups(struct kg_history *history, const char *bundle_id, json_t **rows,
                                struct kg_error *err) {
#define GROUPS(order, of_run, of_case, of_result, digest)                                                              \
    "SELECT c.layer, c.op, count(*) AS n, " COUNT_OF("= 'pass'") " AS n_pass, " COUNT_OF(                              \
        "= 'skip'") " AS n_skip, " COUNT_OF("NOT IN ('pass', 'skip')") " AS n_red, sum(r.duration_ns) AS "             \
                                                                       "duration_ns" OF_RUN(of_run) " GROUP BY "       \
                                                                                                    "c.layer, c.op "   \
                                                                                                    "ORDER BY "        \
                                                                                                    "c.layer" order    \
                                                                                                    ", c.op" order
    static const struct kg_sql SQL = KG_SQL_BOTH(GROUPS);
    return ask(history, &SQL, &bundle_id, 1, rows, err);
}

enum kg_status kg_browse_skips(struct kg_history *history, const char *bundle_id, size_t n_most, json_t **rows,
                               struct kg_error *err) {
#define SKIPS(order, of_run, of_case, of_result, digest)                                                               \
    "SELECT coalesce(r.reason, '') AS reason, count(*) AS n, min(c.case_key" order ") AS case_key" OF_RUN(             \
        of_run) " AND r.status = 'skip' GROUP BY coalesce(r.reason, '') ORDER BY 2 DESC, coalesce(r.reason, '')" order \
        MOST("?2")
    static const struct kg_sql SQL = KG_SQL_BOTH(SKIPS);
    const struct digits most = digits_of((int64_t)n_most);
    const char *const args[] = { bundle_id, most.text };
    return ask(history, &SQL, args, KG_COUNT_OF(args), rows, err);
}

enum kg_status kg_browse_cases(struct kg_history *history, const char *bundle_id, const struct kg_browse_cases *wanted,
                               struct kg_browse_range range, json_t **rows, struct kg_error *err) {
#define CASES(order, of_run, of_case, of_result, digest)                                                               \
    "SELECT c.case_id, c.case_key, r.status, r.reason, r.duration_ns, " MARGIN(of_result)                              \
        OF_RUN(of_run) " AND (?2 = '0' OR c.layer = ?3) AND (?4 = '0' OR c.op = ?5) AND (?6 = '' OR r.status = ?6 OR"  \
                       " (?6 = 'red' AND r.status NOT IN ('pass', 'skip'))) ORDER BY c.case_key" order                 \
                       ", c.case_id" RANGE("?7", "?8")
    static const struct kg_sql SQL = KG_SQL_BOTH(CASES);
    const struct digits most = digits_of((int64_t)range.n_most), before = digits_of((int64_t)range.n_before);
    const char *const args[] = { bundle_id,
                                 wanted->layer ? "1" : "0",
                                 wanted->layer ? wanted->layer : "",
                                 wanted->op ? "1" : "0",
                                 wanted->op ? wanted->op : "",
                                 wanted->status ? wanted->status : "",
                                 most.text,
                                 before.text };
    return ask(history, &SQL, args, KG_COUNT_OF(args), rows, err);
}

enum kg_status kg_browse_key(struct kg_history *history, int64_t case_id, char **key, struct kg_error *err) {
    static const char SQL[] = "SELECT c.case_key FROM tcase c WHERE c.case_id = " NUMBER("?1");
    const struct digits id = digits_of(case_id);
    const char *const args[] = { id.text };
    json_t *rows = NULL;
    enum kg_status status = ask(history, &(struct kg_sql){ SQL, SQL }, args, 1, &rows, err);
    status = text_of(status, rows, "case_key", key);
    return status == KG_OK && !*key ? kg_fail(err, KG_ERR_NOT_FOUND, "there is no case '%s'", id.text) : status;
}

#define OF_CASE(of_case) " FROM tcase c JOIN result_row r ON r.case_id = c.case_id JOIN bundle b ON " of_case
#define HAS_KEY(key, digest) digest "(c.case_key) = " digest "(" key ") AND c.case_key = " key
#define FIGURES_OF(of_result) " JOIN metric_row m ON " of_result " JOIN figure_name f ON f.figure_id = m.figure_id"

enum kg_status kg_browse_case(struct kg_history *history, const char *key, struct kg_browse_range range, json_t **rows,
                              struct kg_error *err) {
#define CASE(order, of_run, of_case, of_result, digest)                                                                \
    "SELECT b.bundle_id, b.started_us, b.git_commit, coalesce(e.gpu_name, e.cpu_model, '') AS machine, c.def_sha,"     \
    " r.status, r.reason, r.duration_ns, " MARGIN(of_result)                                                           \
        OF_CASE(of_case) " LEFT JOIN env e ON e.env_id = b.env_id WHERE " HAS_KEY("?1", digest) NEWEST_FIRST(order)    \
            RANGE("?2", "?3")
    static const struct kg_sql SQL = KG_SQL_BOTH(CASE);
    const struct digits most = digits_of((int64_t)range.n_most), before = digits_of((int64_t)range.n_before);
    const char *const args[] = { key, most.text, before.text };
    return ask(history, &SQL, args, KG_COUNT_OF(args), rows, err);
}

enum kg_status kg_browse_figures(struct kg_history *history, const char *bundle_id, const char *key, json_t **rows,
                                 struct kg_error *err) {
    enum { MOST_FIGURES = 500 };
#define FIGURES(order, of_run, of_case, of_result, digest)                                                             \
    "SELECT f.name, f.unit, m.value, m.tol, m.n, m.mad, m.ci_lo, m.ci_hi, m.valid" OF_CASE(of_case) FIGURES_OF(        \
        of_result) " WHERE b.bundle_id = ?1 AND " HAS_KEY("?2", digest) " ORDER BY r.result_id, m.seq" MOST("?3")
    static const struct kg_sql SQL = KG_SQL_BOTH(FIGURES);
    const struct digits most = digits_of(MOST_FIGURES);
    const char *const args[] = { bundle_id, key, most.text };
    return ask(history, &SQL, args, KG_COUNT_OF(args), rows, err);
}

enum kg_status kg_browse_timings(struct kg_history *history, const char *key, size_t n_runs, json_t **rows,
                                 struct kg_error *err) {
#define TIMINGS(order, of_run, of_case, of_result, digest)                                                             \
    "SELECT f.name, f.unit, b.bundle_id, m.value" OF_CASE(of_case) FIGURES_OF(of_result) " WHERE " HAS_KEY(            \
        "?1", digest) " AND m.mad IS NOT NULL AND m.valid <> 0 AND m.value IS NOT NULL AND b.bundle_no IN"             \
                      " (SELECT b.bundle_no" OF_CASE(of_case) " WHERE " HAS_KEY("?1", digest) NEWEST_FIRST(order)      \
                          MOST("?2") ")"                                                                               \
                                     " ORDER BY f.name" order ", f.unit" order ", b.started_us, b.bundle_id" order     \
                                     ", m.seq"
    static const struct kg_sql SQL = KG_SQL_BOTH(TIMINGS);
    const struct digits most = digits_of((int64_t)n_runs);
    const char *const args[] = { key, most.text };
    return ask(history, &SQL, args, KG_COUNT_OF(args), rows, err);
}

enum kg_status kg_browse_find_runs(struct kg_history *history, const char *text, size_t n_most, json_t **rows,
                                   struct kg_error *err) {
#define FOUND_RUNS(order, of_run, of_case, of_result, digest)                                                          \
    "SELECT " RUN_COLUMNS FROM_RUNS " WHERE " LIKE("b.bundle_id", "?1", order) " OR " LIKE(                            \
        "b.git_commit", "?1", order) " OR " LIKE("coalesce(b.git_branch, '')", "?1", order) NEWEST_FIRST(order)        \
        MOST("?2")
    static const struct kg_sql SQL = KG_SQL_BOTH(FOUND_RUNS);
    char *like = like_of("", text, "%");
    const struct digits most = digits_of((int64_t)n_most);
    const char *const args[] = { like, most.text };
    const enum kg_status status = ask(history, &SQL, args, KG_COUNT_OF(args), rows, err);
    free(like);
    return status;
}

enum kg_status kg_browse_find_cases(struct kg_history *history, const char *text, size_t n_most, json_t **rows,
                                    struct kg_error *err) {
#define FOUND_CASES(order, of_run, of_case, of_result, digest)                                                         \
    "SELECT max(c.case_id) AS case_id, c.case_key FROM tcase c WHERE " LIKE(                                           \
        "c.case_key", "?1", order) " GROUP BY c.case_key ORDER BY c.case_key" order MOST("?2")
    static const struct kg_sql SQL = KG_SQL_BOTH(FOUND_CASES);
    char *like = like_of("%", text, "%");
    const struct digits most = digits_of((int64_t)n_most);
    const char *const args[] = { like, most.text };
    const enum kg_status status = ask(history, &SQL, args, KG_COUNT_OF(args), rows, err);
    free(like);
    return status;
}

enum kg_status kg_browse_annotations(struct kg_history *history, size_t n_most, json_t **rows, struct kg_error *err) {
#define ANNOTATIONS(order, of_run, of_case, of_result, digest)                                                         \
    "SELECT a.kind, a.bundle_id, a.case_key, a.until_us, a.utc_us, a.author, a.text FROM annotation a"                 \
    " WHERE a.kind NOT IN ('confirm', 'selfcheck') ORDER BY a.utc_us DESC, a.annotation_id" order " DESC" MOST("?1")
    static const struct kg_sql SQL = KG_SQL_BOTH(ANNOTATIONS);
    const struct digits most = digits_of((int64_t)n_most);
    const char *const args[] = { most.text };
    return ask(history, &SQL, args, 1, rows, err);
}

enum kg_status kg_browse_newest(struct kg_history *history, size_t n_most, json_t **rows, struct kg_error *err) {
#define NEWEST(order, of_run, of_case, of_result, digest)                                                              \
    "SELECT " RUN_COLUMNS FROM_RUNS " WHERE b.state = 'complete' AND NOT EXISTS (SELECT 1 FROM bundle d WHERE"         \
    " d.comparison_key = b.comparison_key AND d.state = 'complete' AND (d.started_us > b.started_us OR"                \
    " (d.started_us = b.started_us AND d.bundle_id" order " > b.bundle_id)))" NEWEST_FIRST(order) MOST("?1")
    static const struct kg_sql SQL = KG_SQL_BOTH(NEWEST);
    const struct digits most = digits_of((int64_t)n_most);
    const char *const args[] = { most.text };
    return ask(history, &SQL, args, 1, rows, err);
}

enum kg_status kg_browse_load(struct kg_history *history, const char *bundle_id, const struct kg_catalogue *catalogue,
                              struct kg_run *run, struct kg_error *err) {
    json_t *row = NULL;
    enum kg_status status = kg_browse_run(history, bundle_id, &row, err);
    if (status != KG_OK) return status;
    status = kg_run_load(history, json_integer_value(json_object_get(row, "bundle_no")), catalogue, run, err);
    json_decref(row);
    return status;
}
