/* URLs of fleets. */
#ifndef KIGO_SUITES_FLEET_URLS_H
#define KIGO_SUITES_FLEET_URLS_H

#include "suites/harness/case.h"

void kg_fleet_unreachable(struct kg_record *rec, const void *arg);

#endif
