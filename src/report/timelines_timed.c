/* Timings from run to run: where they stepped, and pictures of those worth looking at. */
#include "base/size.h"
#include "history/step_search.h"
#include "report/sections.h"
#include "report/timelines.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PICTURES = 12, LEAST_POINTS = 3 };

static bool take_id(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    (void)n_columns;
    (void)names;
    if (cells) *(char **)arg = kg_xstrndup(cells[0].text, cells[0].size_bytes);
    return !cells;
}

/* The newest run on the page with a timing; NULL: there is none. */
static enum kg_status find_newest(struct kg_history *history, const char *limit, char **id, struct kg_error *err) {
#define NEWEST(order, of_run, of_case, of_result, digest)                                                              \
    "SELECT b.bundle_id FROM (SELECT * FROM bundle ORDER BY started_us DESC, bundle_id" order                          \
    " DESC LIMIT CAST(?1 AS BIGINT)) b WHERE EXISTS (SELECT 1 FROM (SELECT 1) AS one JOIN " of_run                     \
    " JOIN metric_row m ON " of_result " WHERE m.mad IS NOT NULL AND m.valid <> 0)"                                    \
    " ORDER BY b.started_us DESC, b.bundle_id" order " DESC LIMIT 1"
    static const struct kg_sql SQL = KG_SQL_BOTH(NEWEST);
    *id = NULL;
    return kg_history_ask(history, &SQL, &limit, 1, take_id, id, err);
}

/* The timings of that run's cases in the runs on its machine and build. */
static enum kg_status load(struct kg_history *history, const char *limit, const char *id, struct kg_timelines *t,
                           struct kg_error *err) {
#define TIMINGS(order, of_run, of_case, of_result, digest)                                                             \
    "SELECT line, bundle_no, value, ci_lo, ci_hi FROM (SELECT c.case_key || ' ' || f.name AS line, b.bundle_no,"       \
    " m.value, m.ci_lo, m.ci_hi FROM (SELECT * FROM bundle ORDER BY started_us DESC, bundle_id" order                  \
    " DESC LIMIT CAST(?1 AS BIGINT)) b JOIN " of_run " JOIN tcase c ON c.case_id = r.case_id"                          \
    " JOIN metric_row m ON " of_result " JOIN figure_name f ON f.figure_id = m.figure_id"                              \
    " WHERE m.mad IS NOT NULL AND m.valid <> 0"                                                                        \
    " AND b.comparison_key = (SELECT comparison_key FROM bundle WHERE bundle_id = ?2)"                                 \
    " AND r.case_id IN (SELECT r.case_id FROM bundle b JOIN " of_run " WHERE b.bundle_id = ?2))"                       \
    " AS timed ORDER BY line" order ", bundle_no"
    static const struct kg_sql SQL = KG_SQL_BOTH(TIMINGS);
    const char *const args[] = { limit, id };
    return kg_timelines_query(history, &SQL, args, KG_COUNT_OF(args), t, err);
}

static void put_steps(const struct kg_step_search *search, struct kg_page *page) {
    static const struct kg_column COLUMNS[] = { { "case", KG_COLUMN_NAME },      { "figure", KG_COLUMN_TEXT },
                                                { "before", KG_COLUMN_NUMBER },  { "after", KG_COLUMN_NUMBER },
                                                { "change", KG_COLUMN_NUMBER },  { "p", KG_COLUMN_NUMBER },
                                                { "first run", KG_COLUMN_NAME }, { "commit", KG_COLUMN_NAME } };
    enum { MOST = 50 };
    if (search->n_steps == 0) {
        kg_page_text(page, "No time or rate changed its level for good.");
        return;
    }
    kg_page_text(page, "Where times and rates changed their level for good, latest first.");
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < search->n_steps && i < MOST; i++) {
        const struct kg_found_step *s = &search->steps[i];
        kg_page_cell(page, s->c->key);
        kg_page_cell(page, s->figure->name);
        kg_page_cell(page, kg_quantity_of_unit(s->before, s->figure->unit).text);
        kg_page_cell(page, kg_quantity_of_unit(s->after, s->figure->unit).text);
        kg_page_cell(page, kg_quantity_percent(s->change).text);
        kg_page_cell(page, kg_quantity_general(s->p).text);
        kg_page_cell(page, s->first_after->bundle_id);
        kg_page_cellf(page, "%.12s%s%.12s%s", s->first_after->commit ? s->first_after->commit : "",
                      *s->merge ? ", merge " : "", s->merge, s->creeps ? ", a creep" : "");
    }
    kg_page_table_end(page);
    if (search->n_steps > MOST) kg_page_text(page, "And %zu more: kigo steps.", search->n_steps - MOST);
}

