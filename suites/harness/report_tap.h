/* What a suite program prints when run by hand: TAP 13. */
#ifndef KIGO_SUITES_REPORT_TAP_H
#define KIGO_SUITES_REPORT_TAP_H

#include "suites/harness/case_run.h"
#include <stdbool.h>

void kg_tap_plan(size_t n_cases);
/* verbose: the figures the case recorded, as diagnostics. */
void kg_tap_case(size_t number, const struct kg_record *rec, const struct kg_case_result *result, bool verbose);

/* From now until disarmed, a case that runs past its limit ends the program with a "Bail out!" line. */
void kg_tap_arm_limit(const char *key, double timeout_s);
void kg_tap_disarm_limit(void);

#endif
