/* A case: what it gave in each run, its timings over runs with the steps among them, its figures in one run. */
#include "base/options.h"
#include "base/quantity.h"
#include "base/size.h"
#include "bundle/records.h"
#include "history/step_search.h"
#include "web/chart.h"
#include "web/pages.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 200, MOST_CHARTS = 6, LEAST_CHANGE_PERCENT = 3 };

static void put_runs(const struct kg_web_view *view, const json_t *rows) {
    static const struct kg_column COLUMNS[] = { { "run", KG_COLUMN_NAME },           { "started UTC", KG_COLUMN_TEXT },
                                                { "status", KG_COLUMN_STATUS },      { "seconds", KG_COLUMN_NUMBER },
                                                { "error/limit", KG_COLUMN_NUMBER }, { "machine", KG_COLUMN_TEXT },
                                                { "commit", KG_COLUMN_NAME },        { "definition", KG_COLUMN_NAME },
                                                { "reason", KG_COLUMN_TEXT } };
    kg_page_section(view->page, "Runs");
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < kg_web_shown(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        kg_web_cell_run(view->page, kg_json_text(row, "bundle_id"));
        kg_web_cell_time(view->page, row, "started_us");
        kg_web_cell_text(view->page, row, "status");
        kg_web_cell_seconds(view->page, row);
        kg_web_cell_margin(view->page, row);
        kg_web_cell_text(view->page, row, "machine");
        kg_web_cell_commit(view->page, row);
        kg_page_cellf(view->page, "%.8s", kg_json_text(row, "def_sha"));
        kg_web_cell_text(view->page, row, "reason");
    }
    kg_page_table_end(view->page);
    kg_web_pager(view, rows);
}

static bool is_key(void *arg, const struct kg_case_info *c, const struct kg_figure_info *figure) {
    (void)figure;
    return strcmp(c->key, arg) == 0;
}

static void put_steps(const struct kg_web_view *view, const struct kg_step_search *search) {
    static const struct kg_column COLUMNS[] = { { "figure", KG_COLUMN_NAME },   { "change", KG_COLUMN_NUMBER },
                                                { "before", KG_COLUMN_NUMBER }, { "after", KG_COLUMN_NUMBER },
                                                { "from run", KG_COLUMN_NAME }, { "commit", KG_COLUMN_NAME },
                                                { "besides", KG_COLUMN_TEXT } };
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < search->n_steps && i < KG_WEB_ROWS; i++) {
        const struct kg_found_step *step = &search->steps[i];
        char cut[192];
        kg_page_cell(view->page, kg_web_cut(step->figure->name, cut));
        kg_page_cell(view->page, kg_quantity_percent(step->change).text);
        kg_page_cell(view->page, kg_quantity_of_unit(step->before, step->figure->unit).text);
        kg_page_cell(view->page, kg_quantity_of_unit(step->after, step->figure->unit).text);
        kg_web_cell_run(view->page, step->first_after->bundle_id);
        kg_page_cellf(view->page, "%.12s", step->first_after->commit ? step->first_after->commit : "");
        kg_page_cell(view->page, kg_web_cut(step->machine, cut));
    }
    kg_page_table_end(view->page);
}

/* A timing's rows, from `begin` to before `end`, with the steps that were found in it. */
static void put_chart(const struct kg_web_view *view, const json_t *rows, size_t begin, size_t end,
                      const struct kg_step_search *search) {
    const json_t *first = json_array_get(rows, begin);
    const char *name = kg_json_text(first, "name"), *unit = kg_json_text(first, "unit");
    const size_t n = end - begin, n_steps = search ? search->n_steps : 0;
    double *values = kg_xcalloc(n, sizeof *values);
    struct kg_chart_mark *marks = kg_xcalloc(n_steps + 1, sizeof *marks);
    struct kg_quantity *texts = kg_xcalloc(n_steps + 1, sizeof *texts);
    size_t n_marks = 0;
    for (size_t i = 0; i < n; i++) values[i] = kg_json_number(json_array_get(rows, begin + i), "value", NAN);
    for (size_t s = 0; s < n_steps; s++) {
        const struct kg_found_step *step = &search->steps[s];
        if (strcmp(step->figure->name, name) != 0 || strcmp(step->figure->unit, unit) != 0) continue;
        size_t i = 0;
        while (i < n &&
               strcmp(kg_json_text(json_array_get(rows, begin + i), "bundle_id"), step->first_after->bundle_id) != 0)
            i++;
        if (i == n) continue;
        texts[n_marks] = kg_quantity_percent(step->change);
        marks[n_marks] = (struct kg_chart_mark){ i, texts[n_marks].text };
        n_marks++;
    }
    const struct kg_chart chart = { name, unit, values, n, marks, n_marks };
    kg_chart_put(&chart, view->page);
    free(texts);
    free(marks);
    free(values);
}

static void put_charts(const struct kg_web_view *view, const json_t *rows, const struct kg_step_search *search) {
    const size_t n = json_array_size(rows);
    size_t n_charts = 0;
    for (size_t begin = 0, end; begin < n; begin = end) {
        const json_t *first = json_array_get(rows, begin);
        for (end = begin + 1; end < n; end++) {
            const json_t *row = json_array_get(rows, end);
            if (strcmp(kg_json_text(row, "name"), kg_json_text(first, "name")) != 0 ||
                strcmp(kg_json_text(row, "unit"), kg_json_text(first, "unit")) != 0)
                break;
        }
        if (n_charts++ < MOST_CHARTS) put_chart(view, rows, begin, end, search);
    }
    if (n_charts > MOST_CHARTS) kg_page_text(view->page, "And %zu more timings.", n_charts - MOST_CHARTS);
}

