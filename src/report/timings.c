/* Medians of the run with their intervals, and what the runs before it gave. */
#include "base/size.h"
#include "measure/statistics.h"
#include "report/past.h"
#include "report/plot.h"
#include "report/sections.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct timed {
    const struct kg_case_records *c;
    const json_t *timing;
    char *figure; /* its name in the index */
    double median, lo, hi;
    size_t n_past;
    double past, past_lo, past_hi; /* median and range of the runs before; NaN: none */
    double change;                 /* median / past - 1 */
};

static void compare_with_past(struct timed *t, const json_t *past) {
    const json_t *list = kg_past_of(past, t->c->key, kg_report_text(t->c->result, "def_sha"), t->figure);
    t->n_past = json_array_size(list);
    t->past = t->past_lo = t->past_hi = t->change = NAN;
    if (t->n_past == 0) return;
    double *values = kg_xcalloc(t->n_past, sizeof *values);
    t->past_lo = INFINITY;
    t->past_hi = 0;
    for (size_t i = 0; i < t->n_past; i++) {
        values[i] = json_real_value(json_array_get(list, i));
        t->past_lo = fmin(t->past_lo, values[i]);
        t->past_hi = fmax(t->past_hi, values[i]);
    }
    t->past = kg_median(values, t->n_past);
    t->change = t->median / t->past - 1;
    free(values);
}

static int by_change(const void *a, const void *b) {
    const struct timed *x = a, *y = b;
    const double dx = isnan(x->change) ? -1 : fabs(x->change), dy = isnan(y->change) ? -1 : fabs(y->change);
    if (dx != dy) return dx < dy ? 1 : -1;
    const int order = strcmp(x->c->key, y->c->key);
    return order ? order : strcmp(x->figure, y->figure);
}

/* The timings that count, those that changed most first; free_all frees them. *n_discarded: those that do not. */
static struct timed *collect(const struct kg_report *report, size_t *n, size_t *n_discarded) {
    const struct kg_records *records = report->run->records;
    size_t n_all = 0, i;
    json_t *timing;
    for (size_t k = 0; k < records->n_cases; k++)
        n_all += json_array_size(json_object_get(records->cases[k].result, "timings"));
    struct timed *list = kg_xcalloc(n_all, sizeof *list);
    *n = *n_discarded = 0;
    for (size_t k = 0; k < records->n_cases; k++) {
        json_array_foreach(json_object_get(records->cases[k].result, "timings"), i, timing) {
            const double median = kg_json_number(timing, "median", 0);
            if (json_is_false(json_object_get(timing, "valid")) || !(median > 0)) {
                (*n_discarded)++;
                continue;
            }
            struct timed *t = &list[(*n)++];
            *t = (struct timed){ .c = &records->cases[k], .timing = timing, .median = median };
            t->lo = kg_json_number(timing, "ci_lo", median);
            t->hi = kg_json_number(timing, "ci_hi", median);
            t->figure = kg_xasprintf("%s.%s.%s", kg_report_text(timing, "name"), kg_report_text(timing, "kind"),
                                     kg_report_text(timing, "state"));
            compare_with_past(t, report->past);
        }
    }
    qsort(list, *n, sizeof *list, by_change);
    return list;
}

static void free_all(struct timed *list, size_t n) {
    for (size_t i = 0; i < n; i++) free(list[i].figure);
    free(list);
}

static void put_rate(struct kg_page *page, double amount, double ns) {
    kg_page_cell(page, amount > 0 ? kg_quantity_general(amount / ns).text : "");
}

