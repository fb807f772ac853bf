/* kigo query: SQL over the history. */
#include "base/progress.h"
#include "base/size.h"
#include "cli/commands.h"
#include "cli/long_write.h"
#include "cli/rows.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct bounds {
    double max_seconds;
    int64_t max_rows, max_mib;
};

/* The answer is kept until it is whole: what it takes counts, too. */
struct answer {
    struct kg_rows rows;
    const struct bounds *bounds;
    struct kg_progress progress;
    uint64_t bytes;
    bool too_many, too_large;
};

static bool take_row(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    enum { CELL_BYTES = 64 }; /* about what a cell takes beside its text */
    struct answer *answer = arg;
    for (size_t i = 0; cells && i < n_columns; i++) answer->bytes += cells[i].size_bytes + CELL_BYTES;
    answer->too_many = cells && answer->rows.n_rows >= (uint64_t)answer->bounds->max_rows;
    answer->too_large = answer->bytes > (uint64_t)answer->bounds->max_mib << 20;
    return !answer->too_many && !answer->too_large && kg_rows_add(&answer->rows, n_columns, names, cells);
}

static bool stop(void *arg, double seconds) {
    struct answer *answer = arg;
    kg_progress_update(&answer->progress, (uint64_t)(seconds * 1000), (uint64_t)(answer->bounds->max_seconds * 1000));
    return kg_cli_cancelled(NULL);
}

/* A single call of a function cannot be interrupted: a query that hangs in one ends with the program. */
static void end_program(int number) {
    static const char SAYS[] = "kigo query: the query hangs in one function past its time limit\n";
    (void)number;
    const ssize_t n = write(STDERR_FILENO, SAYS, sizeof SAYS - 1);
    (void)n;
    _exit(KG_EXIT_INCOMPLETE);
}

static enum kg_status query(const char *root, const char *sql, const struct kg_rows_options *format,
                            const struct bounds *bounds, struct kg_error *err) {
    enum { GRACE_S = 2 };
    struct kg_history *history = NULL;
    enum kg_status status = kg_cli_history_open("query", root, &history, err);
    if (status != KG_OK) return status;
    struct answer answer = { .rows = KG_ROWS_INIT(format), .bounds = bounds };
    answer.rows.null_text = "NULL";
    answer.rows.digits = 0;
    const struct kg_query_limits limits = { bounds->max_seconds, (uint64_t)bounds->max_mib << 20, stop, &answer };
    kg_cli_end_on_signals();
    signal(SIGALRM, end_program);
    alarm((unsigned)bounds->max_seconds + GRACE_S);
    kg_progress_start(&answer.progress, "query");
    status = kg_history_query_within(history, &limits, sql, NULL, 0, take_row, &answer, err);
    kg_progress_finish(&answer.progress);
    alarm(0);
    kg_history_close(history);
    if (status == KG_OK && answer.too_many)
        status = kg_fail(err, KG_ERR_INCOMPLETE, "the answer has more than %lld rows: narrow it, or raise --max-rows",
                         (long long)bounds->max_rows);
    if (status == KG_OK && answer.too_large)
        status = kg_fail(err, KG_ERR_NO_MEMORY, "the answer needs more than %lld MiB: narrow it, or raise --max-mib",
                         (long long)bounds->max_mib);
    if (status == KG_OK) return kg_rows_print(&answer.rows, err);
    kg_rows_free(&answer.rows);
    return status;
}

int kg_cmd_query(int argc, char **argv) {
    const char *bundles = NULL;
    struct kg_rows_options format = { 0 };
    struct bounds bounds = { .max_seconds = 5, .max_rows = 1000000, .max_mib = 256 };
    const struct kg_option options[] = {
        KG_BUNDLES_OPTION(&bundles),
        { "max-seconds", 0, KG_OPTION_DOUBLE, &bounds.max_seconds, "S", "end the query after that time (5)", 0.01,
          86400 },
        { "max-rows", 0, KG_OPTION_INT, &bounds.max_rows, "N", "most rows of an answer (1000000)", 1, 1e9 },
        { "max-mib", 0, KG_OPTION_INT, &bounds.max_mib, "N", "memory for the query, and for its answer (256)", 1, 1e6 },
        KG_ROWS_OPTIONS(&format),
    };
    const struct kg_command command = {
        .name = "kigo query",
        .usage = "SQL [--bundles DIR] [--max-seconds S] [--json|--csv|--markdown]",
        .summary =
            "Asks the history by one SQL statement that only reads. Tables:\n"
            "  bundle(bundle_id, path, state, verdict, exit_code, started_us, sealed_us, git_commit, git_branch,\n"
            "         git_dirty, content_sha256, env_id, build_id, seed, n_planned, n_pass, n_fail, n_skip,\n"
            "         n_crash, n_timeout, n_norun, overhead_share, manifest_sha256, sig_state,\n"
            "         bundle_no, comparison_key)\n"
            "  tcase(case_id, case_key, suite, layer, op, name, backend, dtype, shape, spec, def_sha)\n"
            "  result(result_id, bundle_id, case_id, status, reason, seed, started_us, duration_ns)\n"
            "  metric(result_id, seq, name, unit, value, tol, n, median, mad, ci_lo, ci_hi, valid)\n"
            "  env(env_id, ...)  build(build_id, ...)  \n"
            "  annotation(annotation_id, kind, bundle_id, case_key, until_us, utc_us, author, text)\n"
            "A query past its limits, or ended by Ctrl-C, prints nothing and exits with 5.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    const char *sql;
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &sql, 1, &ended)) return ended;
    enum kg_status status = kg_rows_check(&format, &err);
    if (status == KG_OK) status = query(kg_cli_bundles_root(bundles), sql, &format, &bounds, &err);
    return status == KG_OK ? KG_EXIT_OK : kg_cli_error("query", &err);
}
