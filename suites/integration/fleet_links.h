/* What lies between kigo and the server: a link that is cut, and TLS. */
#ifndef KIGO_SUITES_FLEET_LINKS_H
#define KIGO_SUITES_FLEET_LINKS_H

#include "suites/harness/case.h"

/* The link is cut in the midst of a push, the server lives: at so many random bytes (n: an int), and behind COMMIT,
 * whose answer is lost. Every other one comes back. */
void kg_fleet_unreachable_in_mid_push(struct kg_record *rec, const void *n);
/* Certificates of both sides, and what is refused. */
void kg_fleet_over_tls(struct kg_record *rec, const void *arg);

#endif
