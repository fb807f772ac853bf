/* The runs of a store that are decided on. What a fleet's rows say of a run is held against its archive: that is
 * unpacked into a folder of the reader's, the shelf, where it is verified and indexed as any folder's bundles are
 * (trust.h), and figures are read from the shelf's index alone. The store's rows say which runs there are; of a run
 * that is decided on, they must say what its bundle says.
 *
 * A shelf lies in the reader's $XDG_CACHE_HOME/kigo (bundle/verified.h), one a store; without such a folder in a
 * temporary one, as long as the history is open. It may be deleted at any time. Every function is for a folder's
 * history as well, whose runs lie in its root. */
#ifndef KIGO_HISTORY_SHELF_H
#define KIGO_HISTORY_SHELF_H

#include <kigo/history.h>

/* The folder in which brought runs lie; made if missing. */
KG_WARN_UNUSED enum kg_status kg_shelf_root(struct kg_history *history, const char **root, struct kg_error *err);

/* Sees to it that these runs lie there, without a look at what they say. */
KG_WARN_UNUSED enum kg_status kg_shelf_bring(struct kg_history *history, const char *const *ids, size_t n_ids,
                                             struct kg_error *err);

/* kg_trust_runs of a store: brings and verifies them. KG_ERR_INTEGRITY, too, if the store's row of a run says another
 * thing than its bundle. */
KG_WARN_UNUSED enum kg_status kg_shelf_trust(struct kg_history *history, const char *const *ids, size_t n_ids,
                                             struct kg_error *err);

/* Of the runs that were brought before and that the store has still, the rows against the bundles: a row that leaves
 * its run out of a baseline is found so. KG_ERR_INTEGRITY as above. */
KG_WARN_UNUSED enum kg_status kg_shelf_check_rows(struct kg_history *history, struct kg_error *err);

/* The index that has the figures of trusted runs. */
struct kg_history *kg_shelf_index(struct kg_history *history);

/* Of a store: closes the index, and removes a temporary shelf. */
void kg_shelf_close(struct kg_history *history);

#endif
