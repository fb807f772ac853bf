/* A run: what it was, what is not green, its cases by group, what was skipped. */
#include "base/clock.h"
#include "base/size.h"
#include "bundle/records.h"
#include "history/store.h"
#include "web/pages.h"
#include <stdlib.h>
#include <string.h>

static void put_fact(struct kg_page *page, const char *name, const char *value) {
    char cut[192];
    if (!value || !*value) return;
    kg_page_cell(page, name);
    kg_page_cell(page, kg_web_cut(value, cut));
}

static void put_facts(const struct kg_web_view *view, const json_t *run) {
    static const struct {
        const char *name, *column;
    } TEXTS[] = { { "GPU", "gpu_name" },      { "CPU", "cpu_model" },
                  { "system", "os" },         { "kernel", "kernel" },
                  { "compiler", "compiler" }, { "flags", "cflags" },
                  { "seed", "seed" },         { "manifest SHA-256", "manifest_sha256" } };
    struct kg_page *page = view->page;
    char started[KG_UTC_TEXT_SIZE];
    kg_clock_utc_text(kg_json_int(run, "started_us", 0), started);
    kg_page_facts(page);
    put_fact(page, "state", kg_json_text(run, "state"));
    put_fact(page, "started", started);
    kg_page_cell(page, "sealed after");
    kg_page_cellf(page, "%.1f s",
                  ((double)kg_json_int(run, "sealed_us", 0) - (double)kg_json_int(run, "started_us", 0)) / 1e6);
    if (kg_json_text(run, "git_commit")) {
        kg_page_cell(page, "commit");
        kg_page_cellf(page, "%s%s", kg_json_text(run, "git_commit"),
                      kg_json_int(run, "git_dirty", 0) ? ", with changes" : "");
    }
    put_fact(page, "branch", kg_json_text(run, "git_branch"));
    for (size_t i = 0; i < KG_COUNT_OF(TEXTS); i++) put_fact(page, TEXTS[i].name, kg_json_text(run, TEXTS[i].column));
    put_fact(page, "runner", kg_json_text(run, "runner"));
    const char *signature = kg_json_text(run, "sig_state");
    put_fact(page, "signature", signature && strcmp(signature, "unsigned") == 0 ? "none" : "there");
    kg_page_cell(page, "to prove it");
    kg_page_cellf(page, "kigo %s %s", kg_history_is_store(view->history) ? "pull" : "verify", view->name);
    kg_page_table_end(page);
}

/* What the run can be held against. */
static enum kg_status put_links(const struct kg_web_view *view, struct kg_error *err) {
    char *before = NULL, *url = kg_xasprintf("/run/%s/changes", view->name);
    const enum kg_status status = kg_browse_run_before(view->history, view->name, &before, err);
    kg_web_link(view->page, url, "What regress says of it");
    free(url);
    if (before) {
        url = kg_xasprintf("/compare?a=%s&b=%s", before, view->name);
        kg_web_link(view->page, url, "Beside the run before it");
        free(url);
    }
    free(before);
    return status;
}

static enum kg_status put_red(const struct kg_web_view *view, struct kg_error *err) {
    const struct kg_browse_range range = { .n_most = KG_WEB_ROWS + 1 };
    json_t *cases = NULL;
    const enum kg_status status =
        kg_browse_cases(view->history, view->name, &(struct kg_browse_cases){ .status = "red" }, range, &cases, err);
    if (status != KG_OK) return status;
    struct kg_page *page = view->page;
    kg_page_section(page, "Not green");
    if (json_array_size(cases) == 0) kg_page_text(page, "No case failed, crashed, ran out of time or was left out.");
    kg_web_put_cases(view, cases);
    if (json_array_size(cases) > KG_WEB_ROWS) {
        char *url = kg_xasprintf("/run/%s/cases?status=red", view->name);
        kg_web_link(page, url, "All that is not green");
        free(url);
    }
    json_decref(cases);
    return KG_OK;
}

