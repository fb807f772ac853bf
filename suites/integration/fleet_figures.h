/* What a fleet costs, beside what a folder of the same runs costs (SQLite) at the same time. Figures are metrics of the
 * case, in seconds the least of some calls: what else the machine does only adds. Nothing is judged but that answers
 * are the same and that every run is there once. */
#ifndef KIGO_SUITES_FLEET_FIGURES_H
#define KIGO_SUITES_FLEET_FIGURES_H

#include "suites/harness/case.h"
#include <stdint.h>

enum { KG_FLEET_MOST_SIZES = 4 };
struct kg_fleet_figures {
    size_t n_cases, n_line; /* of a run; runs of a line of commits, the newest judged by the others (21) */
    int64_t
        n_rows[KG_FLEET_MOST_SIZES]; /* histories of so many figures, ascending; the first may be 0: the runs' own */
    size_t n_runs;                   /* in which a case is looked for */
    int n_calls;                     /* of which the least counts */
    int n_runners;                   /* that push at once */
    double seconds;                  /* for so long */
};

/* A push alone; then regress, diff, list, a run's page, steps of a case and a run's figures by SQL, in histories that
 * grow. arg: struct kg_fleet_figures. */
void kg_fleet_asked_as_it_grows(struct kg_record *rec, const void *arg);
/* list, and steps of a case, over many runs. */
void kg_fleet_asked_over_runs(struct kg_record *rec, const void *arg);
/* Many runners push, each one run after another: none is lost, none is there twice, and no two wait for each other. */
void kg_fleet_pushed_by_many(struct kg_record *rec, const void *arg);

#endif