static void put_rows(const struct timed *list, size_t n, bool has_past, struct kg_page *page) {
    static const struct kg_column COLUMNS[] = { { "case", KG_COLUMN_NAME },      { "timing", KG_COLUMN_TEXT },
                                                { "median", KG_COLUMN_NUMBER },  { "95% interval", KG_COLUMN_NUMBER },
                                                { "samples", KG_COLUMN_NUMBER }, { "GB/s", KG_COLUMN_NUMBER },
                                                { "history", KG_COLUMN_NUMBER }, { "change", KG_COLUMN_NUMBER } };
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS) - (has_past ? 0 : 2));
    for (size_t i = 0; i < n; i++) {
        const struct timed *t = &list[i];
        kg_page_cell(page, t->c->key);
        kg_page_cell(page, t->figure);
        kg_page_cell(page, kg_quantity_time(t->median).text);
        kg_page_cellf(page, "%s to %s", kg_quantity_time(t->lo).text, kg_quantity_time(t->hi).text);
        kg_page_cellf(page, "%lld", (long long)kg_json_int(t->timing, "n", 0));
        put_rate(page, kg_json_number(t->timing, "bytes", 0), t->median);
        if (!has_past) continue;
        if (t->n_past > 0) kg_page_cellf(page, "%s (%zu)", kg_quantity_time(t->past).text, t->n_past);
        else kg_page_cell(page, "");
        kg_page_cell(page, kg_quantity_percent(t->change).text);
    }
    kg_page_table_end(page);
}

/* Change against the history, with the run's interval over the range of the runs before. */
static void put_plot(const struct timed *list, size_t n, struct kg_page *page) {
    enum { MOST = 40 };
    struct kg_buffer script = KG_BUFFER_INIT;
    size_t n_shown = 0;
    kg_buffer_puts(&script, "$t << EOD\n");
    for (size_t i = 0; i < n && n_shown < MOST && list[i].n_past > 0; i++) {
        const struct timed *t = &list[i];
        kg_buffer_printf(&script, "%zu %.6g %.6g %.6g %.6g %.6g\n", ++n_shown, 100 * t->change,
                         100 * (t->lo / t->past - 1), 100 * (t->hi / t->past - 1), 100 * (t->past_lo / t->past - 1),
                         100 * (t->past_hi / t->past - 1));
    }
    kg_buffer_printf(
        &script,
        "EOD\nset xrange [0:%zu]\nset ylabel 'against history (%%)'\nset xlabel 'timings, as in the table'\n"
        "set style fill solid 0.35 noborder\nset bars small\nset key outside top horizontal\nset boxwidth 0.6\n"
        "plot 0 lc rgb '#808890' notitle, $t using 1:5:5:6:6 with candlesticks lc rgb '#808890' title "
        "'runs before', $t using 1:2:3:4 with yerrorbars pt 7 ps 0.6 lc rgb '%s' title 'this run, 95%% interval'\n",
        n_shown + 1, KG_PLOT_COLOUR[0]);
    char *says =
        kg_xasprintf("The %zu timings that differ most from the median of the runs before, in percent: this run's "
                     "median with its 95%% interval over the range of those runs. Above zero is slower.",
                     n_shown);
    if (n_shown > 0) kg_page_plot(page, kg_buffer_text(&script), says);
    free(says);
    kg_buffer_free(&script);
}

void kg_section_timings(const struct kg_report *report, struct kg_page *page) {
    size_t n, n_discarded;
    struct timed *list = collect(report, &n, &n_discarded);
    if (n > 0) {
        const bool has_past = list[0].n_past > 0;
        const size_t shown = n < KG_REPORT_ROWS ? n : KG_REPORT_ROWS;
        kg_page_section(page, "Timings");
        kg_page_text(page,
                     has_past
                         ? "%zu timings, those that differ most from the history first; history: the median of the "
                           "runs before, and how many they are."
                         : "%zu timings. No run before this one is comparable.",
                     n);
        if (n_discarded > 0) kg_page_text(page, "%zu more were discarded: the GPU was slowed down.", n_discarded);
        if (has_past) put_plot(list, n, page);
        put_rows(list, shown, has_past, page);
        if (report->whole && n > shown) {
            kg_page_fold(page, "The other %zu timings", n - shown);
            put_rows(list + shown, n - shown, has_past, page);
            kg_page_unfold(page);
        }
    }
    free_all(list, n);
}
