/* The runs of a history. */
#include "base/size.h"
#include "bundle/records.h"
#include "history/store.h"
#include "web/pages.h"

static void put_filters(const struct kg_web_view *view) {
    static const char *const VERDICTS[] = { "pass", "fail", "incomplete", NULL };
    static const struct {
        const char *label, *name;
    } FIELDS[] = { { "GPU or CPU", "machine" }, { "branch", "branch" }, { "commit", "commit" } };
    kg_web_form(view->page, "/");
    for (size_t i = 0; i < KG_COUNT_OF(FIELDS); i++)
        kg_web_field(view->page, FIELDS[i].label, FIELDS[i].name, kg_web_param(view, FIELDS[i].name));
    if (kg_history_is_store(view->history)) kg_web_field(view->page, "runner", "runner", kg_web_param(view, "runner"));
    kg_web_choice(view->page, "verdict", "verdict", VERDICTS, kg_web_param(view, "verdict"));
    kg_web_form_end(view->page, "Show");
}

static void put_run(struct kg_page *page, const json_t *run, bool of_fleet) {
    static const char *const COUNTS[] = { "n_pass", "n_fail", "n_lost", "n_skip" };
    kg_web_cell_run(page, kg_json_text(run, "bundle_id"));
    kg_web_cell_time(page, run, "started_us");
    kg_web_cell_text(page, run, "verdict");
    for (size_t i = 0; i < KG_COUNT_OF(COUNTS); i++)
        kg_page_cellf(page, "%lld", (long long)kg_json_int(run, COUNTS[i], 0));
    kg_page_cellf(page, "%.1f",
                  ((double)kg_json_int(run, "sealed_us", 0) - (double)kg_json_int(run, "started_us", 0)) / 1e6);
    kg_web_cell_text(page, run, "machine");
    kg_web_cell_text(page, run, "git_branch");
    kg_web_cell_commit(page, run);
    if (of_fleet) kg_web_cell_text(page, run, "runner");
}

enum kg_status kg_web_page_runs(struct kg_web_view *view, struct kg_error *err) {
    static const struct kg_column COLUMNS[] = { { "run", KG_COLUMN_NAME },       { "started UTC", KG_COLUMN_TEXT },
                                                { "verdict", KG_COLUMN_STATUS }, { "pass", KG_COLUMN_NUMBER },
                                                { "fail", KG_COLUMN_NUMBER },    { "lost", KG_COLUMN_NUMBER },
                                                { "skip", KG_COLUMN_NUMBER },    { "seconds", KG_COLUMN_NUMBER },
                                                { "machine", KG_COLUMN_TEXT },   { "branch", KG_COLUMN_TEXT },
                                                { "commit", KG_COLUMN_NAME },    { "runner", KG_COLUMN_TEXT } };
    const bool of_fleet = kg_history_is_store(view->history);
    const struct kg_browse_runs wanted = { .machine = kg_web_param(view, "machine"),
                                           .branch = kg_web_param(view, "branch"),
                                           .commit = kg_web_param(view, "commit"),
                                           .verdict = kg_web_param(view, "verdict"),
                                           .runner = kg_web_param(view, "runner") };
    struct kg_browse_range range;
    json_t *runs = NULL;
    enum kg_status status = kg_web_range(view, &range, err);
    if (status == KG_OK) status = kg_browse_runs(view->history, &wanted, range, &runs, err);
    if (status != KG_OK) return status;
    kg_page_title(view->page, "kigo: runs", NULL);
    kg_page_section(view->page, "Runs");
    put_filters(view);
    if (json_array_size(runs) == 0) kg_page_text(view->page, "No such run is here.");
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS) - !of_fleet);
    for (size_t i = 0; i < kg_web_shown(runs); i++) put_run(view->page, json_array_get(runs, i), of_fleet);
    kg_page_table_end(view->page);
    kg_web_pager(view, runs);
    json_decref(runs);
    return KG_OK;
}
