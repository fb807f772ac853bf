/* Verbs that measure, over a fleet: confirm, regress --confirm, selfcheck. */
#ifndef KIGO_SUITES_FLEET_MEASURES_H
#define KIGO_SUITES_FLEET_MEASURES_H

#include "suites/harness/case.h"

void kg_fleet_confirms_as_a_folder(struct kg_record *rec, const void *arg);
void kg_fleet_selfchecks_as_a_folder(struct kg_record *rec, const void *arg);

#endif
