#include "cli/regress_again.h"
#include "base/clock.h"
#include "history/comparison_key.h"
#include "history/confirm.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum kg_status parse_budget(const char *text, double *seconds, struct kg_error *err) {
    static const char UNITS[] = "smh";
    static const double SECONDS[] = { 1, 60, 3600 };
    char *end;
    *seconds = INFINITY;
    if (!text) return KG_OK;
    const double number = strtod(text, &end);
    const char *unit = *end ? strchr(UNITS, *end) : NULL;
    if (end == text || !unit || end[1] || !(number > 0) || number > 1e6)
        return kg_fail(err, KG_ERR_USAGE, "--budget: '%s' is no time such as 90s, 5m or 1h", text);
    *seconds = number * SECONDS[unit - UNITS];
    return KG_OK;
}

enum kg_status kg_cli_again_check(struct kg_cli_again *again, struct kg_error *err) {
    const char *const builds[] = { again->builds.baseline_build, again->builds.build };
    enum kg_status status = parse_budget(again->budget, &again->budget_s, err);
    for (int i = 0; i < 2 && status == KG_OK; i++) {
        char *program = NULL;
        if (builds[i]) status = kg_fresh_program(builds[i], &program, err);
        free(program);
    }
    return status;
}

static enum kg_status open_builds(void *context, const char *root, const struct kg_run_head *run,
                                  const struct kg_run_head *baseline, struct kg_error *err) {
    struct kg_cli_again *again = context;
    again->run_key = kg_xstrdup(run->comparison_key);
    const enum kg_status status =
        kg_two_builds_open("regress", &again->builds, again->call, root, run, baseline, &again->two, err);
    again->started_ns = again->round_started_ns = kg_clock_monotonic_ns();
    return status;
}

/* A run's values from the folder it was published in. */
static enum kg_status read_run(const struct kg_cli_again *again, char *id, const struct kg_confirmation *const *figures,
                               size_t n_figures, double *values, double *machine, char **key, struct kg_error *err) {
    struct kg_history *history = NULL;
    enum kg_status status = kg_history_open(again->two.runs.root, &history, NULL, err);
    if (status == KG_OK) status = kg_confirm_values(history, id, figures, n_figures, values, machine, key, err);
    kg_history_close(history);
    return status;
}

static enum kg_status run_once(void *context, int build, const struct kg_confirmation *const *figures, size_t n_figures,
                               double *values, double *machine, struct kg_error *err) {
    struct kg_cli_again *again = context;
    const char **keys = kg_xcalloc(n_figures + 1, sizeof *keys);
    char *id = NULL, *key = NULL;
    for (size_t i = 0; i < n_figures; i++) keys[i] = figures[i]->key;
    enum kg_status status = kg_two_builds_run(&again->two, build, keys, n_figures, &id, err);
    if (status == KG_OK) status = read_run(again, id, figures, n_figures, values, machine, &key, err);
    if (status == KG_OK && build == 1 && !kg_comparison_same_machine(key, again->run_key)) {
        char *difference = kg_comparison_difference(key, again->run_key);
        status = kg_fail(err, KG_ERR_UNSUPPORTED, "runs made here differ from the judged one in %s", difference);
        free(difference);
    }
    if (++again->n_runs % 2 == 0) {
        const uint64_t now_ns = kg_clock_monotonic_ns();
        again->round_ns = now_ns - again->round_started_ns;
        again->round_started_ns = now_ns;
        again->n_round = n_figures;
    }
    free(key);
    free(id);
    free(keys);
    return status;
}

static bool has_time(void *context, size_t n_open) {
    const struct kg_cli_again *again = context;
    const double spent_s = (double)(kg_clock_monotonic_ns() - again->started_ns) / 1e9;
    const double share = again->n_round > 0 ? fmin(1, (double)n_open / (double)again->n_round) : 0;
    return spent_s + share * (double)again->round_ns / 1e9 <= again->budget_s;
}

void kg_cli_again_fill(struct kg_cli_again *again, struct kg_regress_again *out) {
    *out = (struct kg_regress_again){ again, open_builds, run_once, has_time, again->budget_s };
}

void kg_cli_again_close(struct kg_cli_again *again) {
    kg_two_builds_close(&again->two);
    free(again->run_key);
    again->run_key = NULL;
}
