/* The runs of a root, and what became of their figures from run to run. */
#include "base/size.h"
#include "history/store.h"
#include "report/plot.h"
#include "report/sections.h"
#include "report/timelines.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Newest first, as SQL returns them; numbers on the page count from the oldest. */
struct runs {
    json_t *list; /* objects with the columns of SQL */
    struct kg_history *history;
    const char *limit;
};

static bool add_run(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    json_t *run = json_object();
    if (!cells) return json_decref(run), true;
    for (size_t i = 0; i < n_columns; i++)
        json_object_set_new(run, names[i],
                            cells[i].kind == KG_CELL_INT    ? json_integer(cells[i].integer)
                            : cells[i].kind == KG_CELL_TEXT ? json_stringn(cells[i].text, cells[i].size_bytes)
                                                            : json_null());
    json_array_append_new(arg, run);
    return true;
}

static enum kg_status load_runs(struct runs *runs, struct kg_error *err) {
#define RUNS(order, of_run, of_case, of_result, digest)                                                                \
    "SELECT b.bundle_id, b.bundle_no, b.verdict, b.state, b.started_us, b.sealed_us, b.n_planned, b.n_pass, b.n_fail," \
    " b.n_crash + b.n_timeout + b.n_norun AS n_lost, b.n_skip, b.git_commit, b.git_dirty, b.manifest_sha256,"          \
    " coalesce(e.gpu_name, e.cpu_model, '') AS machine, b.comparison_key FROM bundle b"                                \
    " LEFT JOIN env e ON e.env_id = b.env_id ORDER BY b.started_us DESC, b.bundle_id" order                            \
    " DESC LIMIT CAST(?1 AS BIGINT)"
    static const struct kg_sql SQL = KG_SQL_BOTH(RUNS);
    runs->list = json_array();
    return kg_history_ask(runs->history, &SQL, &runs->limit, 1, add_run, runs->list, err);
}

/* What was asked of a run: the verb, its report, and whether some cases were chosen. */
static void cell_asked(const json_t *run, struct kg_page *page) {
    static const char *const CHOICES[] = { "cases", "filter", "layers" };
    json_t *key = json_loads(kg_report_text(run, "comparison_key"), JSON_ALLOW_NUL, NULL);
    const char *verb = json_string_value(json_object_get(key, "verb")),
               *report = json_string_value(json_object_get(key, "report"));
    bool chosen = json_number_value(json_object_get(key, "sample")) > 0;
    for (size_t i = 0; i < KG_COUNT_OF(CHOICES); i++)
        chosen = chosen || json_array_size(json_object_get(key, CHOICES[i])) > 0;
    kg_page_cellf(page, "%s%s%s%s", verb ? verb : "", report ? " --report " : "", report ? report : "",
                  chosen ? ", some cases" : "");
    json_decref(key);
}

/* The number on the page of the run at a place of the list. */
static size_t number_of(const struct runs *runs, size_t place) {
    return json_array_size(runs->list) - place;
}

static void put_run_rows(const struct runs *runs, size_t from, size_t to, struct kg_page *page) {
    static const struct kg_column COLUMNS[] = { { "no", KG_COLUMN_NUMBER },      { "run", KG_COLUMN_NAME },
                                                { "what", KG_COLUMN_TEXT },      { "verdict", KG_COLUMN_STATUS },
                                                { "pass", KG_COLUMN_NUMBER },    { "fail", KG_COLUMN_NUMBER },
                                                { "lost", KG_COLUMN_NUMBER },    { "skip", KG_COLUMN_NUMBER },
                                                { "seconds", KG_COLUMN_NUMBER }, { "machine", KG_COLUMN_TEXT },
                                                { "manifest", KG_COLUMN_TEXT } };
    static const char *const COUNTS[] = { "n_pass", "n_fail", "n_lost", "n_skip" };
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = from; i < to; i++) {
        const json_t *run = json_array_get(runs->list, i);
        kg_page_cellf(page, "%zu", number_of(runs, i));
        kg_page_cell(page, kg_report_text(run, "bundle_id"));
        cell_asked(run, page);
        kg_page_cell(page, kg_report_text(run, "verdict"));
        for (size_t k = 0; k < KG_COUNT_OF(COUNTS); k++)
            kg_page_cellf(page, "%lld", (long long)kg_json_int(run, COUNTS[k], 0));
        kg_page_cellf(page, "%.1f",
                      ((double)kg_json_int(run, "sealed_us", 0) - (double)kg_json_int(run, "started_us", 0)) / 1e6);
        kg_page_cell(page, kg_report_text(run, "machine"));
        kg_page_cellf(page, "%.16s", kg_report_text(run, "manifest_sha256"));
    }
    kg_page_table_end(page);
}

