/* kigo history: one case through all runs. */
#include "base/size.h"
#include "cli/asked.h"
#include "cli/commands.h"
#include "cli/filter.h"
#include "cli/rows.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_COLUMNS                                                                                                    \
    "b.bundle_id AS run, substr(b.git_commit, 1, 12) AS git_commit, coalesce(e.gpu_name, e.cpu_model) AS machine,"     \
    " c.case_key, substr(c.def_sha, 1, 8) AS definition, r.status"
/* Thousandths, rounded as whole numbers: by the same rule in both languages. */
#define THOUSANDTHS "(r.duration_ns + 500000) / 1000000 / 1000.0"
/* A row a run: the worst margin, the first timing, and the largest peak of memory. */
#define WIDE_COLUMNS(seconds, metrics, margins, peaks)                                                                 \
    RUN_COLUMNS ", " seconds " AS seconds,"                                                                            \
                " (SELECT max(m.value) FROM metric_row m WHERE " metrics " AND m.figure_id IN"                         \
                "  (SELECT figure_id FROM figure_name WHERE name " margins ")) AS worst_margin,"                       \
                " (SELECT m.value FROM metric_row m WHERE " metrics " AND m.mad IS NOT NULL AND m.valid <> 0"          \
                "  ORDER BY m.seq LIMIT 1) AS time_ns,"                                                                \
                " (SELECT max(m.value) FROM metric_row m WHERE " metrics " AND m.figure_id IN"                         \
                "  (SELECT figure_id FROM figure_name WHERE name " peaks ")) AS peak_bytes"
/* A row a figure of a run. */
#define LONG_COLUMNS RUN_COLUMNS ", f.name AS figure, f.unit, m.value, m.tol, m.n, m.mad, m.ci_lo, m.ci_hi, m.valid"
#define LIMIT " LIMIT CAST(?9 AS BIGINT)"

/* A row a case that no run has run: its newest result, and how many runs have planned it. */
#define NEVER_RAN(of_case, of_run, results, same_key, key)                                                             \
    "SELECT case_key, n_planned, run, status, reason FROM (SELECT c.case_key, b.bundle_id AS run, r.status,"           \
    " coalesce(r.reason, '') AS reason, count(*) OVER (PARTITION BY c.case_key) AS n_planned, row_number() OVER"       \
    " (PARTITION BY c.case_key ORDER BY b.started_us DESC, b.bundle_id DESC) AS place FROM tcase c " results           \
    " WHERE " of_case " AND " of_run " AND " key " AND r.status IN ('skip', 'norun') AND NOT EXISTS"                   \
    " (SELECT 1 FROM tcase k " results " WHERE " same_key " AND " of_run                                               \
    " AND r.status NOT IN ('skip', 'norun'))) newest WHERE place = 1 ORDER BY case_key"

#define SQLITE_RESULTS " JOIN result_row r USING(case_id) JOIN bundle b USING(bundle_no) LEFT JOIN env e USING(env_id)"
#define SQLITE_FROM " FROM tcase c" SQLITE_RESULTS
#define SQLITE_WHERE " WHERE " KG_FILTER_CASE_SQL " AND " KG_FILTER_RUN_SQL " AND "
#define SQLITE_ORDER " ORDER BY b.started_us DESC, b.bundle_id DESC, c.case_key"
#define SQLITE_WIDE(key)                                                                                               \
    "SELECT " WIDE_COLUMNS(THOUSANDTHS, "m.result_id = r.result_id", "GLOB '*.margin'", "GLOB '*.peak'")               \
        SQLITE_FROM SQLITE_WHERE key SQLITE_ORDER LIMIT
#define SQLITE_LONG(key)                                                                                               \
    "SELECT " LONG_COLUMNS SQLITE_FROM                                                                                 \
    " JOIN metric_row m USING(result_id) JOIN figure_name f USING(figure_id)" SQLITE_WHERE                             \
    "f.name GLOB ?10 AND " key SQLITE_ORDER ", m.seq" LIMIT
#define SQLITE_KEY "c.case_key = ?8"
#define SQLITE_PATTERN "c.case_key GLOB ?8"

