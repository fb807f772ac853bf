/* A suite program's own list of its cases, had by running it with --list, and judged before it is believed. */
#ifndef KIGO_RUN_LISTING_H
#define KIGO_RUN_LISTING_H

#include "run/child.h"
#include <jansson.h>
#include <kigo/status.h>
#include <stdint.h>

enum { KG_LISTING_LIMIT_S = 60 };

/* *lines = a new array of plan lines whose "suite" is `name`. KG_ERR_FORMAT or KG_ERR_INCOMPLETE with the reason if the
 * program crashed, hung, failed, listed nothing, or wrote a line that is no plan line or whose key, seed or definition
 * hash is not what its fields say. */
KG_WARN_UNUSED enum kg_status kg_listing_get(const char *path, const char *name,
                                             const struct kg_child_surroundings *around, json_t **lines,
                                             struct kg_error *err);

/* A plan line for a case of the harness itself: harness/<program>/<case_name>. */
json_t *kg_listing_harness_line(const char *program, const char *case_name, uint64_t seed);

#endif
