/* How a suite program reports to the runner that started it.
 *
 * The runner gives two descriptors by environment: KIGO_CASES_FD, to be read to its end, holds the keys to run, one a
 * line; KIGO_EVENTS_FD takes JSON objects, one a line:
 *   {"event":"start","key"}
 *   {"event":"transcript","key","name","line":{...}}
 *   {"event":"attach","key","file","data" (base64)}          only of a case that failed, before its end
 *   {"event":"end","key","status" (pass fail skip),"reason","duration_ns","errors","timings","metrics","memory"}
 *                                                            lists as in bundle.h; a timing holds its "samples" in ns
 *   {"event":"done"}                                         after the last case
 * What a program writes to standard output and error goes to its log. */
#ifndef KIGO_SUITES_REPORT_EVENTS_H
#define KIGO_SUITES_REPORT_EVENTS_H

#include "suites/harness/case_list.h"
#include "suites/harness/case_run.h"

/* The runner's descriptor, or -1 by hand. Takes it out of the environment and closes it on exec, so that programs the
 * cases start are on their own. */
int kg_events_fd(void);

/* Selects the cases the runner named. KG_ERR_USAGE for a key this program does not have. */
KG_WARN_UNUSED enum kg_status kg_events_select(struct kg_case_list *list, struct kg_error *err);

void kg_events_start(int fd, const char *key);
void kg_events_end(int fd, const struct kg_record *rec, const struct kg_case_result *result);
void kg_events_done(int fd);

#endif
