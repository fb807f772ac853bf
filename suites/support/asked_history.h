/* The store that a case asks: the index of its folder of bundles, or what the program puts in its place, so that the
 * same cases ask a fleet (integration/test_stores.c). */
#ifndef KIGO_SUITES_ASKED_HISTORY_H
#define KIGO_SUITES_ASKED_HISTORY_H

#include "base/size.h"
#include "suites/harness/case.h"
#include <kigo/history.h>

/* Opens a history of the runs and annotations that the folder has now; the case fails if it cannot be. What judges by
 * it takes *root as the folder of bundles (NULL: not asked for), until it is closed. */
void kg_asked_open(const char *root, struct kg_history **history, const char **of_history);

/* Puts another store in the place of the folder's index, for all calls; NULL: back. */
typedef enum kg_status kg_asked_open_fn(const char *root, struct kg_history **history, const char **of_history,
                                        struct kg_error *err);
void kg_asked_by(kg_asked_open_fn *open);

/* The cases of a unit program that asks a history. Each is a separate program; test_stores has all their tables
 * instead, compiled with KG_CASES_ARE_ASKED. */
struct kg_asked_cases {
    const char *file; /* of suites/unit */
    const struct kg_case *cases;
    size_t n_cases;
};
#ifdef KG_CASES_ARE_ASKED
#define KG_ASKED_SUITE(subject, all)                                                                                   \
    const struct kg_asked_cases kg_asked_cases_##subject = { "test_" #subject ".c", (all), KG_COUNT_OF(all) };
#else
#define KG_ASKED_SUITE(subject, all)                                                                                   \
    int main(int argc, char **argv) {                                                                                  \
        return kg_suite_main(argc, argv, (all), KG_COUNT_OF(all));                                                     \
    }
#endif

extern const struct kg_asked_cases kg_asked_cases_history, kg_asked_cases_regress, kg_asked_cases_regress_again,
    kg_asked_cases_regress_limits, kg_asked_cases_step_search, kg_asked_cases_views;

#endif
