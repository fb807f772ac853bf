/* Running one case under Check, in this process. */
#ifndef KIGO_SUITES_CASE_RUN_H
#define KIGO_SUITES_CASE_RUN_H

#include "suites/harness/record.h"

enum kg_outcome { KG_OUTCOME_PASS, KG_OUTCOME_FAIL, KG_OUTCOME_SKIP };

struct kg_case_result {
    enum kg_outcome outcome;
    char *reason; /* why it failed or was skipped, malloc'ed; NULL if it passed */
    char *where;  /* "file.c:12" of a failure, malloc'ed; else NULL */
    uint64_t duration_ns;
};

const char *kg_outcome_name(enum kg_outcome outcome); /* "pass", "fail", "skip": the statuses of bundle.h */

/* Every case starts with the default floating-point environment, whatever the one before left. */
void kg_case_run(struct kg_record *rec, struct kg_case_result *result);
void kg_case_result_free(struct kg_case_result *result);

#endif
