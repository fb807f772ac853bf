/* What is done with a run of a fleet: run again, and signed off. */
#ifndef KIGO_SUITES_FLEET_RERUNS_H
#define KIGO_SUITES_FLEET_RERUNS_H

#include "suites/harness/case.h"

void kg_fleet_reruns_as_a_folder(struct kg_record *rec, const void *arg);
void kg_fleet_signs_off_as_a_folder(struct kg_record *rec, const void *arg);

#endif
