/* Operations against what the canaries of the same run reached. */
#include "measure/roofline.h"
#include "base/size.h"
#include "report/bandwidth.h"
#include "report/plot.h"
#include "report/sections.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_share(const void *a, const void *b) {
    const struct kg_bandwidth_row *x = a, *y = b;
    return x->share > y->share ? 1 : x->share < y->share ? -1 : strcmp(x->key, y->key);
}

static bool is_point(const struct kg_bandwidth_row *row) {
    return row->bytes > 0 && row->flops > 0 && row->tflop_s > 0;
}

/* Rows of one series share a roof. */
static bool is_first_of_roof(const struct kg_bandwidth *b, size_t row) {
    if (!is_point(&b->rows[row])) return false;
    for (size_t i = 0; i < row; i++)
        if (is_point(&b->rows[i]) && kg_bandwidth_same_series(&b->rows[i], &b->rows[row])) return false;
    return true;
}

/* The points of a roof as a block of data; the fastest canaries of its processes are the roof. */
static struct kg_roofline put_points(const struct kg_bandwidth *b, size_t first, struct kg_buffer *script) {
    struct kg_roofline roof = { 0, 0, 0 };
    kg_buffer_printf(script, "$r%zu << EOD\n", first);
    for (size_t i = 0; i < b->n_rows; i++) {
        const struct kg_bandwidth_row *row = &b->rows[i];
        if (!is_point(row) || !kg_bandwidth_same_series(row, &b->rows[first])) continue;
        kg_buffer_printf(script, "%.6g %.6g\n", row->flops / row->bytes, 1e3 * row->tflop_s);
        roof.read_gb_s = fmax(roof.read_gb_s, fmax(row->roofline.read_gb_s, row->roofline.copy_gb_s));
        roof.tflop_s = fmax(roof.tflop_s, row->roofline.tflop_s);
    }
    kg_buffer_puts(script, "EOD\n");
    return roof;
}

static void put_plot(const struct kg_bandwidth *b, struct kg_page *page) {
    struct kg_buffer script = KG_BUFFER_INIT, plots = KG_BUFFER_INIT;
    size_t n_roofs = 0;
    for (size_t i = 0; i < b->n_rows && n_roofs < KG_PLOT_COLOURS; i++) {
        if (!is_first_of_roof(b, i)) continue;
        const char *colour = KG_PLOT_COLOUR[n_roofs++];
        const struct kg_roofline roof = put_points(b, i, &script);
        struct kg_buffer name = KG_BUFFER_INIT;
        kg_buffer_printf(&name, "%s %s", b->rows[i].backend, b->rows[i].dtype);
        kg_buffer_printf(&plots, "%s$r%zu with points pt 7 ps 0.5 lc rgb '%s' title ", plots.len ? ", " : "plot ", i,
                         colour);
        kg_plot_quote(&plots, kg_buffer_text(&name));
        if (roof.read_gb_s > 0 && roof.tflop_s > 0)
            kg_buffer_printf(&plots, ", (%.6g * x < %.6g ? %.6g * x : %.6g) lw 1.5 lc rgb '%s' notitle", roof.read_gb_s,
                             1e3 * roof.tflop_s, roof.read_gb_s, 1e3 * roof.tflop_s, colour);
        kg_buffer_free(&name);
    }
    kg_buffer_printf(&script,
                     "set logscale xy\nset format x '10^{%%T}'\nset format y '10^{%%T}'\nset termoption enhanced\n"
                     "set xlabel 'operations per byte'\nset ylabel 'GFLOP/s'\nset samples 300\nset key bottom right "
                     "Left reverse\n%s\n",
                     kg_buffer_text(&plots));
    if (n_roofs > 0)
        kg_page_plot(
            page, kg_buffer_text(&script),
            "Roofline: rate of each operation over its operations per byte, both logarithmic; the lines are what the "
            "memory and matrix canaries of the same run reached.");
    kg_buffer_free(&plots);
    kg_buffer_free(&script);
}

static void put_rows(const struct kg_bandwidth_row *rows, size_t n, struct kg_page *page) {
    static const struct kg_column COLUMNS[] = {
        { "share", KG_COLUMN_NUMBER }, { "case", KG_COLUMN_NAME },      { "timing", KG_COLUMN_TEXT },
        { "GB/s", KG_COLUMN_NUMBER },  { "TFLOP/s", KG_COLUMN_NUMBER }, { "faster than f32", KG_COLUMN_NUMBER }
    };
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < n; i++) {
        const struct kg_bandwidth_row *row = &rows[i];
        if (row->share > 0) kg_page_cellf(page, "%.1f%%", 100 * row->share);
        else kg_page_cell(page, "");
        kg_page_cell(page, row->key);
        kg_page_cellf(page, "%s %s", row->kind, row->state);
        kg_page_cell(page, row->gb_s > 0 ? kg_quantity_general(row->gb_s).text : "");
        kg_page_cell(page, row->tflop_s > 0 ? kg_quantity_general(row->tflop_s).text : "");
        if (row->speedup > 0)
            kg_page_cellf(page, "%.2f (%.2f to %.2f)", row->speedup, row->speedup_lo, row->speedup_hi);
        else kg_page_cell(page, "");
    }
    kg_page_table_end(page);
}

void kg_section_roofline(const struct kg_report *report, struct kg_page *page) {
    struct kg_bandwidth b;
    kg_bandwidth_collect(report->run->records, &b);
    if (b.n_rows > 0) {
        kg_page_section(page, "Roofline");
        kg_page_text(
            page, "The share of what the machine could do: the least time in which it could move the bytes and do the "
                  "operations, over the time it took. Farthest from the roof first.");
        put_plot(&b, page);
        kg_bandwidth_pictures(&b, page);
        qsort(b.rows, b.n_rows, sizeof *b.rows, by_share);
        const size_t shown = b.n_rows < KG_REPORT_ROWS ? b.n_rows : KG_REPORT_ROWS;
        put_rows(b.rows, shown, page);
        if (report->whole && b.n_rows > shown) {
            kg_page_fold(page, "The other %zu operations", b.n_rows - shown);
            put_rows(b.rows + shown, b.n_rows - shown, page);
            kg_page_unfold(page);
        }
    }
    kg_bandwidth_free(&b);
}
