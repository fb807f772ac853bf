#include "history/browse.h"
#include "base/buffer.h"
#include "base/size.h"
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

static enum kg_status ask(struct kg_history *history, const char *sql, const char *const *args, size_t n_args,
                          json_t **rows, struct kg_error *err) {
    const struct kg_query_limits limits = { .seconds = KG_BROWSE_SECONDS,
                                            .memory_bytes = (uint64_t)KG_BROWSE_MEMORY_MIB << 20 };
    json_t *list = json_array();
    const enum kg_status status = kg_history_query_within(history, &limits, sql, args, n_args, add_row, list, err);
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
#define NEWEST_FIRST " ORDER BY b.started_us DESC, b.bundle_id DESC"
#define RANGE(first, second) " LIMIT CAST(" first " AS INTEGER) OFFSET CAST(" second " AS INTEGER)"
/* Errors have a figure of that name beside them: error / limit. */
#define MARGIN                                                                                                         \
    "(SELECT max(m.value) FROM metric_row m WHERE m.result_id = r.result_id AND m.figure_id IN"                        \
    " (SELECT f.figure_id FROM figure_name f WHERE f.name LIKE '%.margin')) AS margin"

enum kg_status kg_browse_runs(struct kg_history *history, const struct kg_browse_runs *wanted,
                              struct kg_browse_range range, json_t **rows, struct kg_error *err) {
    static const char SQL[] =
        "SELECT " RUN_COLUMNS FROM_RUNS
        " WHERE (?1 = '' OR lower(coalesce(e.gpu_name, '') || ' ' || coalesce(e.cpu_model, '')) LIKE lower(?1) ESCAPE "
        "'\\')"
        " AND (?2 = '' OR b.git_branch = ?2) AND (?3 = '' OR b.git_commit LIKE ?3 ESCAPE '\\')"
        " AND (?4 = '' OR b.verdict = ?4)" NEWEST_FIRST RANGE("?5", "?6");
    char *machine = like_of("%", wanted->machine, "%"), *commit = like_of("", wanted->commit, "%");
    const struct digits most = digits_of((int64_t)range.n_most), before = digits_of((int64_t)range.n_before);
    const char *const args[] = { machine,   wanted->branch ? wanted->branch : "",
                                 commit,    wanted->verdict ? wanted->verdict : "",
                                 most.text, before.text };
    const enum kg_status status = ask(history, SQL, args, KG_COUNT_OF(args), rows, err);
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
    static const char SQL[] =
        "SELECT " RUN_COLUMNS ", b.bundle_no, b.seed, b.manifest_sha256, b.sig_state, e.gpu_name, e.gpu_driver,"
        " e.cuda_runtime, e.cpu_model, e.n_cpus, e.os, e.kernel, c.compiler, c.cflags" FROM_RUNS
        " LEFT JOIN build c ON c.build_id = b.build_id WHERE b.bundle_id = ?1";
    json_t *rows = NULL;
    const enum kg_status status = ask(history, SQL, &bundle_id, 1, &rows, err);
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
    static const char SQL[] =
        "SELECT b.bundle_id FROM bundle b JOIN bundle a ON a.comparison_key = b.comparison_key WHERE a.bundle_id = ?1"
        " AND (b.started_us < a.started_us OR (b.started_us = a.started_us AND b.bundle_id < "
        "a.bundle_id))" NEWEST_FIRST " LIMIT 1";
    json_t *rows = NULL;
    const enum kg_status status = ask(history, SQL, &bundle_id, 1, &rows, err);
    return text_of(status, rows, "bundle_id", before);
}

#define OF_RUN                                                                                                         \
    " FROM bundle b JOIN result_row r ON r.bundle_no = b.bundle_no JOIN tcase c ON c.case_id = r.case_id"              \
    " WHERE b.bundle_id = ?1"
#define COUNT_OF(condition) "sum(CASE WHEN r.status " condition " THEN 1 ELSE 0 END)"

enum kg_status kg_browse_groups(struct kg_history *history, const char *bundle_id, json_t **rows,
                                struct kg_error *err) {
    static const char SQL[] = "SELECT c.layer, c.op, count(*) AS n, " COUNT_OF("= 'pass'") " AS n_pass, " COUNT_OF(
        "= 'skip'") " AS n_skip, " COUNT_OF("NOT IN ('pass', 'skip')") " AS n_red, sum(r.duration_ns) AS "
                                                                       "duration_ns" OF_RUN
                                                                       " GROUP BY c.layer, c.op ORDER BY c.layer, c.op";
    return ask(history, SQL, &bundle_id, 1, rows, err);
}

enum kg_status kg_browse_skips(struct kg_history *history, const char *bundle_id, size_t n_most, json_t **rows,
                               struct kg_error *err) {
    static const char SQL[] = "SELECT coalesce(r.reason, '') AS reason, count(*) AS n, min(c.case_key) AS "
                              "case_key" OF_RUN " AND r.status = 'skip' GROUP BY coalesce(r.reason, '') "
                              "ORDER BY 2 DESC, 1 LIMIT CAST(?2 AS INTEGER)";
    const struct digits most = digits_of((int64_t)n_most);
    const char *const args[] = { bundle_id, most.text };
    return ask(history, SQL, args, KG_COUNT_OF(args), rows, err);
}

enum kg_status kg_browse_cases(struct kg_history *history, const char *bundle_id, const struct kg_browse_cases *wanted,
                               struct kg_browse_range range, json_t **rows, struct kg_error *err) {
    static const char SQL[] =
        "SELECT c.case_id, c.case_key, r.status, r.reason, r.duration_ns, " MARGIN OF_RUN
        " AND (?2 = '0' OR c.layer = ?3) AND (?4 = '0' OR c.op = ?5) AND (?6 = '' OR r.status = ?6 OR"
        " (?6 = 'red' AND r.status NOT IN ('pass', 'skip'))) ORDER BY c.case_key, c.case_id" RANGE("?7", "?8");
    const struct digits most = digits_of((int64_t)range.n_most), before = digits_of((int64_t)range.n_before);
    const char *const args[] = { bundle_id,
                                 wanted->layer ? "1" : "0",
                                 wanted->layer ? wanted->layer : "",
                                 wanted->op ? "1" : "0",
                                 wanted->op ? wanted->op : "",
                                 wanted->status ? wanted->status : "",
                                 most.text,
                                 before.text };
    return ask(history, SQL, args, KG_COUNT_OF(args), rows, err);
}

enum kg_status kg_browse_key(struct kg_history *history, int64_t case_id, char **key, struct kg_error *err) {
    static const char SQL[] = "SELECT c.case_key FROM tcase c WHERE c.case_id = CAST(?1 AS INTEGER)";
    const struct digits id = digits_of(case_id);
    const char *const args[] = { id.text };
    json_t *rows = NULL;
    enum kg_status status = ask(history, SQL, args, 1, &rows, err);
    status = text_of(status, rows, "case_key", key);
    return status == KG_OK && !*key ? kg_fail(err, KG_ERR_NOT_FOUND, "there is no case '%s'", id.text) : status;
}

#define OF_CASE " FROM tcase c JOIN result_row r ON r.case_id = c.case_id JOIN bundle b ON b.bundle_no = r.bundle_no"

enum kg_status kg_browse_case(struct kg_history *history, const char *key, struct kg_browse_range range, json_t **rows,
                              struct kg_error *err) {
    static const char SQL[] =
        "SELECT b.bundle_id, b.started_us, b.git_commit, coalesce(e.gpu_name, e.cpu_model, '') AS machine, c.def_sha,"
        " r.status, r.reason, r.duration_ns, " MARGIN OF_CASE
        " LEFT JOIN env e ON e.env_id = b.env_id WHERE c.case_key = ?1" NEWEST_FIRST RANGE("?2", "?3");
    const struct digits most = digits_of((int64_t)range.n_most), before = digits_of((int64_t)range.n_before);
    const char *const args[] = { key, most.text, before.text };
    return ask(history, SQL, args, KG_COUNT_OF(args), rows, err);
}

enum kg_status kg_browse_figures(struct kg_history *history, const char *bundle_id, const char *key, json_t **rows,
                                 struct kg_error *err) {
    enum { MOST = 500 };
    static const char SQL[] =
        "SELECT f.name, f.unit, m.value, m.tol, m.n, m.mad, m.ci_lo, m.ci_hi, m.valid" OF_CASE
        " JOIN metric_row m ON m.result_id = r.result_id JOIN figure_name f ON f.figure_id = m.figure_id"
        " WHERE b.bundle_id = ?1 AND c.case_key = ?2 ORDER BY m.seq LIMIT CAST(?3 AS INTEGER)";
    const struct digits most = digits_of(MOST);
    const char *const args[] = { bundle_id, key, most.text };
    return ask(history, SQL, args, KG_COUNT_OF(args), rows, err);
}

enum kg_status kg_browse_timings(struct kg_history *history, const char *key, size_t n_runs, json_t **rows,
                                 struct kg_error *err) {
    static const char SQL[] =
        "SELECT f.name, f.unit, b.bundle_id, m.value" OF_CASE
        " JOIN metric_row m ON m.result_id = r.result_id JOIN figure_name f ON f.figure_id = m.figure_id"
        " WHERE c.case_key = ?1 AND m.mad IS NOT NULL AND m.valid <> 0 AND m.value IS NOT NULL AND b.bundle_no IN"
        " (SELECT b.bundle_no" OF_CASE " WHERE c.case_key = ?1" NEWEST_FIRST " LIMIT CAST(?2 AS INTEGER))"
        " ORDER BY f.name, f.unit, b.started_us, b.bundle_id, m.seq";
    const struct digits most = digits_of((int64_t)n_runs);
    const char *const args[] = { key, most.text };
    return ask(history, SQL, args, KG_COUNT_OF(args), rows, err);
}

enum kg_status kg_browse_find_runs(struct kg_history *history, const char *text, size_t n_most, json_t **rows,
                                   struct kg_error *err) {
    static const char SQL[] = "SELECT " RUN_COLUMNS FROM_RUNS " WHERE lower(b.bundle_id) LIKE lower(?1) ESCAPE '\\'"
                              " OR b.git_commit LIKE lower(?1) ESCAPE '\\' OR lower(coalesce(b.git_branch, '')) LIKE "
                              "lower(?1) ESCAPE '\\'" NEWEST_FIRST " LIMIT CAST(?2 AS INTEGER)";
    char *like = like_of("", text, "%");
    const struct digits most = digits_of((int64_t)n_most);
    const char *const args[] = { like, most.text };
    const enum kg_status status = ask(history, SQL, args, KG_COUNT_OF(args), rows, err);
    free(like);
    return status;
}

enum kg_status kg_browse_find_cases(struct kg_history *history, const char *text, size_t n_most, json_t **rows,
                                    struct kg_error *err) {
    static const char SQL[] = "SELECT max(c.case_id) AS case_id, c.case_key FROM tcase c WHERE lower(c.case_key) LIKE "
                              "lower(?1) ESCAPE '\\' GROUP BY c.case_key ORDER BY c.case_key LIMIT CAST(?2 AS "
                              "INTEGER)";
    char *like = like_of("%", text, "%");
    const struct digits most = digits_of((int64_t)n_most);
    const char *const args[] = { like, most.text };
    const enum kg_status status = ask(history, SQL, args, KG_COUNT_OF(args), rows, err);
    free(like);
    return status;
}

enum kg_status kg_browse_annotations(struct kg_history *history, size_t n_most, json_t **rows, struct kg_error *err) {
    static const char SQL[] = "SELECT a.kind, a.bundle_id, a.case_key, a.until_us, a.utc_us, a.author, a.text"
                              " FROM annotation a WHERE a.kind NOT IN ('confirm', 'selfcheck')"
                              " ORDER BY a.utc_us DESC, a.annotation_id DESC LIMIT CAST(?1 AS INTEGER)";
    const struct digits most = digits_of((int64_t)n_most);
    const char *const args[] = { most.text };
    return ask(history, SQL, args, 1, rows, err);
}

enum kg_status kg_browse_newest(struct kg_history *history, size_t n_most, json_t **rows, struct kg_error *err) {
    static const char SQL[] =
        "SELECT " RUN_COLUMNS FROM_RUNS " WHERE b.state = 'complete' AND NOT EXISTS (SELECT 1 FROM bundle d WHERE"
        " d.comparison_key = b.comparison_key AND d.state = 'complete' AND (d.started_us > b.started_us OR"
        " (d.started_us = b.started_us AND d.bundle_id > b.bundle_id)))" NEWEST_FIRST " LIMIT CAST(?1 AS INTEGER)";
    const struct digits most = digits_of((int64_t)n_most);
    const char *const args[] = { most.text };
    return ask(history, SQL, args, 1, rows, err);
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
