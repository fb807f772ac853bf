/* What this user's kigo found when it verified bundles, so that it need not do it again for bundles nobody has touched.
 * Others keep texts about files of a folder in the same way (run/known_lists.h).
 *
 * The notes of a root lie in the reader's own $XDG_CACHE_HOME/kigo (or ~/.cache/kigo), in a folder that nobody else may
 * enter, and not beside the bundles: whoever may write there could edit them as well. A note holds as long as the
 * stamps (bundle/stamps.h) of what it speaks of are the same, and for the build of kigo that wrote it. Where there is
 * no such folder, nothing is kept and everything is verified each time. */
#ifndef KIGO_BUNDLE_VERIFIED_H
#define KIGO_BUNDLE_VERIFIED_H

#include "bundle/stamps.h"
#include <kigo/bundle.h>

struct kg_verified;

/* The notes of a folder of bundles; never NULL. */
struct kg_verified *kg_verified_open(const char *root);
/* Keeps what was added, if it can. */
void kg_verified_close(struct kg_verified *verified);

/* kg_bundle_verify of <root>/<id>, unless a note says that it was done. */
KG_WARN_UNUSED enum kg_status kg_verified_check(struct kg_verified *verified, const char *id, struct kg_error *err);

/* A text kept for a bundle under a name while these stamps hold; NULL if there is none. */
const char *kg_verified_get(const struct kg_verified *verified, const char *id, const char *name,
                            const struct kg_stamps *stamps);
/* Keeps it, if the stamps are settled. */
void kg_verified_put(struct kg_verified *verified, const char *id, const char *name, const struct kg_stamps *stamps,
                     const char *text);

/* The user's own $XDG_CACHE_HOME/kigo, made if missing, malloc'ed; NULL where there is none that nobody else may enter.
 */
char *kg_own_cache_folder(void);

/* kg_bundle_verify of any bundle's folder in this way: no findings where a note says that it was done. */
KG_WARN_UNUSED enum kg_status kg_verified_findings(const char *dir, struct kg_bundle_findings *findings,
                                                   struct kg_error *err);
/* The same, where no finding is asked for. */
KG_WARN_UNUSED enum kg_status kg_verified_check_folder(const char *dir, struct kg_error *err);

#endif