/* Without steps the timings are shown all the same. */
static enum kg_status put_timings(const struct kg_web_view *view, char *key, const char *newest, struct kg_error *err) {
    const struct kg_step_options options = { .run = newest,
                                             .repositories = view->options->repositories,
                                             .n_most = MOST_RUNS,
                                             .least_change = LEAST_CHANGE_PERCENT / 100.0,
                                             .rows_of_store = true,
                                             .wants = is_key,
                                             .arg = key };
    struct kg_step_search search;
    struct kg_error why;
    json_t *rows = NULL;
    const enum kg_status status = kg_browse_timings(view->history, key, MOST_RUNS, &rows, err);
    if (status != KG_OK) return status;
    if (json_array_size(rows) > 0) {
        const bool searched = kg_step_search(view->history, &options, &search, &why) == KG_OK;
        kg_page_section(view->page, "Timings over runs");
        if (!searched) kg_page_text(view->page, "Steps are not marked: %s.", why.message);
        else if (search.n_steps == 0)
            kg_page_text(view->page, "No step of %d%% or more in %zu runs that compare with the newest.",
                         LEAST_CHANGE_PERCENT, search.runs.line.n_items);
        put_charts(view, rows, searched ? &search : NULL);
        if (searched) put_steps(view, &search);
        if (searched) kg_step_search_free(&search);
    }
    json_decref(rows);
    return KG_OK;
}

static void cell_quantity(const struct kg_web_view *view, const json_t *row, const char *column) {
    const json_t *number = json_object_get(row, column);
    const char *unit = kg_json_text(row, "unit");
    kg_page_cell(view->page,
                 json_is_number(number) ? kg_quantity_of_unit(json_number_value(number), unit ? unit : "").text : NULL);
}

static enum kg_status put_figures(const struct kg_web_view *view, const char *key, const char *run,
                                  struct kg_error *err) {
    static const struct kg_column COLUMNS[] = { { "figure", KG_COLUMN_NAME },  { "value", KG_COLUMN_NUMBER },
                                                { "limit", KG_COLUMN_NUMBER }, { "from", KG_COLUMN_NUMBER },
                                                { "to", KG_COLUMN_NUMBER },    { "n", KG_COLUMN_NUMBER },
                                                { "counts", KG_COLUMN_TEXT } };
    static const char *const QUANTITIES[] = { "value", "tol", "ci_lo", "ci_hi" };
    json_t *rows = NULL;
    const enum kg_status status = kg_browse_figures(view->history, run, key, &rows, err);
    if (status != KG_OK) return status;
    kg_page_section(view->page, "Figures of one run");
    kg_page_text(view->page, "Of %s.", run);
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        kg_web_cell_text(view->page, row, "name");
        for (size_t q = 0; q < KG_COUNT_OF(QUANTITIES); q++) cell_quantity(view, row, QUANTITIES[q]);
        const json_t *n = json_object_get(row, "n");
        if (json_is_integer(n)) kg_page_cellf(view->page, "%lld", (long long)json_integer_value(n));
        else kg_page_cell(view->page, NULL);
        kg_page_cell(view->page, kg_json_int(row, "valid", 1) ? "" : "no");
    }
    kg_page_table_end(view->page);
    json_decref(rows);
    return KG_OK;
}

/* The run whose figures are listed: the one asked for, or the newest. */
static enum kg_status chosen_run(const struct kg_web_view *view, const json_t *rows, const char **run,
                                 struct kg_error *err) {
    const char *asked = kg_web_param(view, "run");
    json_t *found = NULL;
    *run = kg_json_text(json_array_get(rows, 0), "bundle_id");
    if (!*asked) return KG_OK;
    const enum kg_status status = kg_browse_run(view->history, asked, &found, err);
    json_decref(found);
    if (status == KG_OK) *run = asked;
    return status;
}

enum kg_status kg_web_page_case(struct kg_web_view *view, struct kg_error *err) {
    struct kg_browse_range range;
    struct kg_error unused;
    int64_t case_id = 0;
    char *key = NULL;
    const char *run = NULL;
    json_t *rows = NULL;
    if (kg_parse_i64(view->name, &case_id, &unused) != KG_OK)
        return kg_fail(err, KG_ERR_NOT_FOUND, "'%.80s' is no case's number", view->name);
    enum kg_status status = kg_web_range(view, &range, err);
    if (status == KG_OK) status = kg_browse_key(view->history, case_id, &key, err);
    if (status == KG_OK) status = kg_browse_case(view->history, key, range, &rows, err);
    if (status == KG_OK && json_array_size(rows) == 0)
        status = kg_fail(err, KG_ERR_NOT_FOUND, "no run has this case here");
    if (status == KG_OK) status = chosen_run(view, rows, &run, err);
    if (status == KG_OK) {
        kg_page_title(view->page, "kigo: a case", NULL);
        kg_page_text(view->page, "%s", key);
        status = put_timings(view, key, kg_json_text(json_array_get(rows, 0), "bundle_id"), err);
    }
    if (status == KG_OK) status = put_figures(view, key, run, err);
    if (status == KG_OK) put_runs(view, rows);
    json_decref(rows);
    free(key);
    return status;
}
