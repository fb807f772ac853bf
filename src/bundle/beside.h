/* What lies in a root beside its bundles: facts about bundles that came after their sealing, one JSON file a bundle or
 * event, so that a lost index loses none of them. They are no bundles, and verify does not take them for renamed ones.
 */
#ifndef KIGO_BUNDLE_BESIDE_H
#define KIGO_BUNDLE_BESIDE_H

#include <kigo/status.h>
#include <jansson.h>
#include <stdbool.h>

#define KG_TOMBSTONES "tombstones" /* <id>.json: pruned, when, by whom, and the tag manifest's SHA-256 */
#define KG_IMPORTS "imports"       /* <id>.json: brought in, when, from which file, signed by whom */
#define KG_IMPORT_UNDER_WAY "."    /* before that name until the bundle is here */
#define KG_SIGNOFFS "signoffs"     /* <sprint>-<utc>/: a sign-off's documents */
#define KG_ANNOTATIONS "annotations"

/* What is said of a root that is not there. */
#define KG_NO_BUNDLES "%s: no such folder of bundles; --bundles DIR or $KIGO_BUNDLES names one, 'kigo check' makes it"

/* Whether a name in a root is one of these folders. */
bool kg_beside_is_folder(const char *name);

/* <root>/<folder>/<id>.json, synced; the folder is made. Replaces an existing file. */
KG_WARN_UNUSED enum kg_status kg_beside_write(const char *root, const char *folder, const char *id, const json_t *fact,
                                              struct kg_error *err);
/* The object, or NULL if there is none or it is no JSON object. */
json_t *kg_beside_read(const char *root, const char *folder, const char *id);

/* KG_ERR_FORMAT, naming it, if one of them is there and is no folder, or a link to one. */
KG_WARN_UNUSED enum kg_status kg_beside_check(const char *root, struct kg_error *err);

/* kg_bundle_read_json of a bundle's file, if the bundle is a folder of the root and no link to one. */
KG_WARN_UNUSED enum kg_status kg_root_read_json(const char *root, const char *id, const char *file, json_t **object,
                                                struct kg_error *err);
/* The names of a root's published bundles, sorted: whatever has such a name, a folder or not, so that what was put in a
 * bundle's place is not passed by. */
struct kg_dir_list;
KG_WARN_UNUSED enum kg_status kg_root_list(const char *root, struct kg_dir_list *ids, struct kg_error *err);

#endif
