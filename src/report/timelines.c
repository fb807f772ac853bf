#include "report/timelines.h"
#include "base/size.h"
#include "bundle/records.h"
#include "report/plot.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void kg_timelines_free(struct kg_timelines *t) {
    for (size_t i = 0; i < t->n_lines; i++) {
        free(t->lines[i].name);
        free(t->lines[i].points);
    }
    free(t->lines);
    t->lines = NULL;
    t->n_lines = 0;
}

/* 0: the run is not on the page. */
static size_t number_of(const json_t *runs, int64_t bundle_no) {
    const size_t n = json_array_size(runs);
    for (size_t i = 0; i < n; i++)
        if (kg_json_int(json_array_get(runs, i), "bundle_no", -1) == bundle_no) return n - i;
    return 0;
}

/* The last line, or a new one if that has another name: rows come by name. */
static struct kg_timeline *line_of(struct kg_timelines *t, const char *name) {
    if (t->n_lines > 0 && strcmp(t->lines[t->n_lines - 1].name, name) == 0) return &t->lines[t->n_lines - 1];
    if ((t->n_lines & (t->n_lines + 1)) == 0) /* full at 2^n - 1 */
        t->lines = kg_xrealloc(t->lines, (t->n_lines + 1) * 2 * sizeof *t->lines);
    t->lines[t->n_lines] = (struct kg_timeline){ .name = kg_xstrdup(name) };
    return &t->lines[t->n_lines++];
}

static bool add_point(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_timelines *t = arg;
    (void)names;
    if (!cells || cells[2].kind != KG_CELL_REAL) return true;
    const size_t run = number_of(t->runs, cells[1].integer);
    if (run == 0) return true;
    struct kg_timeline *line = line_of(t, cells[0].text);
    if ((line->n_points & (line->n_points + 1)) == 0)
        line->points = kg_xrealloc(line->points, (line->n_points + 1) * 2 * sizeof *line->points);
    const double value = cells[2].real;
    const bool has_interval = n_columns > 4 && cells[3].kind == KG_CELL_REAL && cells[4].kind == KG_CELL_REAL;
    line->points[line->n_points++] = (struct kg_timeline_point){ run, value, has_interval ? cells[3].real : value,
                                                                 has_interval ? cells[4].real : value };
    return true;
}

static int by_run(const void *a, const void *b) {
    const struct kg_timeline_point *x = a, *y = b;
    return (x->run > y->run) - (x->run < y->run);
}

enum kg_status kg_timelines_query(struct kg_history *history, const struct kg_sql *sql, const char *const *args,
                                  size_t n_args, struct kg_timelines *t, struct kg_error *err) {
    const enum kg_status status = kg_history_ask(history, sql, args, n_args, add_point, t, err);
    for (size_t i = 0; i < t->n_lines; i++)
        qsort(t->lines[i].points, t->lines[i].n_points, sizeof *t->lines[i].points, by_run);
    return status;
}

enum kg_status kg_timelines_largest(struct kg_history *history, const char *limit, const char *pattern,
                                    struct kg_timelines *t, struct kg_error *err) {
#define LARGEST(order, of_run, of_result, is_like)                                                                     \
    "SELECT line, bundle_no, value FROM (SELECT CASE WHEN ?2 = '*.margin' THEN 'all' ELSE f.name END AS line,"         \
    " b.bundle_no, max(m.value) AS value FROM (SELECT * FROM bundle ORDER BY started_us DESC, bundle_id" order         \
    " DESC LIMIT CAST(?1 AS BIGINT)) b JOIN " of_run " JOIN metric_row m ON " of_result                                \
    " JOIN figure_name f ON f.figure_id = m.figure_id WHERE f.name " is_like " AND m.valid <> 0"                       \
    " GROUP BY 1, b.bundle_no) AS largest ORDER BY line" order ", bundle_no"
#define IN_INDEX(order, of_run, of_case, of_result, digest) LARGEST(order, of_run, of_result, "GLOB ?2")
#define IN_STORE(order, of_run, of_case, of_result, digest)                                                            \
    LARGEST(order, of_run, of_result, "LIKE " KG_POSTGRES_LIKE("?2"))
    static const struct kg_sql SQL = { KG_SQL_CALL(IN_INDEX, KG_SQLITE_WORDS),
                                       KG_SQL_CALL(IN_STORE, KG_POSTGRES_WORDS) };
    const char *const args[] = { limit, pattern };
    return kg_timelines_query(history, &SQL, args, KG_COUNT_OF(args), t, err);
}

void kg_timelines_plot(const struct kg_timelines *t, double scale, enum kg_timeline_axis axis, const char *unit,
                       const char *says, struct kg_page *page) {
    static const char *const AXES[] = { [KG_AXIS_FROM_ZERO] = "set yrange [0:*]",
                                        [KG_AXIS_ANY] = "set offsets 0, 0, graph 0.1, graph 0.1",
                                        [KG_AXIS_LOGARITHMIC] = "set logscale y" };
    struct kg_buffer script = KG_BUFFER_INIT, plots = KG_BUFFER_INIT;
    for (size_t i = 0; i < t->n_lines && i < KG_PLOT_COLOURS; i++) {
        const struct kg_timeline *line = &t->lines[i];
        kg_buffer_printf(&script, "$l%zu << EOD\n", i);
        for (size_t k = 0; k < line->n_points; k++)
            kg_buffer_printf(&script, "%zu %.9g %.9g %.9g\n", line->points[k].run, scale * line->points[k].value,
                             scale * line->points[k].lo, scale * line->points[k].hi);
        kg_buffer_puts(&script, "EOD\n");
        kg_buffer_printf(&plots, "%s$l%zu using 1:2:3:4 with yerrorlines pt 7 ps 0.4 lc rgb '%s' ",
                         i > 0 ? ", " : "plot ", i, KG_PLOT_COLOUR[i]);
        if (t->n_lines > 1) kg_buffer_puts(&plots, "title ");
        if (t->n_lines > 1) kg_plot_quote(&plots, line->name);
        else kg_buffer_puts(&plots, "notitle");
    }
    kg_buffer_printf(&script, KG_RUNS_AXIS "set ylabel '%s'\nset bars small\n%s\nset key outside top horizontal\n%s\n",
                     json_array_size(t->runs), unit, AXES[axis], kg_buffer_text(&plots));
    kg_page_plot(page, kg_buffer_text(&script), says);
    kg_buffer_free(&plots);
    kg_buffer_free(&script);
}
