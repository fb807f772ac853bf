#include "base/size.h"
#include "report/bandwidth.h"
#include "report/plot.h"
#include <string.h>

static double gb_s(const struct kg_bandwidth_row *row) {
    return row->gb_s;
}

static double speedup(const struct kg_bandwidth_row *row) {
    return row->speedup;
}

/* Over the bytes that one launch reads and writes. */
static const struct picture {
    double (*value)(const struct kg_bandwidth_row *row); /* 0: no point */
    const char *axes, *lines, *says;
} PICTURES[] = {
    { gb_s, "set logscale y\nset ylabel 'GB/s'\nset key outside top center horizontal\n", "",
      "Memory bandwidth: rate of each operation, cold, over the bytes of a launch, both logarithmic; the line is the "
      "read canary of the same run." },
    { speedup, "set logscale y 2\nset ylabel 'times as fast as f32'\nset key outside top center horizontal\n",
      ", 1 lw 1 dt 2 lc rgb '#808890' notitle, 2 lw 1 dt 3 lc rgb '#808890' notitle",
      "FP16 over FP32: how many times as fast the same work is, cold, over its bytes; the lines are once and twice, "
      "which half the bytes would be." },
};

static bool is_point(const struct picture *p, const struct kg_bandwidth_row *row) {
    return kg_bandwidth_plotted(row) && p->value(row) > 0;
}

static bool is_first_of_series(const struct picture *p, const struct kg_bandwidth *b, size_t row) {
    if (!is_point(p, &b->rows[row])) return false;
    for (size_t i = 0; i < row; i++)
        if (is_point(p, &b->rows[i]) && kg_bandwidth_same_series(&b->rows[i], &b->rows[row])) return false;
    return true;
}

/* Appends the points of a series as a block of data, and what plots them. */
static void add_series(const struct picture *p, const struct kg_bandwidth *b, size_t first, const char *colour,
                       struct kg_buffer *data, struct kg_buffer *plots) {
    struct kg_buffer name = KG_BUFFER_INIT;
    kg_buffer_printf(data, "$s%zu << EOD\n", first);
    for (size_t i = first; i < b->n_rows; i++)
        if (is_point(p, &b->rows[i]) && kg_bandwidth_same_series(&b->rows[i], &b->rows[first]))
            kg_buffer_printf(data, "%.6g %.6g\n", b->rows[i].bytes, p->value(&b->rows[i]));
    kg_buffer_puts(data, "EOD\n");
    kg_buffer_printf(&name, "%s %s", b->rows[first].backend, b->rows[first].dtype);
    kg_buffer_printf(plots, "%s$s%zu with points pt 7 ps 0.5 lc rgb '%s' title ", plots->len ? ", " : "plot ", first,
                     colour);
    kg_plot_quote(plots, kg_buffer_text(&name));
    kg_buffer_free(&name);
}

/* The fastest read canary of the picture's points; 0 if there is none. */
static double read_canary(const struct picture *p, const struct kg_bandwidth *b) {
    double most = 0;
    for (size_t i = 0; i < b->n_rows; i++)
        if (is_point(p, &b->rows[i]) && b->rows[i].roofline.read_gb_s > most) most = b->rows[i].roofline.read_gb_s;
    return most;
}

void kg_bandwidth_pictures(const struct kg_bandwidth *b, struct kg_page *page) {
    for (size_t i = 0; i < KG_COUNT_OF(PICTURES); i++) {
        const struct picture *p = &PICTURES[i];
        struct kg_buffer script = KG_BUFFER_INIT, plots = KG_BUFFER_INIT;
        size_t n_series = 0;
        for (size_t row = 0; row < b->n_rows && n_series < KG_PLOT_COLOURS; row++)
            if (is_first_of_series(p, b, row)) add_series(p, b, row, KG_PLOT_COLOUR[n_series++], &script, &plots);
        const double canary = p->value == gb_s ? read_canary(p, b) : 0;
        if (canary > 0) kg_buffer_printf(&plots, ", %.6g lw 1 dt 2 lc rgb '#808890' notitle", canary);
        kg_buffer_printf(&script,
                         "set logscale x\nset format x '%%.0s%%cB'\nset xlabel 'bytes read and written by a launch'\n"
                         "%s%s%s\n",
                         p->axes, kg_buffer_text(&plots), p->lines);
        if (n_series > 0) kg_page_plot(page, kg_buffer_text(&script), p->says);
        kg_buffer_free(&plots);
        kg_buffer_free(&script);
    }
}
