/* kigo steps: where times and rates changed for good. */
#include "base/buffer.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/commands.h"
#include "cli/filter.h"
#include "cli/regress_call.h"
#include "history/annotation.h"
#include "history/step_search.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct steps_options {
    struct kg_asked asked;
    const char *run, *key, *figure, *repository;
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

/* "commit +10.1%" for each, as many as a line may have. */
static void put_suspects(const struct kg_found_step *step, struct kg_buffer *out) {
    enum { MOST = 8 };
    for (size_t i = 0; i < step->n_suspects && i < MOST; i++)
        kg_text_printf(out, "%s%.12s %+.1f%%", i > 0 ? ", " : "", step->suspects[i].commit,
                       100 * step->suspects[i].change);
    if (step->n_suspects > MOST) kg_text_printf(out, ", and %zu more", step->n_suspects - MOST);
}

static void put_foot(const struct kg_step_search *search, bool markdown, struct kg_buffer *out) {
    const struct kg_step_runs *runs = &search->runs;
    const enum kg_medium medium = markdown ? KG_MEDIUM_MARKDOWN : KG_MEDIUM_TEXT;
    kg_buffer_puts(out, markdown ? "\n" : "");
    kg_escape_printf(out, medium, "%zu step%s in %zu figure%s of %zu run%s", search->n_steps,
                     search->n_steps == 1 ? "" : "s", search->n_figures, search->n_figures == 1 ? "" : "s",
                     runs->line.n_items, runs->line.n_items == 1 ? "" : "s");
    if (runs->why_by_time) kg_escape_printf(out, medium, ", taken by time: %s", runs->why_by_time);
    else if (runs->side.n_items > 0) kg_escape_printf(out, medium, "; %zu runs of other branches", runs->side.n_items);
    kg_buffer_puts(out, "\n");
}

static enum kg_status print(const struct kg_step_search *search, const struct kg_rows_options *format,
                            struct kg_error *err) {
    static const char *const NAMES[] = { "first_run", "commits", "case",     "figure",  "unit", "before",
                                         "after",     "change",  "n_before", "n_after", "p",    "kind",
                                         "placed",    "merge",   "suspects", "machine" };
    struct kg_rows rows = KG_ROWS_INIT(format);
    struct kg_buffer out = KG_BUFFER_INIT;
    rows.digits = 4;
    rows.for_people = true;
    kg_rows_add(&rows, KG_COUNT_OF(NAMES), NAMES, NULL);
    for (size_t i = 0; i < search->n_steps; i++) {
        const struct kg_found_step *s = &search->steps[i];
        char commits[32], change[32], merge[16];
        struct kg_buffer suspects = KG_BUFFER_INIT;
        put_suspects(s, &suspects);
        snprintf(merge, sizeof merge, "%.12s", s->merge);
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
                                         kg_cell_of_real(s->p),
                                         kg_cell_of_text(s->creeps ? "creep" : "step"),
                                         kg_cell_of_real(s->creeps ? NAN : s->placed),
                                         kg_cell_of_text(*merge ? merge : NULL),
                                         kg_cell_of_text(s->n_suspects > 0 ? kg_buffer_text(&suspects) : NULL),
                                         kg_cell_of_text(*s->machine ? s->machine : NULL) };
        kg_rows_add(&rows, KG_COUNT_OF(NAMES), NAMES, cells);
        kg_buffer_free(&suspects);
    }
    kg_rows_put(&rows, &out);
    if (!format->json && !format->csv) put_foot(search, format->markdown, &out);
    return kg_cli_print(&out, err);
}

/* The history with the id of its run. */
static enum kg_status find_run(const struct steps_options *o, const char *root, struct kg_history **history, char **id,
                               struct kg_error *err) {
    const char *run = o->run ? o->run : "latest", *place;
    char *dir = NULL;
    enum kg_status status = KG_OK;
    if (kg_cli_asked_is_fleet(&o->asked)) {
        status = kg_cli_asked_open("steps", &o->asked, history, &place, err);
        return status == KG_OK ? kg_filter_find_in(*history, &o->filter, run, id, err) : status;
    }
    status = kg_filter_find("steps", &o->filter, root, run, &dir, err);
    if (status == KG_OK) status = kg_cli_history_open("steps", root, history, err);
    if (status == KG_OK) *id = kg_xstrdup(strrchr(dir, '/') + 1);
    free(dir);
    return status;
}

static enum kg_status find(struct steps_options *o, struct kg_error *err) {
    const char *root = kg_cli_bundles_root(o->asked.bundles);
    struct kg_history *history = NULL;
    const struct kg_regress_call call = { .bundles = o->asked.bundles,
                                          .history = o->asked.history,
                                          .repository = o->repository };
    const char *places[4];
    struct kg_step_search search;
    char *id = NULL;
    kg_cli_repositories(&call, places);
    enum kg_status status = find_run(o, root, &history, &id, err);
    const struct kg_step_options options = { .run = id,
                                             .repositories = places,
                                             .n_most = (size_t)o->n_runs,
                                             .least_change = o->least_change_percent / 100,
                                             .wants = wants,
                                             .arg = o };
    if (status == KG_OK) status = kg_step_search(history, &options, &search, err);
    if (status == KG_OK) {
        status = print(&search, &o->format, err);
        kg_step_search_free(&search);
    }
    kg_cli_history_close("steps", history);
    free(id);
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
        { .name = "repo",
          .kind = KG_OPTION_TEXT,
          .value = &o.repository,
          .metavar = "DIR",
          .help = "git repository that knows the commits (the bundles' own, or the working folder's)" },
        KG_LEAST_CHANGE_OPTION(&o.least_change_percent),
        KG_FILTER_OPTIONS(&o.filter),
        KG_ASKED_OPTIONS(&o.asked),
        KG_ROWS_OPTIONS(&o.format),
    };
    const struct kg_command command = {
        .name = "kigo steps",
        .usage = "[CASE] [--figure PATTERN] [filters] [--json|--csv|--markdown]",
        .summary =
            "Finds where times and rates of cases (a key; * matches any text) changed their level for good, latest\n"
            "first, with the commits between which it happened and how probable that place is. Runs come along the\n"
            "first parents of the run's commit: a step that a merge brought names the merge, and what the runs of the\n"
            "merged commits gave; `machine` says what else changed at the same run: clocks, throttling, temperature, "
            "the\n"
            "kernel, which GPU it is. Levels are found by optimal partitioning (B. Jackson et al. 2005) of the runs'\n"
            "medians, freed of what canaries explain. A step holds beyond what noise of any kind does in 1 of 1000\n"
            "histories; it needs 8 runs on each side, or 3 after 64.",
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
