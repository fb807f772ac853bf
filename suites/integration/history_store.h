/* A history of many made runs, each of the next commit of a git repository, and what it costs to ask it by the real
 * program. */
#ifndef KIGO_SUITES_HISTORY_STORE_H
#define KIGO_SUITES_HISTORY_STORE_H

#include "suites/harness/case.h"

struct kg_cost {
    double wall_s;
    double processor_s; /* of the program and what it called, user and system, all threads */
    double
        others_share; /* of the machine's processors, used by everything else during the call of wall_s; 0 if unknown */
};

/* Of each verb the cheapest of its calls, by either time: what else runs on the machine only adds. */
struct kg_store_costs {
    struct kg_cost reindex, regress, history;
    double index_bytes;
};

/* Fills *costs with what n_runs runs of n_cases cases with 12 figures each cost: `kigo reindex`, once and, until it
 * took at most enough_wall_s, up to three times; `kigo regress` and `kigo history CASE`, five times each. Their answers
 * are looked at: all runs indexed, 20 baseline runs and every case judged, a row for every run. Costs become metrics of
 * the case. */
void kg_store_measure(struct kg_record *rec, size_t n_runs, size_t n_cases, double enough_wall_s,
                      struct kg_store_costs *costs);

#endif