#define POSTGRES_RESULTS                                                                                               \
    " JOIN result_row r USING(case_id) JOIN bundle b USING(bundle_no, runner_no, month) LEFT JOIN env e USING(env_id)"
#define POSTGRES_FROM " FROM tcase c" POSTGRES_RESULTS
#define POSTGRES_WHERE " WHERE " KG_FILTER_CASE_POSTGRES " AND " KG_FILTER_RUN_POSTGRES " AND "
#define POSTGRES_ORDER " ORDER BY b.started_us DESC, b.bundle_id COLLATE \"C\" DESC, c.case_key COLLATE \"C\""
#define POSTGRES_METRICS "m.result_id = r.result_id AND m.runner_no = r.runner_no AND m.month = r.month"
#define POSTGRES_WIDE(key)                                                                                             \
    "SELECT " WIDE_COLUMNS("(" THOUSANDTHS ")::double precision", POSTGRES_METRICS, "LIKE '%.margin'",                 \
                           "LIKE '%.peak'") POSTGRES_FROM POSTGRES_WHERE key POSTGRES_ORDER LIMIT
#define POSTGRES_LONG(key)                                                                                             \
    "SELECT " LONG_COLUMNS POSTGRES_FROM " JOIN metric_row m ON " POSTGRES_METRICS " JOIN figure_name f"               \
    " USING(figure_id)" POSTGRES_WHERE "f.name LIKE " KG_POSTGRES_LIKE("?10") " AND " key POSTGRES_ORDER               \
                                                                              ", m.seq" LIMIT
#define POSTGRES_KEY "md5(c.case_key) = md5(?8) AND c.case_key = ?8" /* as it is indexed */
#define POSTGRES_PATTERN "c.case_key LIKE " KG_POSTGRES_LIKE("?8")

/* By whether the key is a pattern, and whether figures were asked for. */
static const struct kg_sql STATEMENTS[2][2] = {
    { { SQLITE_WIDE(SQLITE_KEY), POSTGRES_WIDE(POSTGRES_KEY) },
      { SQLITE_LONG(SQLITE_KEY), POSTGRES_LONG(POSTGRES_KEY) } },
    { { SQLITE_WIDE(SQLITE_PATTERN), POSTGRES_WIDE(POSTGRES_PATTERN) },
      { SQLITE_LONG(SQLITE_PATTERN), POSTGRES_LONG(POSTGRES_PATTERN) } },
};

static const struct kg_sql NEVER_RAN_STATEMENT = {
    NEVER_RAN(KG_FILTER_CASE_SQL, KG_FILTER_RUN_SQL, SQLITE_RESULTS, "k.case_key = c.case_key", SQLITE_PATTERN) LIMIT,
    NEVER_RAN(KG_FILTER_CASE_POSTGRES, KG_FILTER_RUN_POSTGRES, POSTGRES_RESULTS,
              "md5(k.case_key) = md5(c.case_key) AND k.case_key = c.case_key", POSTGRES_PATTERN) " COLLATE \"C\"" LIMIT,
};

struct history_options {
    struct kg_asked asked;
    bool never_ran;
    const char *figure;
    struct kg_filter filter;
    struct kg_rows_options format;
    int64_t limit;
};

static bool count_row(void *n, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    (void)n_columns, (void)names;
    *(size_t *)n += cells != NULL; /* NULL: there are no rows */
    return true;
}

