/* What suite programs listed when they were last asked, so that a run of a few cases need not start the programs that
 * have none of them.
 *
 * Notes are kept as bundle/verified.h keeps its own: in a folder that only the user may enter, for this build of kigo,
 * while the program's stamps (bundle/stamps.h) and the environment that a list may follow (variables KIGO_*) are the
 * same, and only for programs that say that their list follows from nothing else ("alone", listing.h). A note never
 * stands for a program that runs: those are asked each time, and one note that is not what its program says makes all
 * others void. Nor does it say that a case is missing: then all programs are asked. */
#ifndef KIGO_RUN_KNOWN_LISTS_H
#define KIGO_RUN_KNOWN_LISTS_H

#include "bundle/stamps.h"
#include "run/discover.h"
#include "run/listing.h"

struct kg_known_lists;

struct kg_known_list {
    struct kg_stamps stamps; /* the program's, before anybody asked it */
    json_t *lines;           /* of each case "key", "layer" and "spec", owned; NULL: not known */
};

/* Never NULL. */
struct kg_known_lists *kg_known_lists_open(const struct kg_child_surroundings *around);
/* Writes what was kept, where it can. */
void kg_known_lists_close(struct kg_known_lists *known);

void kg_known_list_find(struct kg_known_lists *known, const struct kg_suite_program *program,
                        struct kg_known_list *found);
/* Keeps what the program listed after it was looked for. False if it was known and listed something else. */
bool kg_known_list_keep(struct kg_known_lists *known, const struct kg_suite_program *program,
                        const struct kg_known_list *found, const struct kg_listing *listing);

#endif
