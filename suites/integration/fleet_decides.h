/* Verbs that decide, over a fleet: what they say of the same runs in a folder, and never what tampered rows say. */
#ifndef KIGO_SUITES_FLEET_DECIDES_H
#define KIGO_SUITES_FLEET_DECIDES_H

#include "suites/harness/case.h"

void kg_fleet_decides_as_a_folder(struct kg_record *rec, const void *arg);
void kg_fleet_tampered_rows_decide_nothing(struct kg_record *rec, const void *arg);
void kg_fleet_spoilt_copies_are_brought_again(struct kg_record *rec, const void *arg);
void kg_fleet_annotated_as_a_folder(struct kg_record *rec, const void *arg);

#endif
