/* Several runs brought back at once, and the job that pushes what it judged. */
#ifndef KIGO_SUITES_FLEET_PULLS_H
#define KIGO_SUITES_FLEET_PULLS_H

#include "suites/harness/case.h"

/* `kigo pull` with the filters of `kigo list` brings the runs that `kigo list` lists; what is here is not fetched. */
void kg_fleet_pulls_what_list_lists(struct kg_record *rec, const void *arg);
/* A run that is not sound, there or here, stops no other and is not replaced. */
void kg_fleet_pulls_past_the_unsound(struct kg_record *rec, const void *arg);
/* `.ci/judge --push`. */
void kg_fleet_judge_pushes(struct kg_record *rec, const void *arg);

#endif
