/* The cases of a suite program, with their keys worked out and checked. */
#ifndef KIGO_SUITES_CASE_LIST_H
#define KIGO_SUITES_CASE_LIST_H

#include "suites/harness/case.h"
#include <stdbool.h>

struct kg_listed_case {
    struct kg_case c; /* strings owned by the list */
    char *key;
    bool selected;
};

struct kg_case_list {
    struct kg_listed_case *items;
    size_t n_items;
    struct kg_error first_error; /* of an add that could not be taken; status KG_OK if none */
};

/* KG_ERR_USAGE for a case that was not taken (malformed key, no run function) or a key that stands twice. */
KG_WARN_UNUSED enum kg_status kg_case_list_check(struct kg_case_list *list, struct kg_error *err);

/* The case of that key, NULL if there is none; the list must have been checked. */
struct kg_listed_case *kg_case_list_find(struct kg_case_list *list, const char *key);

void kg_case_list_free(struct kg_case_list *list);

#endif
