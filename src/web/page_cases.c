/* Cases of a run by name, as many as a page holds. */
#include "base/size.h"
#include "bundle/records.h"
#include "web/pages.h"
#include <stdlib.h>
#include <string.h>

static bool is_given(const struct kg_web_view *view, const char *name) {
    for (size_t i = 0; i < view->request->n_params; i++)
        if (strcmp(view->request->params[i].name, name) == 0) return true;
    return false;
}

static void put_form(const struct kg_web_view *view) {
    static const char *const STATUSES[] = { "red", "pass", "fail", "crash", "timeout", "norun", "skip", NULL };
    static const char *const FIELDS[] = { "layer", "op" };
    char *path = kg_xasprintf("/run/%s/cases", view->name);
    kg_web_form(view->page, path);
    for (size_t i = 0; i < KG_COUNT_OF(FIELDS); i++)
        if (is_given(view, FIELDS[i])) kg_web_field(view->page, FIELDS[i], FIELDS[i], kg_web_param(view, FIELDS[i]));
    kg_web_choice(view->page, "status", "status", STATUSES, kg_web_param(view, "status"));
    kg_web_form_end(view->page, "Show");
    free(path);
}

void kg_web_put_cases(const struct kg_web_view *view, const json_t *cases) {
    static const struct kg_column COLUMNS[] = { { "status", KG_COLUMN_STATUS },
                                                { "case", KG_COLUMN_NAME },
                                                { "seconds", KG_COLUMN_NUMBER },
                                                { "error/limit", KG_COLUMN_NUMBER },
                                                { "reason", KG_COLUMN_TEXT } };
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < kg_web_shown(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        kg_web_cell_text(view->page, c, "status");
        kg_web_cell_case(view->page, kg_json_int(c, "case_id", 0), kg_json_text(c, "case_key"));
        kg_web_cell_seconds(view->page, c);
        kg_web_cell_margin(view->page, c);
        kg_web_cell_text(view->page, c, "reason");
    }
    kg_page_table_end(view->page);
}

enum kg_status kg_web_page_cases(struct kg_web_view *view, struct kg_error *err) {
    const struct kg_browse_cases wanted = { .layer = is_given(view, "layer") ? kg_web_param(view, "layer") : NULL,
                                            .op = is_given(view, "op") ? kg_web_param(view, "op") : NULL,
                                            .status = kg_web_param(view, "status") };
    struct kg_browse_range range;
    json_t *run = NULL, *cases = NULL;
    enum kg_status status = kg_web_run(view, &run, err);
    if (status == KG_OK) status = kg_web_range(view, &range, err);
    if (status == KG_OK) status = kg_browse_cases(view->history, view->name, &wanted, range, &cases, err);
    if (status == KG_OK) {
        char *title = kg_xasprintf("kigo run %s: cases", view->name), *url = kg_xasprintf("/run/%s", view->name);
        kg_page_title(view->page, title, kg_json_text(run, "verdict"));
        kg_web_link(view->page, url, "The run");
        kg_page_section(view->page, "Cases");
        put_form(view);
        if (json_array_size(cases) == 0) kg_page_text(view->page, "The run has no such case.");
        kg_web_put_cases(view, cases);
        kg_web_pager(view, cases);
        free(url);
        free(title);
    }
    json_decref(cases);
    json_decref(run);
    return status;
}
