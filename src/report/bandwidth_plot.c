#include "report/bandwidth.h"
#include "base/size.h"
#include <math.h>
#include <string.h>

/* Colours that eyes of every kind tell apart. */
static const struct series {
    const char *backend, *dtype, *colour;
} SERIES[] = { { "cpu", "f32", "#666666" }, { "cuda", "f32", "#0072b2" }, { "cuda", "f16", "#d55e00" } };

/* gnuplot's point types: full circle, square, triangle, inverted triangle, diamond; then hollow ones. */
static const struct shape {
    const char *op;
    int point_type;
} SHAPES[] = { { "linear", 7 },   { "attention", 5 }, { "kv_write", 9 }, { "rmsnorm", 11 },
               { "rope", 13 },    { "swiglu", 4 },    { "gelu", 8 },     { "layernorm", 10 },
               { "softmax", 12 }, { "add", 1 },       { "model", 3 } };
static const int OTHER_SHAPE = 6;

static bool is_point(const struct kg_bandwidth_row *row, const struct series *series, const char *op) {
    return kg_bandwidth_plotted(row) && strcmp(row->backend, series->backend) == 0 &&
           strcmp(row->dtype, series->dtype) == 0 && strcmp(row->op, op) == 0;
}

static int point_type(const char *op) {
    for (size_t i = 0; i < KG_COUNT_OF(SHAPES); i++)
        if (strcmp(SHAPES[i].op, op) == 0) return SHAPES[i].point_type;
    return OTHER_SHAPE;
}

/* True for the first row of its operation. */
static bool is_first_of_op(const struct kg_bandwidth *b, size_t row) {
    for (size_t i = 0; i < row; i++)
        if (strcmp(b->rows[i].op, b->rows[row].op) == 0) return false;
    return true;
}

struct panel {
    struct kg_buffer *data, *plots;
    const char *prefix; /* of its data blocks */
    double (*value)(const struct kg_bandwidth_row *row), (*lo)(const struct kg_bandwidth_row *row),
        (*hi)(const struct kg_bandwidth_row *row);
    bool titled; /* the key is in this panel */
    size_t n_blocks;
};

static double gb_s(const struct kg_bandwidth_row *row) {
    return row->gb_s;
}
static double gb_s_lo(const struct kg_bandwidth_row *row) {
    return row->gb_s_lo;
}
static double gb_s_hi(const struct kg_bandwidth_row *row) {
    return row->gb_s_hi;
}
static double speedup(const struct kg_bandwidth_row *row) {
    return row->speedup;
}
static double speedup_lo(const struct kg_bandwidth_row *row) {
    return row->speedup_lo;
}
static double speedup_hi(const struct kg_bandwidth_row *row) {
    return row->speedup_hi;
}

/* The points of a series and an operation as a data block and what plots it; nothing where there are none. */
static void add_block(struct panel *p, const struct kg_bandwidth *b, const struct series *series, const char *op) {
    size_t n_points = 0;
    for (size_t r = 0; r < b->n_rows; r++) {
        const struct kg_bandwidth_row *row = &b->rows[r];
        if (!is_point(row, series, op) || p->value(row) <= 0) continue;
        if (n_points++ == 0) kg_buffer_printf(p->data, "$%s%zu << EOD\n", p->prefix, p->n_blocks);
        kg_buffer_printf(p->data, "%.6g %.6g %.6g %.6g\n", row->bytes, p->value(row), p->lo(row), p->hi(row));
    }
    if (n_points == 0) return;
    kg_buffer_puts(p->data, "EOD\n");
    kg_buffer_printf(p->plots, "%s$%s%zu using 1:2:3:4 with yerrorbars pt %d ps 1 lc rgb '%s' ",
                     p->plots->len ? ", " : "", p->prefix, p->n_blocks++, point_type(op), series->colour);
    if (p->titled) kg_buffer_printf(p->plots, "title '%s %s %s'", op, series->backend, series->dtype);
    else kg_buffer_puts(p->plots, "notitle");
}

static void add_all(struct panel *p, const struct kg_bandwidth *b) {
    for (size_t s = 0; s < KG_COUNT_OF(SERIES); s++)
        for (size_t r = 0; r < b->n_rows; r++)
            if (is_first_of_op(b, r)) add_block(p, b, &SERIES[s], b->rows[r].op);
}

/* The rates that the canaries of the run reached, the fastest of its processes. */
static void add_canaries(struct kg_buffer *plots, const struct kg_bandwidth *b) {
    double read = 0, copy = 0;
    for (size_t r = 0; r < b->n_rows; r++) {
        if (!kg_bandwidth_plotted(&b->rows[r])) continue;
        read = fmax(read, b->rows[r].roofline.read_gb_s);
        copy = fmax(copy, b->rows[r].roofline.copy_gb_s);
    }
    if (read > 0)
        kg_buffer_printf(plots, ", %.6g with lines lc rgb 'black' dt 2 title 'read canary, %.4g GB/s'", read, read);
    if (copy > 0)
        kg_buffer_printf(plots, ", %.6g with lines lc rgb 'black' dt 3 title 'copy canary, %.4g GB/s'", copy, copy);
}

bool kg_bandwidth_plot(const struct kg_bandwidth *b, const char *terminal, const char *output,
                       struct kg_buffer *script) {
    enum { PANEL_WIDTH = 900, HEIGHT = 620 };
    struct kg_buffer data = KG_BUFFER_INIT, rates = KG_BUFFER_INIT, ratios = KG_BUFFER_INIT;
    struct panel rate = { &data, &rates, "rate", gb_s, gb_s_lo, gb_s_hi, true, 0 };
    struct panel ratio = { &data, &ratios, "ratio", speedup, speedup_lo, speedup_hi, true, 0 };
    add_all(&rate, b);
    add_all(&ratio, b);
    const bool any = rates.len > 0, both = ratios.len > 0;
    if (any) {
        add_canaries(&rates, b);
        kg_buffer_puts(script, kg_buffer_text(&data));
        kg_buffer_printf(
            script,
            "set terminal %s noenhanced size %d,%d%s\nset output '%s'\nset logscale x\nset grid lc rgb '#cccccc'\n"
            "set format x '%%.0s %%cB'\nset xlabel 'bytes read and written by one launch' offset 0,0.4\n"
            "set key outside right top samplen 1 font ',9'\nset bars small\n",
            terminal, both ? 2 * PANEL_WIDTH : PANEL_WIDTH, HEIGHT,
            strcmp(terminal, "svg") == 0 ? " background '#ffffff'" : "", output);
        if (both) kg_buffer_puts(script, "set multiplot layout 1,2\n");
        kg_buffer_printf(script,
                         "set logscale y\nset title 'Memory bandwidth, cold inputs (median, 95%% interval)'\n"
                         "set ylabel 'GB/s'\nplot %s\n",
                         kg_buffer_text(&rates));
        if (both)
            kg_buffer_printf(script,
                             "set logscale y 2\nset title 'FP16 over FP32, the same work (median, 95%% interval)'\n"
                             "set ylabel 'times faster'\nplot %s, 1 with lines lc rgb 'black' dt 2 title 'as fast', "
                             "2 with lines lc rgb 'black' dt 3 title 'half the bytes'\nunset multiplot\n",
                             kg_buffer_text(&ratios));
    }
    kg_buffer_free(&ratios);
    kg_buffer_free(&rates);
    kg_buffer_free(&data);
    return any;
}
