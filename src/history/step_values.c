#include "history/step_values.h"
#include "base/buffer.h"
#include "history/store.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run's column, sorted by bundle_no. */
struct column {
    int64_t bundle_no;
    size_t column;
};

static int by_bundle(const void *a, const void *b) {
    const int64_t x = ((const struct column *)a)->bundle_no, y = ((const struct column *)b)->bundle_no;
    return (x > y) - (x < y);
}

struct reading {
    struct kg_step_values *out;
    const struct column *columns;
    size_t first, end; /* the series of the case */
    int64_t result_id;
    size_t *n_seen; /* by series of the case: figures of its name so far in this result */
};

static bool add_value(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct reading *r = arg;
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    if (cells[0].integer != r->result_id) memset(r->n_seen, 0, (r->end - r->first) * sizeof *r->n_seen);
    r->result_id = cells[0].integer;
    const struct column wanted = { .bundle_no = cells[0].integer >> 20 };
    const struct column *column = bsearch(&wanted, r->columns, r->out->n_columns, sizeof wanted, by_bundle);
    if (!column) return true;
    for (size_t i = r->first; i < r->end; i++) {
        const struct kg_run_figure f = { .info = r->out->figures[i],
                                         .value = cells[2].kind == KG_CELL_REAL  ? cells[2].real
                                                  : cells[2].kind == KG_CELL_INT ? (double)cells[2].integer
                                                                                 : NAN,
                                         .valid = cells[3].integer != 0 };
        if (f.info->figure_id != cells[1].integer || r->n_seen[i - r->first]++ != r->out->occurrences[i]) continue;
        r->out->series[i].by_run[column->column] = kg_run_figure_log(&f);
    }
    return true;
}

/* The results of a case in its definition, whatever else has changed about it; a result's number begins with its
 * bundle's. */
static enum kg_status read_case(struct kg_history *history, const struct kg_catalogue *catalogue, struct reading *r,
                                struct kg_error *err) {
#define VALUES(joins)                                                                                                  \
    "SELECT r.result_id, m.figure_id, m.value, m.valid FROM result_row r" joins                                        \
    " WHERE r.case_id = CAST(?1 AS BIGINT) AND r.result_id BETWEEN CAST(?2 AS BIGINT) << 20 AND"                       \
    " (CAST(?3 AS BIGINT) << 20) + 1048575 ORDER BY r.result_id, m.seq"
    static const struct kg_sql SQL = { VALUES(" JOIN metric_row m USING(result_id)"),
                                       VALUES(" JOIN bundle b ON b.bundle_no = r.result_id >> 20 AND r.runner_no ="
                                              " b.runner_no AND r.month = b.month JOIN metric_row m"
                                              " ON m.result_id = r.result_id AND m.runner_no = r.runner_no"
                                              " AND m.month = r.month") };
    const size_t same = r->out->results[r->first]->c->same;
    enum kg_status status = KG_OK;
    char texts[3][32];
    const char *const args[] = { texts[0], texts[1], texts[2] };
    snprintf(texts[1], sizeof texts[1], "%lld", (long long)r->columns[0].bundle_no);
    snprintf(texts[2], sizeof texts[2], "%lld", (long long)r->columns[r->out->n_columns - 1].bundle_no);
    for (size_t i = 0; i < catalogue->n_cases && status == KG_OK; i++) {
        if (catalogue->cases[i].same != same) continue;
        snprintf(texts[0], sizeof texts[0], "%lld", (long long)catalogue->cases[i].case_id);
        status = kg_history_ask(history, &SQL, args, 3, add_value, r, err);
    }
    return status;
}

static void list_series(const struct kg_run *newest, enum kg_figure_class class,
                        bool (*wants)(void *arg, const struct kg_case_info *c, const struct kg_figure_info *figure),
                        void *arg, struct kg_step_values *out) {
    for (size_t i = 0; i < newest->n_results; i++) {
        const struct kg_run_result *r = &newest->results[i];
        for (size_t k = 0; k < r->n_figures; k++) {
            const struct kg_run_figure *f = &newest->figures[r->first_figure + k];
            if (kg_figure_class_in(r->c, f->info) != class || (wants && !wants(arg, r->c, f->info))) continue;
            out->results[out->n] = r;
            out->figures[out->n] = f->info;
            out->cases[out->n] = i;
            out->occurrences[out->n++] = f->occurrence;
        }
    }
    out->values = kg_xcalloc(out->n * out->n_columns, sizeof *out->values);
    for (size_t i = 0; i < out->n * out->n_columns; i++) out->values[i] = NAN;
    for (size_t i = 0; i < out->n; i++)
        out->series[i] = (struct kg_series){ out->results[i]->c->backend, out->values + i * out->n_columns };
}

enum kg_status kg_step_values_load(struct kg_history *history, const struct kg_catalogue *catalogue,
                                   const struct kg_run *newest, enum kg_figure_class class,
                                   bool (*wants)(void *arg, const struct kg_case_info *c,
                                                 const struct kg_figure_info *figure),
                                   void *arg, const struct kg_run_head *const *runs, size_t n_runs,
                                   struct kg_step_values *out, struct kg_error *err) {
    const size_t room = newest->n_figures;
    struct column *columns = kg_xcalloc(n_runs, sizeof *columns);
    enum kg_status status = KG_OK;
    *out = (struct kg_step_values){ .results = kg_xcalloc(room, sizeof *out->results),
                                    .figures = kg_xcalloc(room, sizeof *out->figures),
                                    .occurrences = kg_xcalloc(room, sizeof *out->occurrences),
                                    .cases = kg_xcalloc(room, sizeof *out->cases),
                                    .series = kg_xcalloc(room, sizeof *out->series),
                                    .n_columns = n_runs };
    for (size_t i = 0; i < n_runs; i++) columns[i] = (struct column){ runs[i]->bundle_no, i };
    if (n_runs > 1) qsort(columns, n_runs, sizeof *columns, by_bundle);
    list_series(newest, class, wants, arg, out);
    struct reading r = { .out = out, .columns = columns, .n_seen = kg_xcalloc(room, sizeof *r.n_seen) };
    for (; r.first < out->n && status == KG_OK; r.first = r.end) {
        r.end = r.first + 1;
        r.result_id = -1;
        while (r.end < out->n && out->cases[r.end] == out->cases[r.first]) r.end++;
        status = read_case(history, catalogue, &r, err);
    }
    free(r.n_seen);
    free(columns);
    if (status != KG_OK) kg_step_values_free(out);
    return status;
}

void kg_step_values_free(struct kg_step_values *values) {
    free(values->results);
    free(values->figures);
    free(values->occurrences);
    free(values->cases);
    free(values->series);
    free(values->values);
    *values = (struct kg_step_values){ 0 };
}
