/* The suite's fleet made equal to a folder of bundles: its runs pushed, its annotations written, and what an earlier
 * case left taken away. Runs that both have stay, as cases make many of the same bytes. */
#ifndef KIGO_SUITES_FLEET_MIRROR_H
#define KIGO_SUITES_FLEET_MIRROR_H

#include "suites/integration/fleet_lab.h"

void kg_fleet_mirror(const struct kg_fleet_lab *lab, const char *root);
/* Of runs that a reader of the fleet has brought to a folder: those that the mirrored folder has not go. An id is of
 * one run alone, and here earlier cases had others of the same name. */
void kg_fleet_drop_brought(const char *brought, const char *root);

#endif
