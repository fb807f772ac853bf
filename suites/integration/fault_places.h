/* Which of a verb's calls shall fail. */
#ifndef KIGO_SUITES_FAULT_PLACES_H
#define KIGO_SUITES_FAULT_PLACES_H

#include "suites/integration/fault_sweep.h"
#include "suites/support/fault_report.h"

/* Numbers of calls, from 1, ascending, each once, malloc'ed: the first and the last from each place, and those drawn
 * from all by the seed. n_places: how many places there are. */
size_t *kg_fault_choose(const struct kg_fault_report *report, const struct kg_fault_sweep *how, uint64_t seed,
                        size_t *n_places, size_t *n_chosen);

#endif
