/* A figure through runs as a picture that needs no other program: SVG in the colours of the page. */
#ifndef KIGO_WEB_CHART_H
#define KIGO_WEB_CHART_H

#include "report/page.h"

struct kg_chart_mark {
    size_t run;       /* the first at the new level */
    const char *text; /* "+12.3%" */
};
struct kg_chart {
    const char *title, *unit; /* of the history: escaped here */
    const double *values;     /* by run, oldest first; NaN: none */
    size_t n_values;
    const struct kg_chart_mark *marks;
    size_t n_marks;
};

/* Nothing for fewer than two values. */
void kg_chart_put(const struct kg_chart *chart, struct kg_page *page);

#endif
