/* What verbs answer over a fleet: what they answer over the same runs in a folder. */
#ifndef KIGO_SUITES_FLEET_ASKS_H
#define KIGO_SUITES_FLEET_ASKS_H

#include "suites/harness/case.h"

void kg_fleet_asks_as_a_folder(struct kg_record *rec, const void *arg);
void kg_fleet_queries_only_read(struct kg_record *rec, const void *arg);
void kg_fleet_or_folder(struct kg_record *rec, const void *arg);
void kg_fleet_latest_has_slack(struct kg_record *rec, const void *arg);

#endif
