/* A page of `kigo web` as a browser shows it. */
#ifndef KIGO_SUITES_WEB_LOOK_H
#define KIGO_SUITES_WEB_LOOK_H

#include "suites/harness/case.h"
#include <stdbool.h>

enum { KG_WEB_PHONE = 360 }; /* CSS pixels */

/* Takes the page's one script out, the filter's, and fails the case if there is another. */
void kg_web_take_script_out(char *page);
/* Fails the case unless the page, without its script, is right at a phone's width, says `words` and has so many
 * pictures. False, with the case marked as skipped, without a browser. */
bool kg_web_looks_right(struct kg_record *rec, const char *page, const char *words, int n_images);

#endif
