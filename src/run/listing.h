/* The cases of suite programs: each program prints its own list (--list), which is checked line by line. The first line
 * is {"built_from": kg_built_from(), "alone": whether the list follows from the program and variables KIGO_* alone},
 * then comes a line a case. */
#ifndef KIGO_RUN_LISTING_H
#define KIGO_RUN_LISTING_H

#include "base/hash.h"
#include "run/child.h"
#include "run/discover.h"
#include <jansson.h>
#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

enum { KG_LISTING_LIMIT_S = 60 };

struct kg_listing {
    char
        built_from[KG_SHA256_HEX_SIZE]; /* what the program was built from, as its first line says; "" if it does not */
    bool alone;                         /* its list follows from nothing but itself and variables KIGO_* */
    json_t *lines;       /* plan lines whose "suite" is the program's name, owned; NULL if they could not be had */
    struct kg_error err; /* why: the program crashed, hung, failed, listed nothing, or wrote a line that is no plan line
                          * or whose key, seed or definition hash is not what its fields say */
};

/* Lists every program, as many at a time as there are processors; listings[i] is of programs[i]. */
void kg_listings_get(const struct kg_suite_program *programs, size_t n_programs,
                     const struct kg_child_surroundings *around, struct kg_listing *listings);

/* A plan line for a case of the harness itself: harness/<program>/<case_name>. */
json_t *kg_listing_harness_line(const char *program, const char *case_name, uint64_t seed);

#endif
