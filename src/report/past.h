/* Timings of the runs that a run is held against. */
#ifndef KIGO_REPORT_PAST_H
#define KIGO_REPORT_PAST_H

#include "history/regress.h"
#include <jansson.h>

/* *past: an object of arrays of medians (ns), newest first, by "<case key>\n<def_sha>\n<figure>"; figures are named as
 * in the index, "<name>.<kind>.<state>". The caller's reference. */
KG_WARN_UNUSED enum kg_status kg_past_load(struct kg_history *history, const struct kg_run_heads *baseline,
                                           json_t **past, struct kg_error *err);

/* One of its arrays; NULL if it has none, or past is NULL. */
const json_t *kg_past_of(const json_t *past, const char *key, const char *def_sha, const char *figure);

#endif
