/* What must hold of a push whatever happens to it: whole or absent, and the client says which. */
#ifndef KIGO_SUITES_FLEET_HOLDS_H
#define KIGO_SUITES_FLEET_HOLDS_H

#include "suites/integration/fleet_lab.h"

/* The same run by two runners, both under way before either can end. */
void kg_fleet_two_at_once(struct kg_record *rec, const void *arg);
/* A bundle that somebody changes while it is on its way, or that a newer kigo made. */
void kg_fleet_changed_meanwhile(struct kg_record *rec, const void *arg);
void kg_fleet_of_a_newer_kigo(struct kg_record *rec, const void *arg);

/* The server's disk is full: nothing of the run is there, what was is, and it comes in when there is room again. */
void kg_fleet_disk_full(struct kg_record *rec, const void *arg);

/* How often: an int. The moments are drawn by the case's seed. */
void kg_fleet_server_killed_at_random(struct kg_record *rec, const void *n);
void kg_fleet_client_killed_at_random(struct kg_record *rec, const void *n);
/* While it waits for a table that somebody holds: at the first n of them, an int. */
void kg_fleet_client_killed_at_tables(struct kg_record *rec, const void *n);
enum { KG_FLEET_N_TABLES = 8 };

/* That it is so: what `push DIR --json` of a run said is true, and its exit code fits; nothing is torn, and a run that
 * is not there comes in when it is pushed again, once. All runs of the fleet are of one case. */
void kg_fleet_expect_said(const struct kg_fleet_lab *lab, const char *dir, const struct kg_process_result *result);
void kg_fleet_expect_whole(const struct kg_fleet_lab *lab, const char *dir);

#endif
