/* Which bundles of a root may go, and their going.
 *
 * Kept are: the newest `n_keep` of each comparison key; of each key the newest runs that may be a baseline (complete,
 * green, clean: as many as regress takes); runs that are pinned, that a sign-off names, or that do not verify (evidence
 * of something); and what the index does not hold. Everything else may go: its tombstone is written, its folder renamed
 * out of the way at once and then removed, and the index drops it. */
#ifndef KIGO_HISTORY_PRUNE_H
#define KIGO_HISTORY_PRUNE_H

#include <kigo/history.h>

enum { KG_PRUNE_KEEP = 50 };

struct kg_prune_row {
    char *bundle_id;
    char *kept; /* why it stays, NULL: it may go */
    uint64_t size_bytes;
};
struct kg_prune_plan {
    struct kg_prune_row *rows; /* newest first in each comparison key */
    size_t n_rows, n_to_go;
};

KG_WARN_UNUSED enum kg_status kg_prune_plan(const char *root, size_t n_keep, struct kg_prune_plan *plan,
                                            struct kg_error *err);
/* key: signs the tombstones; NULL: they are not signed. Lets the plan's rows go that may. A death in between leaves
 * whole bundles and tombstones, and a hidden folder that the next call removes. */
KG_WARN_UNUSED enum kg_status kg_prune_apply(const char *root, const struct kg_prune_plan *plan, const char *author,
                                             const char *key, struct kg_error *err);
void kg_prune_plan_free(struct kg_prune_plan *plan);

#endif
