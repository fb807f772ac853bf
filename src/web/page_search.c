/* Runs and cases by a part of their names. */
#include "base/size.h"
#include "bundle/records.h"
#include "web/pages.h"
#include <string.h>

static void put_found_runs(const struct kg_web_view *view, const json_t *runs) {
    static const struct kg_column COLUMNS[] = { { "run", KG_COLUMN_NAME },
                                                { "started UTC", KG_COLUMN_TEXT },
                                                { "verdict", KG_COLUMN_STATUS },
                                                { "branch", KG_COLUMN_TEXT },
                                                { "commit", KG_COLUMN_NAME } };
    kg_page_section(view->page, "Runs");
    if (json_array_size(runs) == 0) kg_page_text(view->page, "No run's id, commit or branch begins so.");
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < kg_web_shown(runs); i++) {
        const json_t *run = json_array_get(runs, i);
        kg_web_cell_run(view->page, kg_json_text(run, "bundle_id"));
        kg_web_cell_time(view->page, run, "started_us");
        kg_web_cell_text(view->page, run, "verdict");
        kg_web_cell_text(view->page, run, "git_branch");
        kg_web_cell_commit(view->page, run);
    }
    kg_page_table_end(view->page);
    if (json_array_size(runs) > KG_WEB_ROWS) kg_page_text(view->page, "And more.");
}

static void put_found_cases(const struct kg_web_view *view, const json_t *cases) {
    static const struct kg_column COLUMNS[] = { { "case", KG_COLUMN_NAME } };
    kg_page_section(view->page, "Cases");
    if (json_array_size(cases) == 0) kg_page_text(view->page, "No case's name holds it.");
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < kg_web_shown(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        kg_web_cell_case(view->page, kg_json_int(c, "case_id", 0), kg_json_text(c, "case_key"));
    }
    kg_page_table_end(view->page);
    if (json_array_size(cases) > KG_WEB_ROWS) kg_page_text(view->page, "And more.");
}

enum kg_status kg_web_page_search(struct kg_web_view *view, struct kg_error *err) {
    const char *text = kg_web_param(view, "q");
    json_t *runs = NULL, *cases = NULL;
    enum kg_status status = KG_OK;
    if (strlen(text) > KG_WEB_MAX_VALUE / 4) return kg_fail(err, KG_ERR_USAGE, "What is looked for is too long.");
    if (*text) status = kg_browse_find_runs(view->history, text, KG_WEB_ROWS + 1, &runs, err);
    if (*text && status == KG_OK) status = kg_browse_find_cases(view->history, text, KG_WEB_ROWS + 1, &cases, err);
    if (status == KG_OK) {
        kg_page_title(view->page, "kigo: search", NULL);
        kg_page_section(view->page, "Search");
        kg_web_form(view->page, "/search");
        kg_web_field(view->page, "run, commit, branch or case", "q", text);
        kg_web_form_end(view->page, "Search");
        if (runs) put_found_runs(view, runs);
        if (cases) put_found_cases(view, cases);
    }
    json_decref(cases);
    json_decref(runs);
    return status;
}
