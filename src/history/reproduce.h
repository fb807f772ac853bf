/* Whether a run came out again: its cases, and what is different around them. */
#ifndef KIGO_HISTORY_REPRODUCE_H
#define KIGO_HISTORY_REPRODUCE_H

#include "bundle/records.h"

/* How a case of the first run came out in the second. */
enum kg_reproduced {
    KG_SAME,         /* status and every exact figure */
    KG_OTHER_FIGURE, /* the status, but not every exact figure */
    KG_OTHER_STATUS,
    KG_OTHER_CASE, /* its definition or seed is another: another workload */
    KG_NOT_RUN,    /* it ran, and was skipped now or not run at all: says nothing */
    KG_NOT_THERE,  /* not planned in the second run */
    KG_REPRODUCED_COUNT
};
extern const char *const KG_REPRODUCED_NAMES[KG_REPRODUCED_COUNT];

/* {"case", "outcome", "then", "now" (statuses; now null where it is not there), "figures": [{"figure", "then", "now"}]}
 * of a case that the first run planned; figures are those that differ, of both statuses equal. Exact are errors,
 * memory, and the metrics that figure_kind.h calls so; times and rates are not looked at. */
json_t *kg_reproduce_case(const struct kg_case_records *then, const struct kg_case_records *now,
                          enum kg_reproduced *outcome);

/* {"what" ("env.cpu.model"), "then", "now"} for every member in which two runs' env.json (but what they were asked),
 * build.json and source.json differ. */
json_t *kg_reproduce_surroundings(const char *dir_then, const char *dir_now);

#endif
