/* A verb asked twice: about the runs of a folder, and about the same runs in a fleet. */
#ifndef KIGO_SUITES_FLEET_BOTH_H
#define KIGO_SUITES_FLEET_BOTH_H

#include "suites/integration/fleet_lab.h"

struct kg_fleet_both {
    struct kg_fleet_lab fleet;
    char *root;        /* of the folder */
    char *url, *where; /* of a reader: KIGO_HISTORY=..., and what messages call it */
};

/* False: the case was marked as skipped. */
bool kg_fleet_both_open(struct kg_fleet_both *both, struct kg_record *rec, const char *root);
void kg_fleet_both_close(struct kg_fleet_both *both);

/* A run of the folder into the fleet. */
void kg_fleet_both_push(const struct kg_fleet_both *both, const char *user, const char *id);

/* The same words, in the same form (NULL: none more): exit code, output and messages are the same, but for where a run
 * lies and when it was signed off. */
void kg_fleet_both_expect(const struct kg_fleet_both *both, const char *const *args, const char *form);

/* The fleet alone; more: another variable of the environment, or NULL. */
void kg_fleet_both_ask(const struct kg_fleet_both *both, const char *const *args, const char *more,
                       struct kg_process_result *result);

#endif
