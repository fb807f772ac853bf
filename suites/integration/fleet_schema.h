/* The fleet's tables over their versions, and what a question reads of them. */
#ifndef KIGO_SUITES_FLEET_SCHEMA_H
#define KIGO_SUITES_FLEET_SCHEMA_H

#include "suites/harness/case.h"

/* Without tables, with older ones and with those of a newer kigo. */
void kg_fleet_versions(struct kg_record *rec, const void *arg);
/* Every row and every answer is there after `kigo fleet migrate`. */
void kg_fleet_older_versions_migrate(struct kg_record *rec, const void *arg);
/* Over the views: rows of the runs that are asked for, and of no other run. */
void kg_fleet_questions_read_their_runs(struct kg_record *rec, const void *arg);
/* Rows under the numbers of a run, of another runner or month, change no answer. */
void kg_fleet_rows_of_others_are_no_part(struct kg_record *rec, const void *arg);

#endif