static void put_group(const struct kg_web_view *view, const json_t *group) {
    static const char *const COUNTS[] = { "n", "n_pass", "n_red", "n_skip" };
    const char *layer = kg_json_text(group, "layer"), *op = kg_json_text(group, "op");
    struct kg_buffer url = KG_BUFFER_INIT;
    char cut[192];
    kg_buffer_printf(&url, "/run/%s/cases", view->name);
    kg_web_url_add(&url, "layer", layer);
    kg_web_url_add(&url, "op", op);
    kg_web_cell_text(view->page, group, "layer");
    if (url.len < KG_WEB_MAX_VALUE) kg_page_cell_link(view->page, kg_buffer_text(&url), kg_web_cut(op, cut));
    else kg_page_cell(view->page, kg_web_cut(op, cut));
    for (size_t i = 0; i < KG_COUNT_OF(COUNTS); i++)
        kg_page_cellf(view->page, "%lld", (long long)kg_json_int(group, COUNTS[i], 0));
    kg_web_cell_seconds(view->page, group);
    kg_buffer_free(&url);
}

/* More groups than a page holds are of a history that nobody names so: their cases are in the list of all. */
static enum kg_status put_groups(const struct kg_web_view *view, struct kg_error *err) {
    enum { MOST = 500 };
    static const struct kg_column COLUMNS[] = { { "layer", KG_COLUMN_TEXT },    { "operation", KG_COLUMN_NAME },
                                                { "cases", KG_COLUMN_NUMBER },  { "pass", KG_COLUMN_NUMBER },
                                                { "red", KG_COLUMN_NUMBER },    { "skip", KG_COLUMN_NUMBER },
                                                { "seconds", KG_COLUMN_NUMBER } };
    json_t *groups = NULL;
    const enum kg_status status = kg_browse_groups(view->history, view->name, &groups, err);
    if (status != KG_OK) return status;
    const size_t n = json_array_size(groups);
    kg_page_section(view->page, "Cases by operation");
    char *url = kg_xasprintf("/run/%s/cases", view->name);
    kg_web_link(view->page, url, "All cases, by name");
    free(url);
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < n && i < MOST; i++) put_group(view, json_array_get(groups, i));
    kg_page_table_end(view->page);
    if (n > MOST) kg_page_text(view->page, "And %zu more groups.", n - MOST);
    json_decref(groups);
    return KG_OK;
}

static enum kg_status put_skips(const struct kg_web_view *view, struct kg_error *err) {
    static const struct kg_column COLUMNS[] = { { "skipped", KG_COLUMN_NUMBER },
                                                { "because", KG_COLUMN_TEXT },
                                                { "for instance", KG_COLUMN_NAME } };
    json_t *skips = NULL;
    const enum kg_status status = kg_browse_skips(view->history, view->name, KG_WEB_ROWS, &skips, err);
    if (status != KG_OK) return status;
    if (json_array_size(skips) > 0) kg_page_section(view->page, "Skipped");
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < json_array_size(skips); i++) {
        const json_t *skip = json_array_get(skips, i);
        kg_page_cellf(view->page, "%lld", (long long)kg_json_int(skip, "n", 0));
        kg_web_cell_text(view->page, skip, "reason");
        kg_web_cell_text(view->page, skip, "case_key");
    }
    kg_page_table_end(view->page);
    json_decref(skips);
    return KG_OK;
}

enum kg_status kg_web_page_run(struct kg_web_view *view, struct kg_error *err) {
    json_t *run = NULL;
    enum kg_status status = kg_web_run(view, &run, err);
    if (status != KG_OK) return status;
    char *title = kg_xasprintf("kigo run %s", view->name);
    kg_page_title(view->page, title, kg_json_text(run, "verdict"));
    free(title);
    kg_page_section(view->page, "Run");
    put_facts(view, run);
    json_decref(run);
    status = put_links(view, err);
    if (status == KG_OK) status = put_red(view, err);
    if (status == KG_OK) status = put_groups(view, err);
    return status == KG_OK ? put_skips(view, err) : status;
}
