/* kigo regress: is this run worse than what was before it? */
#include "base/size.h"
#include "cli/commands.h"
#include "cli/regress_again.h"
#include <stdlib.h>

static enum kg_status print(const struct kg_regression *r, const struct kg_rows_options *format, bool all,
                            struct kg_error *err) {
    if (format->json) return kg_cli_print_json(kg_regression_json(r, all), err);
    struct kg_buffer out = KG_BUFFER_INIT;
    if (!format->csv) kg_regression_head(r, format->markdown, &out);
    kg_regression_put(r, all, format, &out);
    if (!format->csv) kg_regression_foot(r, format->markdown, &out);
    return kg_cli_print(&out, err);
}

int kg_cmd_regress(int argc, char **argv) {
    struct kg_regress_call call = KG_REGRESS_CALL_INIT;
    struct kg_rows_options format = { 0 };
    struct kg_cli_again again = { .call = &call };
    struct kg_regress_again asked;
    bool all = false, confirm = false;
    const struct kg_option options[] = {
        KG_REGRESS_OPTIONS(&call),
        KG_HISTORY_OPTION(&call.history),
        { .name = "confirm",
          .kind = KG_OPTION_FLAG,
          .value = &confirm,
          .help = "measure suspects again at once, runs of both builds alternating" },
        { .name = "budget",
          .kind = KG_OPTION_TEXT,
          .value = &again.budget,
          .metavar = "TIME",
          .help = "of --confirm, for these runs: 90s, 5m, 1h (as long as it takes)" },
        KG_TWO_BUILDS_OPTIONS(&again.builds),
        KG_COLOR_OPTION,
        { .name = "all", .kind = KG_OPTION_FLAG, .value = &all, .help = "also list what is better, and new cases" },
        KG_ROWS_OPTIONS(&format),
    };
    const struct kg_command command = {
        .name = "kigo regress",
        .usage = "[RUN] [--baseline RUN|REV] [options]",
        .summary =
            "Judges a run (the latest) against the last 20 complete, green, clean runs of its commit's ancestors\n"
            "with the same GPU, driver, CUDA, power limit, build flags and choice of cases. Statuses, errors under\n"
            "the same seed, memory, registers and spills are exact: any change for the worse counts. Times and\n"
            "rates count beyond 3% and their run-to-run noise, freed of the machine's drift. A missing case is red.\n"
            "With --confirm every time or rate that may be slower is measured again, up to 20 runs of each build,\n"
            "and these runs decide. Skipped cases are a line for each reason.\n"
            "Exit code: 0 no regression, 1 worse or missing, 3 too little to judge by.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .max_args = 1,
    };
    const char *run;
    struct kg_error err;
    struct kg_regression r;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &run, 1, &ended)) return ended;
    enum kg_status status = kg_rows_check(&format, &err);
    if (status == KG_OK) status = kg_cli_again_check(&again, &err);
    if (status == KG_OK && !confirm && (again.budget || again.builds.baseline_build || again.builds.build))
        status = kg_fail(&err, KG_ERR_USAGE, "--budget, --baseline-build and --build are for --confirm");
    kg_cli_again_fill(&again, &asked);
    if (confirm) call.again = &asked;
    if (status == KG_OK) status = kg_cli_regress("regress", &call, run, &r, &err);
    kg_cli_again_close(&again);
    if (status != KG_OK) return kg_cli_error("regress", &err);
    const int exit_code = r.exit_code;
    status = print(&r, &format, all, &err);
    kg_regression_free(&r);
    return status == KG_OK ? exit_code : kg_cli_error("regress", &err);
}
