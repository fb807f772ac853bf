/* kigo query: SQL over the history. */
#include "base/clock.h"
#include "base/progress.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/asked.h"
#include "cli/commands.h"
#include "cli/long_write.h"
#include "cli/rows.h"
#include "history/views.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct bounds {
    double max_seconds;
    int64_t max_rows, max_mib;
    int64_t limit; /* rows that are shown; 0: all */
};

/* The answer is kept until it is whole: what it takes counts, too. */
struct answer {
    struct kg_rows rows;
    const struct bounds *bounds;
    struct kg_progress progress;
    uint64_t bytes, n_unshown, full_ns;
    bool too_many, too_large, uncounted;
};

/* A row beyond the limit is counted, for as long as nobody waits. */
static bool count_row(struct answer *answer) {
    enum { LOOK_EVERY = 1024 };
    static const uint64_t COUNTS_FOR_NS = UINT64_C(500000000);
    if (answer->n_unshown == 0) answer->full_ns = kg_clock_monotonic_ns();
    answer->n_unshown++;
    answer->uncounted =
        answer->n_unshown % LOOK_EVERY == 0 && kg_clock_monotonic_ns() - answer->full_ns > COUNTS_FOR_NS;
    return !answer->uncounted;
}

static bool take_row(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    enum { CELL_BYTES = 64 }; /* about what a cell takes beside its text */
    struct answer *answer = arg;
    const int64_t limit = answer->bounds->limit;
    if (cells && limit > 0 && answer->rows.n_rows >= (uint64_t)limit) return count_row(answer);
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

static enum kg_status query(const struct kg_asked *asked, const char *sql, const struct kg_rows_options *format,
                            const struct bounds *bounds, struct kg_error *err) {
    enum { GRACE_S = 2 };
    struct kg_history *history = NULL;
    const char *place;
    enum kg_status status = kg_cli_asked_open("query", asked, &history, &place, err);
    if (status != KG_OK) return status;
    size_t n_unsound = 0;
    status = kg_cli_heads_check("query", history, &n_unsound, err);
    if (status != KG_OK) {
        kg_history_close(history);
        return status;
    }
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
    kg_cli_history_close("query", history);
    if (status == KG_OK && answer.too_many)
        status = kg_fail(err, KG_ERR_INCOMPLETE, "the answer has more than %lld rows: narrow it, or raise --max-rows",
                         (long long)bounds->max_rows);
    if (status == KG_OK && answer.too_large)
        status = kg_fail(err, KG_ERR_NO_MEMORY, "the answer needs more than %lld MiB: narrow it, or raise --max-mib",
                         (long long)bounds->max_mib);
    if (status != KG_OK) {
        kg_rows_free(&answer.rows);
        return status;
    }
    status = kg_rows_print(&answer.rows, err);
    if (answer.n_unshown > 0)
        kg_say(stderr,
               "kigo query: the first %lld rows; %s%llu more are left out: --limit 0 shows all, and so does a pipe\n",
               (long long)bounds->limit, answer.uncounted ? "over " : "", (unsigned long long)answer.n_unshown);
    return status == KG_OK ? kg_cli_heads_conclude(n_unsound, err) : status;
}

/* What each column of the views means. */
static enum kg_status print_schema(const struct kg_rows_options *format, struct kg_error *err) {
    static const char *const NAMES[] = { "view", "column", "unit", "meaning" };
    struct kg_rows rows = KG_ROWS_INIT(format);
    kg_rows_add(&rows, KG_COUNT_OF(NAMES), NAMES, NULL);
    for (size_t i = 0; i < KG_N_VIEW_COLUMNS; i++) {
        const struct kg_view_column *c = &KG_VIEW_COLUMNS[i];
        const struct kg_cell cells[] = { kg_cell_of_text(c->view), kg_cell_of_text(c->column), kg_cell_of_text(c->unit),
                                         kg_cell_of_text(c->meaning) };
        kg_rows_add(&rows, KG_COUNT_OF(NAMES), NAMES, cells);
    }
    return kg_rows_print(&rows, err);
}

int kg_cmd_query(int argc, char **argv) {
    struct kg_asked asked = { 0 };
    struct kg_rows_options format = { 0 };
    enum { ROWS_ON_TERMINAL = 200 };
    bool schema = false;
    struct bounds bounds = {
        .max_seconds = 5, .max_rows = 1000000, .max_mib = 256, .limit = isatty(STDOUT_FILENO) ? ROWS_ON_TERMINAL : 0
    };
    const struct kg_option options[] = {
        KG_ASKED_OPTIONS(&asked),
        { "schema", 0, KG_OPTION_FLAG, &schema, NULL, "say what each column of the views means", 0, 0 },
        { "limit", 'n', KG_OPTION_INT, &bounds.limit, "N",
          "print the first N rows, 0 for all (200 on a terminal, else 0)", 0, 1e9 },
        { "max-seconds", 0, KG_OPTION_DOUBLE, &bounds.max_seconds, "S", "end the query after that time (5)", 0.01,
          86400 },
        { "max-rows", 0, KG_OPTION_INT, &bounds.max_rows, "N", "most rows of an answer (1000000)", 1, 1e9 },
        { "max-mib", 0, KG_OPTION_INT, &bounds.max_mib, "N", "memory for the query, and for its answer (256)", 1, 1e6 },
        KG_ROWS_OPTIONS(&format),
    };
    const struct kg_command command = {
        .name = "kigo query",
        .usage =
            "SQL [--limit N] [--bundles DIR|--history URL] [--max-seconds S] [--json|--csv|--markdown], or --schema",
        .summary =
            "Asks the history by one SQL statement that only reads: SQLite's, of a fleet PostgreSQL's. Views:\n"
            "  run      a row a run: verdict, counts, commit, machine, build\n"
            "  figure   a row a figure of a case of a run: errors, timings, memory\n"
            "  failure  a row a case of a run that neither passed nor was skipped\n"
            "--schema says what their columns mean; a name means the same in each, so that NATURAL JOIN joins them.\n"
            "Notes are in annotation(annotation_id, kind, bundle_id, case_key, until_us, utc_us, author, text).\n"
            "Tables beneath these are not for use: another kigo may have others.\n"
            "Exit code 4 if the head of a run does not verify (it is named, after the rows). A query past its\n"
            "limits, or ended by Ctrl-C, prints nothing and exits with 5.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .max_args = 1,
    };
    const char *sql;
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &sql, 1, &ended)) return ended;
    enum kg_status status = kg_rows_check(&format, &err);
    if (status == KG_OK && schema == (sql != NULL))
        status = kg_fail(&err, KG_ERR_USAGE,
                         schema ? "--schema takes no SQL" : "the SQL is missing; --schema lists what there is");
    if (status == KG_OK && schema) status = print_schema(&format, &err);
    else if (status == KG_OK) status = query(&asked, sql, &format, &bounds, &err);
    return status == KG_OK ? KG_EXIT_OK : kg_cli_error("query", &err);
}
