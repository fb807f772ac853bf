/* A fleet whose server has a streaming standby, which takes over. */
#ifndef KIGO_SUITES_FLEET_STANDBY_H
#define KIGO_SUITES_FLEET_STANDBY_H

#include "suites/harness/case.h"

/* Readers go on while the server is gone, pushes wait or fail clearly, and go on after the promotion. */
void kg_fleet_standby_takes_over(struct kg_record *rec, const void *arg);
/* The server goes and the standby is promoted at moments of pushes, drawn by the case's seed: what was acknowledged is
 * there, and the client said what became of the rest. How often: an int. */
void kg_fleet_standby_promoted_at_random(struct kg_record *rec, const void *n);

#endif
