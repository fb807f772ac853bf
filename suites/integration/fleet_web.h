/* `kigo web` over a fleet. */
#ifndef KIGO_SUITES_FLEET_WEB_H
#define KIGO_SUITES_FLEET_WEB_H

#include "suites/harness/case.h"

void kg_fleet_pages_as_of_a_folder(struct kg_record *rec, const void *arg);
void kg_fleet_hostile_texts_stay_texts(struct kg_record *rec, const void *arg);
/* Its pages in Chromium, at a phone's width. */
void kg_fleet_in_a_browser(struct kg_record *rec, const void *arg);

#endif
