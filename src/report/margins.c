/* How near each case came to its limits: error / limit, worst first. */
#include "base/size.h"
#include "report/far_limits.h"
#include "report/sections.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct comparison {
    const struct kg_case_records *c;
    const json_t *error;
    double margin; /* infinite where the error is not finite */
};

static int by_margin_falling(const void *a, const void *b) {
    const struct comparison *x = a, *y = b;
    return x->margin < y->margin ? 1 : x->margin > y->margin ? -1 : strcmp(x->c->key, y->c->key);
}

/* The judged comparisons of all cases, worst first; malloc'ed. */
static struct comparison *collect(const struct kg_records *records, size_t *n) {
    size_t n_all = 0, i;
    json_t *error;
    for (size_t k = 0; k < records->n_cases; k++)
        n_all += json_array_size(json_object_get(records->cases[k].result, "errors"));
    struct comparison *list = kg_xcalloc(n_all, sizeof *list);
    *n = 0;
    for (size_t k = 0; k < records->n_cases; k++) {
        json_array_foreach(json_object_get(records->cases[k].result, "errors"), i, error) {
            if (!json_is_true(json_object_get(error, "judged"))) continue;
            list[(*n)++] = (struct comparison){ &records->cases[k], error, kg_json_number(error, "margin", INFINITY) };
        }
    }
    qsort(list, *n, sizeof *list, by_margin_falling);
    return list;
}

/* Which rule decided, as "max_abs 0.001 of 0.01": those of the tolerance. */
static void put_rule(const json_t *error, struct kg_page *page) {
    struct kg_buffer text = KG_BUFFER_INIT;
    const char *name;
    json_t *limit;
    json_object_foreach(json_object_get(error, "tolerance"), name, limit) {
        const json_t *value = json_object_get(error, name);
        kg_buffer_printf(&text, "%s%s ", text.len > 0 ? ", " : "", name);
        if (json_is_number(value)) kg_buffer_printf(&text, "%.4g of ", json_number_value(value));
        kg_buffer_printf(&text, "%.4g", json_number_value(limit));
    }
    kg_page_cell(page, kg_buffer_text(&text));
    kg_buffer_free(&text);
}

/* The worst comparison of each case comes to the front, in order; their number. */
static size_t worst_of_each(struct comparison *list, size_t n) {
    json_t *seen = json_object();
    size_t n_cases = 0;
    for (size_t i = 0; i < n; i++) {
        if (json_object_get(seen, list[i].c->key)) continue;
        json_object_set_new(seen, list[i].c->key, json_true());
        list[n_cases++] = list[i];
    }
    json_decref(seen);
    return n_cases;
}

static void put_rows(const struct comparison *list, size_t n, struct kg_page *page) {
    static const struct kg_column COLUMNS[] = {
        { "error/limit", KG_COLUMN_NUMBER }, { "case", KG_COLUMN_NAME },           { "comparison", KG_COLUMN_TEXT },
        { "elements", KG_COLUMN_NUMBER },    { "error of limit", KG_COLUMN_TEXT }, { "why this limit", KG_COLUMN_TEXT }
    };
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < n; i++) {
        kg_page_cell(page, isfinite(list[i].margin) ? kg_quantity_general(list[i].margin).text : "not finite");
        kg_page_cell(page, list[i].c->key);
        kg_page_cell(page, kg_report_text(list[i].error, "name"));
        kg_page_cellf(page, "%lld", (long long)kg_json_int(list[i].error, "n", 0));
        put_rule(list[i].error, page);
        kg_page_cell(page, kg_report_text(list[i].error, "why"));
    }
    kg_page_table_end(page);
}

static const double FIRST = -8, WIDTH = 0.5;

double kg_report_half_decade(double margin) {
    return ceil((log10(margin) - FIRST) / WIDTH) - 1; /* the limit itself is left of the line */
}

