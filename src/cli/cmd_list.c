/* kigo list: the runs of a folder of bundles, newest first. */
#include "base/say.h"
#include "base/size.h"
#include "base/tty.h"
#include "cli/asked.h"
#include "cli/commands.h"
#include "cli/filter.h"
#include "cli/rows.h"
#include "history/trust.h"
#include <stdio.h>
#include <stdlib.h>

/* Whether there is one; whose, verify says. */
#define SIGNATURE "CASE b.sig_state WHEN 'unsigned' THEN 'none' ELSE 'there' END AS signature"

/* For people, and all there is to say for programs. */
#define SHORT(seconds)                                                                                                 \
    "b.bundle_id AS run, b.verdict, b.state, b.n_planned AS planned, b.n_pass AS pass, b.n_fail AS fail,"              \
    " b.n_skip AS skip, b.n_crash AS crash, b.n_timeout AS timeout, b.n_norun AS norun, " seconds " AS seconds,"       \
    " " SIGNATURE
/* Tenths, rounded as whole numbers: by the same rule in both languages. */
#define TENTHS "(b.sealed_us - b.started_us + 50000) / 100000 / 10.0"
#define SECONDS_SQLITE "printf('%.1f', " TENTHS ")"
#define SECONDS_POSTGRES "round(" TENTHS ", 1)::text"
/* What a narrow terminal does without, these first. */
static const char *const DROP[] = { "planned", "norun", "timeout", "crash",   "signature",
                                    "state",   "skip",  "seconds", "verdict", NULL };
#define LONG                                                                                                           \
    "b.bundle_id, b.verdict, b.state, b.n_planned, b.n_pass, b.n_fail, b.n_skip, b.n_crash,"                           \
    " b.n_timeout, b.n_norun, b.started_us, b.sealed_us, b.git_commit, b.git_branch, b.git_dirty,"                     \
    " b.overhead_share, e.gpu_name, e.cpu_model, " SIGNATURE

static const struct kg_sql STATEMENTS[] = {
    { KG_FILTER_RUNS_SQLITE(SHORT(SECONDS_SQLITE)), KG_FILTER_RUNS_POSTGRES(SHORT(SECONDS_POSTGRES)) },
    { KG_FILTER_RUNS_SQLITE(LONG), KG_FILTER_RUNS_POSTGRES(LONG) },
};

static enum kg_status list(const struct kg_asked *asked, const struct kg_filter *filter,
                           const struct kg_rows_options *format, int64_t limit, struct kg_error *err) {
    struct kg_history *history = NULL;
    const char *place;
    struct kg_filter_args args;
    enum kg_status status = kg_filter_bind_runs(filter, kg_cli_bundles_root(asked->bundles), limit, &args, err);
    if (status != KG_OK) return status;
    struct kg_rows rows = KG_ROWS_INIT(format);
    rows.table.most_width = kg_tty_columns(stdout);
    rows.table.drop = DROP;
    size_t n_unsound = 0;
    status = kg_cli_asked_open("list", asked, &history, &place, err);
    if (status == KG_OK) status = kg_cli_heads_check("list", history, &n_unsound, err);
    if (status == KG_OK)
        status = kg_rows_ask(history, &STATEMENTS[format->json || format->csv], args.values, KG_FILTER_RUNS_ARGS, &rows,
                             err);
    const size_t n_unread = status == KG_OK ? kg_trust_n_unread(history) : 0;
    kg_cli_history_close("list", history);
    if (status == KG_OK) status = kg_cli_heads_conclude(n_unsound, err);
    if (status == KG_OK && n_unread > 0)
        status = kg_fail(err, KG_ERR_INTEGRITY, "what is not indexed (%zu, above) is not listed", n_unread);
    kg_filter_args_free(&args);
    return status;
}

int kg_cmd_list(int argc, char **argv) {
    struct kg_asked asked = { 0 };
    struct kg_filter filter = { 0 };
    struct kg_rows_options format = { 0 };
    int64_t limit = INT64_MAX;
    const struct kg_option options[] = {
        KG_ASKED_OPTIONS(&asked),   KG_COLOR_OPTION,          KG_LIMIT_OPTION(&limit),
        KG_FILTER_OPTIONS(&filter), KG_ROWS_OPTIONS(&format),
    };
    const struct kg_command command = {
        .name = "kigo list",
        .usage = "[--limit N] [filters] [--bundles DIR|--history URL] [--json|--csv|--markdown]",
        .summary =
            "Lists the runs of a folder of bundles, or of a fleet, newest first. Without any it prints nothing.\n"
            "With a choice of cases: the runs that hold such a case. A terminal's lines are not exceeded: "
            "columns that\n"
            "do not fit are left out, zeros first. A pipe and a file get all of them.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
    };
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, NULL, 0, &ended)) return ended;
    enum kg_status status = kg_rows_check(&format, &err);
    if (status == KG_OK) status = list(&asked, &filter, &format, limit, &err);
    return status == KG_OK ? KG_EXIT_OK : kg_cli_error("list", &err);
}
