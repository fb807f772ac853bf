#include "web/chart.h"
#include "base/escape.h"
#include "base/quantity.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 640, HEIGHT = 180, LEFT = 84, RIGHT = 12, TOP = 18, BOTTOM = 24 };

struct scale {
    double least, most;
    size_t n;
};

static double x_of(const struct scale *scale, double run) {
    return LEFT + (WIDTH - LEFT - RIGHT) * (scale->n > 1 ? run / (double)(scale->n - 1) : 0.5);
}

static double y_of(const struct scale *scale, double value) {
    const double span = scale->most - scale->least, share = span > 0 ? (value - scale->least) / span : 0.5;
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share;
}

static void put(struct kg_page *page, const char *text) {
    kg_escape(&page->body, KG_MEDIUM_HTML, text, strlen(text));
}

static void put_level(const struct scale *scale, double value, const char *unit, struct kg_page *page) {
    const double y = y_of(scale, value);
    kg_buffer_printf(
        &page->body,
        "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"currentColor\" stroke-opacity=\"0.3\"/>"
        "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" font-size=\"11\" fill=\"currentColor\">",
        LEFT, y, WIDTH - RIGHT, y, LEFT - 6, y + 4);
    put(page, kg_quantity_of_unit(value, unit).text);
    kg_buffer_puts(&page->body, "</text>\n");
}

static void put_points(const struct kg_chart *chart, const struct scale *scale, struct kg_page *page) {
    kg_buffer_puts(&page->body, "<polyline fill=\"none\" stroke=\"currentColor\" stroke-opacity=\"0.5\" points=\"");
    for (size_t i = 0; i < chart->n_values; i++)
        if (isfinite(chart->values[i]))
            kg_buffer_printf(&page->body, "%.1f,%.1f ", x_of(scale, (double)i), y_of(scale, chart->values[i]));
    kg_buffer_puts(&page->body, "\"/>\n");
    for (size_t i = 0; i < chart->n_values; i++)
        if (isfinite(chart->values[i]))
            kg_buffer_printf(&page->body, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"currentColor\"/>",
                             x_of(scale, (double)i), y_of(scale, chart->values[i]));
}

/* Between the last run at the old level and the first at the new one. */
static void put_marks(const struct kg_chart *chart, const struct scale *scale, struct kg_page *page) {
    for (size_t i = 0; i < chart->n_marks; i++) {
        const double x = x_of(scale, (double)chart->marks[i].run - 0.5);
        const bool late = x > (double)WIDTH * 3 / 4;
        kg_buffer_printf(&page->body,
                         "<g class=\"step\"><line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"currentColor\" "
                         "stroke-dasharray=\"4 3\"/><text x=\"%.1f\" y=\"%d\" font-size=\"11\" text-anchor=\"%s\" "
                         "fill=\"currentColor\">",
                         x, TOP - 6, x, HEIGHT - BOTTOM, late ? x - 4 : x + 4, TOP - 6, late ? "end" : "start");
        put(page, chart->marks[i].text);
        kg_buffer_puts(&page->body, "</text></g>\n");
    }
}

void kg_chart_put(const struct kg_chart *chart, struct kg_page *page) {
    struct scale scale = { INFINITY, -INFINITY, chart->n_values };
    size_t n = 0;
    for (size_t i = 0; i < chart->n_values; i++) {
        if (!isfinite(chart->values[i])) continue;
        scale.least = fmin(scale.least, chart->values[i]);
        scale.most = fmax(scale.most, chart->values[i]);
        n++;
    }
    if (n < 2) return;
    char *says =
        kg_xasprintf("%.160s in %zu runs, oldest first; steps that are marked: %zu", chart->title, n, chart->n_marks);
    kg_buffer_printf(&page->body, "<figure><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    put(page, says);
    kg_buffer_puts(&page->body, "\"><title>");
    put(page, says);
    kg_buffer_puts(&page->body, "</title>\n");
    put_level(&scale, scale.least, chart->unit, page);
    if (scale.most > scale.least) put_level(&scale, scale.most, chart->unit, page);
    put_points(chart, &scale, page);
    put_marks(chart, &scale, page);
    kg_buffer_puts(&page->body, "</svg><figcaption>");
    put(page, says);
    kg_buffer_puts(&page->body, "</figcaption></figure>\n");
    free(says);
}
