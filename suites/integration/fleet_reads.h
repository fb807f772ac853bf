/* Verbs that read runs whole, over a fleet: what they answer over the same runs in a folder, and what they believe. */
#ifndef KIGO_SUITES_FLEET_READS_H
#define KIGO_SUITES_FLEET_READS_H

#include "suites/harness/case.h"

void kg_fleet_reads_as_a_folder(struct kg_record *rec, const void *arg);
void kg_fleet_reads_only_what_verifies(struct kg_record *rec, const void *arg);
void kg_fleet_reads_from_a_cache(struct kg_record *rec, const void *arg);

#endif
