/* Processes that publish runs into one folder, rebuild its index and ask it, all at once. */
#ifndef KIGO_SUITES_PUBLISHERS_H
#define KIGO_SUITES_PUBLISHERS_H

#include <stddef.h>

enum { KG_PUBLISHERS = 8 };

struct kg_published {
    size_t n_runs, n_reindexed, n_asked; /* by all processes */
};

/* KG_PUBLISHERS children publish one run after another until `seconds` have passed, each at least one; in between they
 * also run `kigo reindex` and `kigo list` as separate programs. The case fails if any of it fails or says anything
 * ("database is locked"), if a run that was published is not both in the folder and in the index, if a bundle or the
 * chain does not verify, or if the index as it grew differs from what `kigo reindex` and an index made from nothing
 * hold. */
void kg_publish_at_once(const char *root, double seconds, struct kg_published *published);

#endif