static void plot_counts(const struct runs *runs, struct kg_page *page) {
    struct kg_buffer script = KG_BUFFER_INIT;
    kg_buffer_puts(&script, "$c << EOD\n");
    for (size_t i = json_array_size(runs->list); i-- > 0;) {
        const json_t *run = json_array_get(runs->list, i);
        const long long pass = kg_json_int(run, "n_pass", 0), skip = kg_json_int(run, "n_skip", 0);
        const long long red = kg_json_int(run, "n_fail", 0) + kg_json_int(run, "n_lost", 0);
        kg_buffer_printf(&script, "%zu %lld %lld %lld\n", number_of(runs, i), pass, pass + skip, pass + skip + red);
    }
    kg_buffer_printf(&script,
                     "EOD\n" KG_RUNS_AXIS "set yrange [0:*]\nset ylabel 'cases'\nset boxwidth 0.8\n"
                     "set style fill solid 0.85 noborder\nset key outside top horizontal\n"
                     "plot $c using 1:4 with boxes lc rgb '#d55e00' title 'not green', "
                     "$c using 1:3 with boxes lc rgb '#808890' title 'skip', "
                     "$c using 1:2 with boxes lc rgb '#1f83c4' title 'pass'\n",
                     json_array_size(runs->list));
    kg_page_plot(page, kg_buffer_text(&script),
                 "Cases of each run, oldest first: passed, skipped, and not green (failed, "
                 "crashed, out of time or left out), one above the other.");
    kg_buffer_free(&script);
}

static enum kg_status put_levels(const struct runs *runs, struct kg_page *page, struct kg_error *err) {
    struct kg_timelines lines = { .runs = runs->list };
    enum kg_status status = kg_timelines_largest(runs->history, runs->limit, "*.margin", &lines, err);
    if (status == KG_OK && lines.n_lines > 0) {
        kg_page_section(page, "Error margins");
        kg_timelines_plot(&lines, 1, KG_AXIS_LOGARITHMIC, "error / limit",
                          "The largest error over its limit of each run; 1 is the limit.", page);
    }
    kg_timelines_free(&lines);
    if (status == KG_OK) status = kg_timelines_largest(runs->history, runs->limit, "*.peak", &lines, err);
    if (status == KG_OK && lines.n_lines > 0) {
        kg_page_section(page, "Memory by tag");
        kg_timelines_plot(&lines, 1.0 / (1 << 20), KG_AXIS_FROM_ZERO, "MiB",
                          "The largest peak of each tag over the cases of a run, in MiB.", page);
    }
    kg_timelines_free(&lines);
    return status;
}

enum kg_status kg_history_page(struct kg_history *history, const char *const *repositories, int64_t n_most,
                               struct kg_page *page, struct kg_error *err) {
    char *limit = kg_xasprintf("%lld", (long long)n_most);
    struct runs runs = { .history = history, .limit = limit };
    enum kg_status status = load_runs(&runs, err);
    const size_t n = json_array_size(runs.list), shown = n < KG_REPORT_ROWS ? n : KG_REPORT_ROWS;
    if (status == KG_OK) {
        kg_page_title(page, "kigo history", NULL);
        kg_page_text(page, n == 0 ? "No run is here." : "%zu runs; a run's number counts from the oldest of them.", n);
        kg_page_section(page, "Runs");
        if (n > 0) plot_counts(&runs, page);
        put_run_rows(&runs, 0, shown, page);
        if (n > shown) {
            kg_page_fold(page, "The %zu runs before", n - shown);
            put_run_rows(&runs, shown, n, page);
            kg_page_unfold(page);
        }
        status = put_levels(&runs, page, err);
    }
    if (status == KG_OK && n > 0) status = kg_timelines_section(history, repositories, runs.list, limit, page, err);
    json_decref(runs.list);
    free(limit);
    return status;
}
