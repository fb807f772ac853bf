/* Figures from run to run. Runs are an array of objects with "bundle_id" and "bundle_no", newest first; the oldest is
 * run 1 on the axis. */
#ifndef KIGO_REPORT_TIMELINES_H
#define KIGO_REPORT_TIMELINES_H

#include "history/store.h"
#include "report/page.h"
#include <jansson.h>
#include <kigo/history.h>

struct kg_timeline_point {
    size_t run; /* number on the axis */
    double value, lo, hi;
};
struct kg_timeline {
    char *name;
    struct kg_timeline_point *points;
    size_t n_points;
};
struct kg_timelines {
    const json_t *runs;
    struct kg_timeline *lines;
    size_t n_lines;
};
void kg_timelines_free(struct kg_timelines *timelines);

/* The largest value of the figures that match a pattern, of each of the newest `limit` (decimal text) runs: a line for
 * each figure ("*.peak"), or one line for all ("*.margin"). */
KG_WARN_UNUSED enum kg_status kg_timelines_largest(struct kg_history *history, const char *limit, const char *pattern,
                                                   struct kg_timelines *timelines, struct kg_error *err);

/* Lines from a query's rows: line's name, bundle_no, value, and maybe the ends of its interval; sorted by name. Points
 * come out in the order of their runs. */
KG_WARN_UNUSED enum kg_status kg_timelines_query(struct kg_history *history, const struct kg_sql *sql,
                                                 const char *const *args, size_t n_args, struct kg_timelines *timelines,
                                                 struct kg_error *err);

/* gnuplot's words for an axis of %zu runs: a mark at each, where there are few. */
#define KG_RUNS_AXIS "n = %zu\nset xrange [0.3:n + 0.7]\nif (n <= 12) set xtics 1, 1\nset xlabel 'run'\n"

/* All lines in one picture; values times `scale`. */
enum kg_timeline_axis { KG_AXIS_FROM_ZERO, KG_AXIS_ANY, KG_AXIS_LOGARITHMIC };
void kg_timelines_plot(const struct kg_timelines *timelines, double scale, enum kg_timeline_axis axis, const char *unit,
                       const char *says, struct kg_page *page);

/* Timings on the machine and build of the newest run that has any: steps, and a picture each for those with steps, then
 * for those that vary most. repositories: where to ask git for commits; NULL ends them. */
KG_WARN_UNUSED enum kg_status kg_timelines_section(struct kg_history *history, const char *const *repositories,
                                                   const json_t *runs, const char *limit, struct kg_page *page,
                                                   struct kg_error *err);

#endif