/* How many comparisons came how near, by half decades. */
static void put_plot(const struct comparison *list, size_t n, struct kg_page *page) {
    enum { N_BINS = 18 }; /* 10^-8 .. 10^1 */
    size_t bins[N_BINS] = { 0 }, n_outside = 0;
    for (size_t i = 0; i < n; i++) {
        const double place = kg_report_half_decade(list[i].margin);
        if (place >= 0 && place < N_BINS) bins[(size_t)place]++;
        else n_outside++;
    }
    struct kg_buffer script = KG_BUFFER_INIT, says = KG_BUFFER_INIT;
    kg_buffer_puts(&script, "$bins << EOD\n");
    for (size_t i = 0; i < N_BINS; i++)
        kg_buffer_printf(&script, "%.8g %zu %d\n", FIRST + WIDTH * ((double)i + 0.5), bins[i],
                         FIRST + WIDTH * (double)i >= 0);
    kg_buffer_puts(&script,
                   "EOD\nset xrange [-8:1]\nset yrange [0:*]\nset format x '10^{%g}'\nset termoption enhanced\n"
                   "set xlabel 'error / limit'\nset ylabel 'comparisons'\nset boxwidth 0.46\n"
                   "set style fill solid 0.8 noborder\nset arrow from 0, graph 0 to 0, graph 1 nohead lc rgb "
                   "'#d55e00' lw 1.5\nset label 'limit' at 0, graph 1.06 center\nunset key\n"
                   "plot $bins using 1:($3 == 0 ? $2 : 0) with boxes lc rgb '#1f83c4', "
                   "$bins using 1:($3 == 1 ? $2 : 0) with boxes lc rgb '#d55e00'\n");
    kg_buffer_printf(&says,
                     "Histogram of error / limit over %zu comparisons, in half decades; right of the line an error is "
                     "above its limit. The largest is %.3g",
                     n, list[0].margin);
    if (n_outside > 0) kg_buffer_printf(&says, "; %zu are exact or outside of the picture", n_outside);
    kg_buffer_puts(&says, ".");
    kg_page_plot(page, kg_buffer_text(&script), kg_buffer_text(&says));
    kg_buffer_free(&says);
    kg_buffer_free(&script);
}

/* Limits that a mistake could hide under, for the whole page of a run that was not cut down. */
static void put_far(const struct kg_records *records, struct kg_page *page) {
    static const struct kg_column COLUMNS[] = { { "comparisons", KG_COLUMN_NAME },
                                                { "of them", KG_COLUMN_NUMBER },
                                                { "error of limit", KG_COLUMN_TEXT },
                                                { "why this limit", KG_COLUMN_TEXT },
                                                { "why so far", KG_COLUMN_TEXT } };
    json_t *far = kg_far_limits(records), *group;
    size_t i;
    if (json_array_size(far) > 0) {
        kg_page_fold(page, "%zu limits are more than %d times the worst error of this run", json_array_size(far),
                     KG_FAR_TIMES);
        kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
        json_array_foreach(far, i, group) {
            kg_page_cell(page, kg_report_text(group, "comparisons"));
            kg_page_cellf(page, "%lld", (long long)kg_json_int(group, "n", 0));
            kg_page_cellf(page, "%.4g of %.4g", kg_json_number(group, "error", 0), kg_json_number(group, "limit", 0));
            kg_page_cell(page, kg_report_text(group, "why"));
            kg_page_cell(page, kg_report_text(group, "far"));
        }
        kg_page_table_end(page);
        kg_page_unfold(page);
    }
    json_decref(far);
}

void kg_section_margins(const struct kg_report *report, struct kg_page *page) {
    size_t n, n_above = 0, n_near = 0;
    struct comparison *list = collect(report->run->records, &n);
    if (n > 0) {
        kg_page_section(page, "Error margins");
        for (size_t i = 0; i < n; i++) {
            n_above += list[i].margin > 1;
            n_near += list[i].margin > 0.5 && list[i].margin <= 1;
        }
        put_plot(list, n, page);
        const size_t n_cases = worst_of_each(list, n), shown = n_cases < KG_REPORT_ROWS ? n_cases : KG_REPORT_ROWS;
        kg_page_text(
            page,
            "%zu comparisons: %zu above their limit, %zu between half of it and all of it. Of each case the worst one:",
            n, n_above, n_near);
        put_rows(list, shown, page);
        if (report->whole && n_cases > shown) {
            kg_page_fold(page, "The other %zu cases", n_cases - shown);
            put_rows(list + shown, n_cases - shown, page);
            kg_page_unfold(page);
        }
        if (report->whole) put_far(report->run->records, page);
    }
    free(list);
}
