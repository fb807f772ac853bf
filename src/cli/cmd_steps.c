/* kigo steps: where times and rates changed for good. */
#include "base/size.h"
#include "cli/commands.h"
#include "cli/filter.h"
#include "cli/regress_call.h"
#include "history/annotation.h"
#include "history/step_search.h"
#include <stdlib.h>
#include <string.h>

struct steps_options {
    const char *bundles, *run, *key, *figure;
    struct kg_filter filter;
    struct kg_rows_options format;
    double least_change_percent;
    int64_t n_runs;
};

static bool wants(void *arg, const struct kg_case_info *c, const struct kg_figure_info *figure) {
    const struct steps_options *o = arg;
    return kg_filter_takes_case(&o->filter, o->key, c) && kg_case_matches(o->figure, figure->name);
}

static struct kg_cell commits_cell(const struct kg_found_step *step, char text[32]) {
    const char *before = step->last_before->commit, *after = step->first_after->commit;
    if (!before || !after) return kg_cell_of_text(NULL);
    snprintf(text, 32, "%.12s..%.12s", before, after);
    return kg_cell_of_text(text);
}

static enum kg_status print(const struct kg_step_search *search, const struct kg_rows_options *format,
                            struct kg_error *err) {
    static const char *const NAMES[] = { "first_run", "commits", "case",     "figure",  "unit", "before",
                                         "after",     "change",  "n_before", "n_after", "p" };
    struct kg_rows rows = KG_ROWS_INIT(format);
    struct kg_buffer out = KG_BUFFER_INIT;
    rows.digits = 4;
    kg_rows_add(&rows, KG_COUNT_OF(NAMES), NAMES, NULL);
    for (size_t i = 0; i < search->n_steps; i++) {
        const struct kg_found_step *s = &search->steps[i];
        char commits[32], change[32];
        snprintf(change, sizeof change, "%+.2f%%", 100 * s->change);
        const struct kg_cell cells[] = { kg_cell_of_text(s->first_after->bundle_id),
                                         commits_cell(s, commits),
                                         kg_cell_of_text(s->c->key),
                                         kg_cell_of_text(s->figure->name),
                                         kg_cell_of_text(s->figure->unit),
                                         kg_cell_of_real(s->before),
                                         kg_cell_of_real(s->after),
                                         kg_cell_of_text(change),
                                         kg_cell_of_int((int64_t)s->n_before),
                                         kg_cell_of_int((int64_t)s->n_after),
                                         kg_cell_of_real(s->p) };
        kg_rows_add(&rows, KG_COUNT_OF(NAMES), NAMES, cells);
    }
    kg_rows_put(&rows, &out);
    if (!format->json && !format->csv)
        kg_buffer_printf(&out, "%s%zu steps in %zu figures of %zu runs\n", format->markdown ? "\n" : "",
                         search->n_steps, search->n_figures, search->runs.n_items);
    return kg_cli_print(&out, err);
}

static enum kg_status find(struct steps_options *o, struct kg_error *err) {
    const char *root = kg_cli_bundles_root(o->bundles);
    struct kg_history *history = NULL;
    struct kg_step_search search;
    char *dir = NULL;
    enum kg_status status = kg_filter_find("steps", &o->filter, root, o->run ? o->run : "latest", &dir, err);
    if (status == KG_OK) status = kg_cli_history_open("steps", root, &history, err);
    if (status == KG_OK)
        status = kg_step_search(history, strrchr(dir, '/') + 1, (size_t)o->n_runs, o->least_change_percent / 100, wants,
                                o, &search, err);
    if (status == KG_OK) {
        status = print(&search, &o->format, err);
        kg_step_search_free(&search);
    }
    kg_history_close(history);
    free(dir);
    return status;
}

int kg_cmd_steps(int argc, char **argv) {
    struct steps_options o = { .least_change_percent = 3, .n_runs = 200 };
    const struct kg_option options[] = {
        { .name = "figure",
          .kind = KG_OPTION_TEXT,
          .value = &o.figure,
          .metavar = "PATTERN",
          .help = "only figures whose name matches" },
        { .name = "run",
          .kind = KG_OPTION_TEXT,
          .value = &o.run,
          .metavar = "RUN",
          .help = "the history up to this run, on its machine and build (latest)" },
        { .name = "runs",
          .letter = 'n',
          .kind = KG_OPTION_INT,
          .value = &o.n_runs,
          .metavar = "N",
          .help = "look at the newest N runs (200)",
          .min = 1,
          .max = 5000 },
        KG_LEAST_CHANGE_OPTION(&o.least_change_percent),
        KG_FILTER_OPTIONS(&o.filter),
        KG_BUNDLES_OPTION(&o.bundles),
        KG_ROWS_OPTIONS(&o.format),
    };
    const struct kg_command command = {
        .name = "kigo steps",
        .usage = "[CASE] [--figure PATTERN] [filters] [--json|--csv|--markdown]",
        .summary =
            "Finds where times and rates of cases (a key; * matches any text) changed their level for good, latest\n"
            "first, with the commits between which it happened. Levels are found by optimal partitioning (B.\n"
            "Jackson et al. 2005) of the runs' medians, freed of drift by canaries; each step is at least three\n"
            "runs from the next, and an exact Mann-Whitney test holds it at 1%.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .max_args = 1,
    };
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &o.key, 1, &ended)) return ended;
    enum kg_status status = kg_rows_check(&o.format, &err);
    if (status == KG_OK) status = find(&o, &err);
    return status == KG_OK ? KG_EXIT_OK : kg_cli_error("steps", &err);
}
