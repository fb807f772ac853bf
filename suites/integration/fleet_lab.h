/* A fleet on the suite's server (fleet_server.h), which each case finds empty; kigo and statements as its users. */
#ifndef KIGO_SUITES_FLEET_LAB_H
#define KIGO_SUITES_FLEET_LAB_H

#include "suites/harness/case.h"
#include "suites/harness/process.h"
#include <jansson.h>
#include <stdbool.h>

struct kg_fleet_lab {
    char database[24];
    char *bundles;       /* a root without bundles, in the case's scratch folder */
    const char *servers; /* ports of those that a URL names: NULL for the server's, "5432,5433" with its standby's */
};

/* Who logs in: "postgres" owns the fleet, "runner_a" and "runner_b" are runners, "reader" reads, "nobody" may nothing.
 */

/* False: the case was marked as skipped. init: with a fleet; else a database of its case, with nothing in it. */
bool kg_fleet_lab_open(struct kg_fleet_lab *lab, struct kg_record *rec, bool init);
/* The same fleet, with what the case before has left in it. */
bool kg_fleet_lab_open_again(struct kg_fleet_lab *lab, struct kg_record *rec);
void kg_fleet_lab_close(struct kg_fleet_lab *lab);

/* postgresql:// URL for a user; malloc'ed. */
char *kg_fleet_lab_url(const struct kg_fleet_lab *lab, const char *user);

/* What the last of some statements gives as a user: rows in lines, cells between bars; malloc'ed. Fails the case on an
 * error. */
char *kg_fleet_lab_sql(const struct kg_fleet_lab *lab, const char *user, const char *sql);
int64_t kg_fleet_lab_number(const struct kg_fleet_lab *lab, const char *sql); /* as postgres */
/* Fails the case unless the server refuses it with a message that holds `says`. */
void kg_fleet_lab_refuses(const struct kg_fleet_lab *lab, const char *user, const char *sql, const char *says);
/* Waits until a statement of one boolean is true. */
void kg_fleet_lab_wait(const struct kg_fleet_lab *lab, const char *sql);

/* `kigo ARGS` with the lab's fleet as $KIGO_HISTORY; the exit code must be the one wanted, what it says holds `says`
 * (NULL: anything). *out: standard output, malloc'ed; NULL: dropped. */
void kg_fleet_lab_kigo(const struct kg_fleet_lab *lab, const char *user, const char *const *args, int exit_code,
                       const char *says, char **out);
/* The same with --json; the caller's reference. */
json_t *kg_fleet_lab_json(const struct kg_fleet_lab *lab, const char *user, const char *const *args, int exit_code);

/* Holds a table, so that who writes to it waits; until released, which may come after the server's end. */
struct kg_fleet_beside;
struct kg_fleet_beside *kg_fleet_lab_hold(const struct kg_fleet_lab *lab, const char *table);
void kg_fleet_lab_release(struct kg_fleet_beside *beside);

/* kigo with these arguments, beside the case. */
struct kg_fleet_job;
struct kg_fleet_job *kg_fleet_lab_begin(const struct kg_fleet_lab *lab, const char *user, const char *const *args);
/* The same, killed (-9) after so many seconds if it is still there. */
struct kg_fleet_job *kg_fleet_lab_begin_for(const struct kg_fleet_lab *lab, const char *user, const char *const *args,
                                            double seconds);
/* Kills it, -9. */
void kg_fleet_job_kill(struct kg_fleet_job *job);
/* Waits for its end; free the result. */
void kg_fleet_job_end(struct kg_fleet_job *job, struct kg_process_result *result);

#endif
