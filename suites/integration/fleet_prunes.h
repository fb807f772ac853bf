/* What goes from a fleet, who may let it go, and what is left of it. */
#ifndef KIGO_SUITES_FLEET_PRUNES_H
#define KIGO_SUITES_FLEET_PRUNES_H

#include "suites/harness/case.h"

void kg_fleet_pruned_runs_leave_tombstones(struct kg_record *rec, const void *arg);
void kg_fleet_pruned_is_as_reindexed(struct kg_record *rec, const void *arg);
void kg_fleet_prunes_as_a_folder(struct kg_record *rec, const void *arg);

#endif