struct ranked {
    const struct kg_timeline *line;
    bool stepped;
    double spread; /* largest over smallest */
};

static int by_interest(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->stepped != y->stepped) return x->stepped ? -1 : 1;
    return x->spread < y->spread ? 1 : x->spread > y->spread ? -1 : strcmp(x->line->name, y->line->name);
}

static bool has_step(const struct kg_step_search *search, const char *line) {
    bool found = false;
    for (size_t i = 0; i < search->n_steps && !found; i++) {
        char *name = kg_xasprintf("%s %s", search->steps[i].c->key, search->steps[i].figure->name);
        found = strcmp(name, line) == 0;
        free(name);
    }
    return found;
}

static double spread_of(const struct kg_timeline *line) {
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < line->n_points; i++) {
        least = fmin(least, line->points[i].value);
        most = fmax(most, line->points[i].value);
    }
    return most / least;
}

static void put_pictures(const struct kg_timelines *t, const struct kg_step_search *search, struct kg_page *page) {
    struct ranked *ranked = kg_xcalloc(t->n_lines, sizeof *ranked);
    size_t n = 0;
    for (size_t i = 0; i < t->n_lines; i++)
        if (t->lines[i].n_points >= LEAST_POINTS)
            ranked[n++] = (struct ranked){ &t->lines[i], has_step(search, t->lines[i].name), spread_of(&t->lines[i]) };
    qsort(ranked, n, sizeof *ranked, by_interest);
    for (size_t i = 0; i < n && i < MOST_PICTURES; i++) {
        struct kg_timeline one = *ranked[i].line;
        const struct kg_timelines single = { t->runs, &one, 1 };
        char *says = kg_xasprintf("Median of %s in µs with its 95%% interval, run by run%s.", one.name,
                                  ranked[i].stepped ? "; it has a step" : "");
        kg_timelines_plot(&single, 1e-3, KG_AXIS_ANY, "µs", says, page);
        free(says);
    }
    free(ranked);
}

enum kg_status kg_timelines_section(struct kg_history *history, const char *const *repositories, const json_t *runs,
                                    const char *limit, struct kg_page *page, struct kg_error *err) {
    static const double LEAST_CHANGE = 0.03;
    struct kg_timelines timelines = { .runs = runs };
    struct kg_step_search search;
    char *newest;
    enum kg_status status = find_newest(history, limit, &newest, err);
    if (status != KG_OK || !newest) return status;
    status = load(history, limit, newest, &timelines, err);
    const struct kg_step_options options = {
        .run = newest, .repositories = repositories, .n_most = json_array_size(runs), .least_change = LEAST_CHANGE
    };
    if (status == KG_OK) status = kg_step_search(history, &options, &search, err);
    if (status == KG_OK) {
        kg_page_section(page, "Timings");
        kg_page_text(
            page, "Runs on the machine and build of %s. Pictures: those with steps first, then those that vary most.",
            newest);
        put_steps(&search, page);
        if (page->plots && page->format == KG_PAGE_HTML) put_pictures(&timelines, &search, page);
        kg_step_search_free(&search);
    }
    kg_timelines_free(&timelines);
    free(newest);
    return status;
}
