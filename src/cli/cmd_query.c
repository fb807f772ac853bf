/* kigo query: SQL over the history. */
#include "base/size.h"
#include "cli/commands.h"
#include "cli/rows.h"
#include <stdlib.h>

static enum kg_status query(const char *root, const char *sql, const struct kg_rows_options *format,
                            struct kg_error *err) {
    struct kg_history *history = NULL;
    enum kg_status status = kg_cli_history_open("query", root, &history, err);
    if (status != KG_OK) return status;
    struct kg_rows rows = KG_ROWS_INIT(format);
    rows.null_text = "NULL";
    rows.digits = 0;
    status = kg_rows_query(history, sql, NULL, 0, &rows, err);
    kg_history_close(history);
    return status;
}

int kg_cmd_query(int argc, char **argv) {
    const char *bundles = NULL;
    struct kg_rows_options format = { 0 };
    const struct kg_option options[] = {
        KG_BUNDLES_OPTION(&bundles),
        KG_ROWS_OPTIONS(&format),
    };
    const struct kg_command command = {
        .name = "kigo query",
        .usage = "SQL [--bundles DIR] [--json|--csv|--markdown]",
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
            "  annotation(annotation_id, kind, bundle_id, case_key, until_us, utc_us, author, text)",
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
    if (status == KG_OK) status = query(kg_cli_bundles_root(bundles), sql, &format, &err);
    return status == KG_OK ? KG_EXIT_OK : kg_cli_error("query", &err);
}
