/* How people name a run of a store.
 *
 *   20261123T001050Z-499af4590dce-f730fbb6   its id, or the beginning of it
 *   f730fbb6                                 the id's last 8 digits
 *   latest, latest~N                         the newest that counts as the latest; the one N places before it
 *   499af4590dce, HEAD, HEAD~2, a tag        the run of that commit: 7 digits or more, or what git calls it
 *
 * A name that fits several runs is an error that lists them. */
#ifndef KIGO_CLI_RUN_NAME_H
#define KIGO_CLI_RUN_NAME_H

#include "base/file.h"
#include <kigo/bundle.h>

/* For --help. */
#define KG_RUN_NAMES                                                                                                   \
    "RUN is an id, the beginning of one, its last 8 digits, 'latest', 'latest~1' (the one before), a commit or what\n" \
    "git calls it (HEAD), or a folder."

enum kg_run_names {
    KG_RUN_BY_ANY_NAME,
    KG_RUN_BY_ITS_OWN_NAME, /* not by its commit: where a commit means another thing */
};

/* "latest" and "latest~N": true, and *n_before is N. */
bool kg_run_name_is_latest(const char *name, size_t *n_before);

/* Where runs are: in a folder of bundles; or in a fleet, whose runs are brought into the folder (history/shelf.h)
 * before they are looked at. */
struct kg_history;
struct kg_run_place {
    const char *root, *where, *policy_root; /* where: for messages; policy_root: whose policy counts */
    struct kg_history *fleet;               /* NULL: all lie in the root */
};

/* ids: of the place's bundles, sorted; *id points into it. KG_ERR_NOT_FOUND if the name fits none, KG_ERR_USAGE if it
 * fits several. */
KG_WARN_UNUSED enum kg_status kg_run_name_choose(const struct kg_run_place *place, const char *name,
                                                 enum kg_run_names names, const struct kg_dir_list *ids,
                                                 const char **id, struct kg_error *err);

#endif