static enum kg_status show(const char *key, const struct history_options *o, size_t *n_rows, struct kg_error *err) {
    const char *place;
    const bool is_pattern = o->never_ran || strpbrk(key, "*?") != NULL;
    struct kg_history *history = NULL;
    struct kg_filter_args args;
    char limit[32];
    enum kg_status status = kg_filter_bind(&o->filter, kg_cli_bundles_root(o->asked.bundles), &args, err);
    if (status != KG_OK) return status;
    snprintf(limit, sizeof limit, "%lld", (long long)o->limit);
    args.owned[KG_FILTER_ARGS] = is_pattern ? kg_glob_of(key) : kg_xstrdup(key);
    args.owned[KG_FILTER_ARGS + 2] = kg_glob_of(o->figure);
    args.values[KG_FILTER_ARGS] = args.owned[KG_FILTER_ARGS];
    args.values[KG_FILTER_ARGS + 1] = limit;
    args.values[KG_FILTER_ARGS + 2] = args.owned[KG_FILTER_ARGS + 2];
    status = kg_cli_asked_open("history", &o->asked, &history, &place, err);
    struct kg_rows rows = KG_ROWS_INIT(&o->format);
    rows.for_people = true;
    size_t n_unsound = 0;
    if (status == KG_OK) status = kg_cli_heads_check("history", history, &n_unsound, err);
    const struct kg_sql *const sql = o->never_ran ? &NEVER_RAN_STATEMENT : &STATEMENTS[is_pattern][o->figure != NULL];
    if (status == KG_OK)
        status =
            kg_history_ask(history, sql, args.values, KG_FILTER_ARGS + (o->figure ? 3 : 2), kg_rows_add, &rows, err);
    *n_rows = rows.n_rows;
    size_t n_planned = rows.n_rows;
    args.values[KG_FILTER_ARGS + 1] = "1";
    if (status == KG_OK && o->never_ran && n_planned == 0)
        status = kg_history_ask(history, &STATEMENTS[true][false], args.values, KG_FILTER_ARGS + 2, count_row,
                                &n_planned, err);
    const char *const hint = is_pattern ? "" : " (* matches any text)";
    if (status == KG_OK && n_planned == 0 && o->figure)
        status =
            kg_fail(err, KG_ERR_NOT_FOUND, "no run in %s has a figure '%s' of a case '%s'%s; --figure '*' shows all",
                    place, o->figure, key, hint);
    else if (status == KG_OK && n_planned == 0)
        status = kg_fail(err, KG_ERR_NOT_FOUND, "no run in %s has a case '%s'%s", place, key, hint);
    if (status == KG_OK) status = kg_rows_print(&rows, err);
    else kg_rows_free(&rows);
    if (status == KG_OK) status = kg_cli_heads_conclude(n_unsound, err);
    kg_cli_history_close("history", history);
    kg_filter_args_free(&args);
    return status;
}

int kg_cmd_history(int argc, char **argv) {
    struct history_options o = { .limit = INT64_MAX };
    const struct kg_option options[] = {
        { .name = "figure",
          .kind = KG_OPTION_TEXT,
          .value = &o.figure,
          .metavar = "PATTERN",
          .help = "a row for each figure whose name matches (y.max_abs, time.graph.cold, kv.peak)" },
        { .name = "never-ran",
          .kind = KG_OPTION_FLAG,
          .value = &o.never_ran,
          .help = "only cases that were planned and that no run has run, with the newest reason; exit code 1: there is "
                  "one" },
        { .name = "limit",
          .letter = 'n',
          .kind = KG_OPTION_INT,
          .value = &o.limit,
          .metavar = "N",
          .help = "only the newest N rows",
          .min = 1,
          .max = 1e9 },
        KG_FILTER_OPTIONS(&o.filter),
        KG_ASKED_OPTIONS(&o.asked),
        KG_ROWS_OPTIONS(&o.format),
    };
    const struct kg_command command = {
        .name = "kigo history",
        .usage = "CASE [--figure PATTERN|--never-ran] [--limit N] [filters] [--bundles DIR|--history URL] "
                 "[--json|--csv|--markdown]",
        .summary =
            "Shows what a case (a key; * matches any text) gave in every run, newest first: status, worst error\n"
            "against its limit, first timing (median), largest peak of memory; or figures by name. --never-ran:\n"
            "what was skipped wherever it was planned, which no green run has proven.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    const char *key;
    struct kg_error err;
    size_t n_rows = 0;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &key, 1, &ended)) return ended;
    enum kg_status status = kg_rows_check(&o.format, &err);
    if (status == KG_OK && o.never_ran && o.figure)
        status = kg_fail(&err, KG_ERR_USAGE, "--figure and --never-ran: a case that never ran has no figures");
    if (status == KG_OK) status = show(key, &o, &n_rows, &err);
    if (status != KG_OK) return kg_cli_error("history", &err);
    return o.never_ran && n_rows > 0 ? KG_EXIT_FAILED : KG_EXIT_OK;
}
