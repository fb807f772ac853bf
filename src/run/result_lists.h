/* The lists of a result record (errors, timings, metrics, memory: bundle.h) as a suite program sent them, judged before
 * anything is believed: known fields of known types only, so that whatever a program sends, the records stay readable.
 */
#ifndef KIGO_RUN_RESULT_LISTS_H
#define KIGO_RUN_RESULT_LISTS_H

#include <jansson.h>
#include <kigo/status.h>

/* *lists = a new object with the four lists, holding the known fields of `end` and no others; a timing keeps its
 * "samples". KG_ERR_FORMAT naming the list, row and field that is missing or of another type. */
KG_WARN_UNUSED enum kg_status kg_result_lists_read(const json_t *end, json_t **lists, struct kg_error *err);

/* The four lists, empty: of a case that ended without a result. */
json_t *kg_result_lists_empty(void);

/* The name of a judged error that is outside its tolerance (or without a margin), NULL if there is none. */
const char *kg_result_lists_outside(const json_t *lists);

#endif
