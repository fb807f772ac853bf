/* What becomes of a push when the server ends without a word in the middle of it. */
#ifndef KIGO_SUITES_FLEET_CRASHES_H
#define KIGO_SUITES_FLEET_CRASHES_H

#include "suites/harness/case.h"

void kg_fleet_killed_before_commit(struct kg_record *rec, const void *arg);
void kg_fleet_killed_at_commit_and_gone(struct kg_record *rec, const void *arg);
void kg_fleet_killed_at_commit_and_back(struct kg_record *rec, const void *arg);

#endif
