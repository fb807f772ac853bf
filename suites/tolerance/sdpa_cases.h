/* Scaled-dot-product attention against float64 at every head size, mask, grouping, window and sink, at lengths around
 * every tile, in every variant: strided, batched, with normal data and with outliers. */
#ifndef KIGO_SUITES_SDPA_CASES_H
#define KIGO_SUITES_SDPA_CASES_H

#include "suites/harness/case.h"
#include <stdbool.h>

/* Those of queries, keys and values of 8 bits, or those of 16 and 32: two programs, which run beside each other. */
void kg_sdpa_cases(struct kg_case_list *cases, bool of_bytes);

#endif
