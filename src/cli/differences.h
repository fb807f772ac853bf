/* What came out otherwise, for people: lines of values then and now (history/reproduce.h). */
#ifndef KIGO_CLI_DIFFERENCES_H
#define KIGO_CLI_DIFFERENCES_H

#include "base/buffer.h"
#include <jansson.h>

/* A line for each of the list, "    NAME: THEN -> NOW"; `name` is the member that names it. Numbers are in the unit
 * that a person would choose (base/quantity.h), by the member "unit" or what the name ends in (_bytes, _ns); two that
 * would look alike so have all their digits. */
void kg_differences_put(const json_t *list, const char *name, struct kg_buffer *out);

#endif
