/* A fleet's bundles on this machine, for verbs that read runs whole.
 *
 * They lie in $XDG_CACHE_HOME/kigo/fleet (~/.cache/kigo/fleet), a folder of bundles that nobody else may enter: each
 * was verified as it came, and is again before it is read (bundle/verified.h: a look at its stamps, while nobody
 * touched it). One serves again while the fleet's run of that name has its tag manifest; fleets may share it. What was
 * not asked for lately goes when a verb begins while no other reads. Where there is no such folder, or it cannot be
 * written, they come into a folder below $TMPDIR that goes with the verb. */
#ifndef KIGO_CLI_FLEET_CACHE_H
#define KIGO_CLI_FLEET_CACHE_H

#include "fleet/fleet.h"

struct kg_fleet_cache;

/* history: the fleet's rows. Both stay the caller's, and open as long as the cache is. */
KG_WARN_UNUSED enum kg_status kg_fleet_cache_open(struct kg_fleet *fleet, struct kg_history *history,
                                                  struct kg_fleet_cache **cache, struct kg_error *err);
void kg_fleet_cache_close(struct kg_fleet_cache *cache);

/* The folder of bundles. */
const char *kg_fleet_cache_root(const struct kg_fleet_cache *cache);

/* Brings the run of that id, unless it is here. KG_ERR_NOT_FOUND if the fleet has none; KG_ERR_INTEGRITY if its archive
 * is not the one that was pushed, or its bundle does not verify. verb: what the bar of progress is called. *dir is
 * malloc'ed. */
KG_WARN_UNUSED enum kg_status kg_fleet_cache_bring(struct kg_fleet_cache *cache, const char *verb, const char *id,
                                                   char **dir, struct kg_error *err);

/* Leaves a folder's path out of a message: "<dir>/<id>/data/..." becomes "<id>/data/...". */
void kg_fleet_cache_hide(const char *dir, struct kg_error *err);

#endif
