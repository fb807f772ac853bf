/* Limits far from what was measured: a limit that no error comes near finds no mistake that is smaller than it.
 *
 * Comparisons that share layer, operation, back end, dtype, rule and `why` share a limit's formula: a group. Its
 * distance is limit / error of the comparison that came nearest. Mutants are left out: their limits are other layers'.
 */
#ifndef KIGO_REPORT_FAR_LIMITS_H
#define KIGO_REPORT_FAR_LIMITS_H

#include "bundle/records.h"

#define KG_FAR_TIMES 30

/* Groups more than KG_FAR_TIMES away, array of {"comparisons" ("tolerance/linear[cuda,f16] max_abs"), "why", "n",
 * "error", "limit", "far" (the reason, null where none is stated)}; error and limit of the nearest comparison, error 0
 * where all are exact. New reference. */
json_t *kg_far_limits(const struct kg_records *records);

#endif
