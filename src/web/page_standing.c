/* What is open: what regress says of each machine's newest run, and what people said of runs and cases. */
#include "base/clock.h"
#include "base/size.h"
#include "bundle/records.h"
#include "history/regress.h"
#include "history/shelf.h"
#include "report/sections.h"
#include "web/pages.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_MACHINES = 6 };
static const double LEAST_CHANGE = 0.03; /* as kigo regress */
/* Who else asks waits meanwhile: runs of a fleet that are judged come to this machine first. */
static const uint64_t MOST_NS = 20000000000;

static bool judged(const struct kg_web_view *view, const char *bundle_id, struct kg_regression *regression,
                   struct kg_error *why) {
    const char *root = NULL;
    if (kg_shelf_root(view->history, &root, why) != KG_OK) return false;
    const struct kg_regress_options options = { .root = root,
                                                .policy_root = view->options->root,
                                                .run = bundle_id,
                                                .repositories = view->options->repositories,
                                                .least_change = LEAST_CHANGE,
                                                .now_us = kg_clock_utc_us() };
    return kg_regress(view->history, &options, regression, why) == KG_OK;
}

enum kg_status kg_web_page_changes(struct kg_web_view *view, struct kg_error *err) {
    struct kg_regression regression;
    struct kg_error why;
    json_t *run = NULL;
    const enum kg_status status = kg_web_run(view, &run, err);
    if (status != KG_OK) return status;
    const bool has = judged(view, view->name, &regression, &why);
    const struct kg_report report = { .regression = has ? &regression : NULL,
                                      .not_compared = has ? NULL : why.message };
    char *title = kg_xasprintf("kigo run %s: against its history", view->name),
         *url = kg_xasprintf("/run/%s", view->name);
    kg_page_title(view->page, title, kg_json_text(run, "verdict"));
    kg_web_link(view->page, url, "The run");
    kg_section_changes(&report, view->page);
    if (has) kg_regression_free(&regression);
    free(url);
    free(title);
    json_decref(run);
    return KG_OK;
}

static const char *word_of(const struct kg_regression *r) {
    return r->exit_code == KG_EXIT_OK ? "no regression" : r->exit_code == KG_EXIT_FAILED ? "regressed" : "inconclusive";
}

static void put_machine(const struct kg_web_view *view, const json_t *run, bool has_time) {
    const char *id = kg_json_text(run, "bundle_id");
    struct kg_regression regression;
    struct kg_error why;
    const bool has = has_time && judged(view, id, &regression, &why);
    char cut[192], *url = kg_xasprintf("/run/%s/changes", id);
    kg_web_cell_text(view->page, run, "machine");
    kg_web_cell_text(view->page, run, "git_branch");
    kg_page_cell_link(view->page, url, id);
    kg_page_cell(view->page, !has_time ? "not yet" : has ? word_of(&regression) : "incomparable");
    if (has) {
        kg_page_cellf(view->page, "%zu", regression.counts[KG_JUDGED_WORSE]);
        kg_page_cellf(view->page, "%zu", regression.counts[KG_JUDGED_MISSING]);
        kg_page_cellf(view->page, "%zu", regression.n_waived);
        kg_page_cell(view->page, regression.n_reasons > 0 ? kg_web_cut(regression.reasons[0], cut) : NULL);
        kg_regression_free(&regression);
    } else {
        for (int i = 0; i < 3; i++) kg_page_cell(view->page, NULL);
        kg_page_cell(view->page, has_time ? kg_web_cut(why.message, cut) : "the next call goes on");
    }
    free(url);
}

static enum kg_status put_regressions(const struct kg_web_view *view, struct kg_error *err) {
    static const struct kg_column COLUMNS[] = { { "machine", KG_COLUMN_TEXT },    { "branch", KG_COLUMN_TEXT },
                                                { "newest run", KG_COLUMN_NAME }, { "judged", KG_COLUMN_STATUS },
                                                { "worse", KG_COLUMN_NUMBER },    { "missing", KG_COLUMN_NUMBER },
                                                { "waived", KG_COLUMN_NUMBER },   { "because", KG_COLUMN_TEXT } };
    const uint64_t begin_ns = kg_clock_monotonic_ns();
    json_t *runs = NULL;
    const enum kg_status status = kg_browse_newest(view->history, MOST_MACHINES + 1, &runs, err);
    if (status != KG_OK) return status;
    kg_page_section(view->page, "Open regressions");
    kg_page_text(view->page, "The newest run of each machine, build and request, against the runs before it.");
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < json_array_size(runs) && i < MOST_MACHINES; i++)
        put_machine(view, json_array_get(runs, i), kg_clock_monotonic_ns() - begin_ns < MOST_NS);
    kg_page_table_end(view->page);
    if (json_array_size(runs) > MOST_MACHINES)
        kg_page_text(view->page, "Only the newest %d of them are judged here.", MOST_MACHINES);
    json_decref(runs);
    return KG_OK;
}

static enum kg_status put_annotations(const struct kg_web_view *view, struct kg_error *err) {
    static const struct kg_column COLUMNS[] = { { "said UTC", KG_COLUMN_TEXT },  { "kind", KG_COLUMN_STATUS },
                                                { "until UTC", KG_COLUMN_TEXT }, { "case", KG_COLUMN_NAME },
                                                { "run", KG_COLUMN_NAME },       { "author", KG_COLUMN_TEXT },
                                                { "why", KG_COLUMN_TEXT } };
    static const char *const TEXTS[] = { "author", "text" };
    json_t *rows = NULL;
    const enum kg_status status = kg_browse_annotations(view->history, KG_WEB_ROWS, &rows, err);
    if (status != KG_OK) return status;
    kg_page_section(view->page, "Waivers and notes");
    if (json_array_size(rows) == 0) kg_page_text(view->page, "Nobody said anything.");
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const int64_t until_us = kg_json_int(row, "until_us", 0);
        const bool is_over = until_us != 0 && until_us < kg_clock_utc_us();
        const char *run = kg_json_text(row, "bundle_id");
        kg_web_cell_time(view->page, row, "utc_us");
        kg_page_cellf(view->page, "%s%s", kg_json_text(row, "kind"), is_over ? ", over" : "");
        kg_web_cell_time(view->page, row, "until_us");
        kg_web_cell_text(view->page, row, "case_key");
        if (run) kg_web_cell_run(view->page, run);
        else kg_page_cell(view->page, NULL);
        for (size_t t = 0; t < KG_COUNT_OF(TEXTS); t++) kg_web_cell_text(view->page, row, TEXTS[t]);
    }
    kg_page_table_end(view->page);
    json_decref(rows);
    return KG_OK;
}

enum kg_status kg_web_page_standing(struct kg_web_view *view, struct kg_error *err) {
    kg_page_title(view->page, "kigo: what is open", NULL);
    const enum kg_status status = put_regressions(view, err);
    return status == KG_OK ? put_annotations(view, err) : status;
}
