/* Bundles on their way between roots: out as one file, and in again through every check there is. */
#ifndef KIGO_BUNDLE_TRANSFER_H
#define KIGO_BUNDLE_TRANSFER_H

#include "base/hash.h"
#include "bundle/archive.h"
#include "bundle/limits.h"
#include "bundle/sign.h"

#define KG_IMPORT_LIMITS                                                                                               \
    { .max_bytes = KG_MAX_IMPORT_BYTES, .max_files = KG_MAX_ENTRIES }

/* Writes a bundle that verifies to an archive (kg_archive_write); KG_ERR_INTEGRITY if it does not verify. */
KG_WARN_UNUSED enum kg_status kg_bundle_export(const char *dir, const char *path, struct kg_error *err);
/* The same archive, where it is the caller who sees to it that the bundle verifies. */
KG_WARN_UNUSED enum kg_status kg_bundle_pack(const char *dir, const char *path, struct kg_error *err);

struct kg_import {
    const char *root; /* made if missing */
    const char *path; /* of the archive */
    struct kg_archive_limits limits;
    const struct kg_trust *trust; /* NULL: no files are named */
    bool require_signature;       /* of an allowed signer */
};
struct kg_imported {
    char id[KG_ARCHIVE_ID_SIZE];
    char tagmanifest_sha256[KG_SHA256_HEX_SIZE];
    struct kg_signature signature; /* of the bundle in the root */
    bool was_here;                 /* the same bundle, sound: nothing was written */
    char note[512];                /* "", or what did not come with it: the archive's signature */
};

/* Unpacks into a hidden folder of the root, verifies the bundle and its signature there, and publishes it by a rename
 * that replaces nothing; the root's imports/<id>.json says where it came from. Whatever is wrong, the root is as it
 * was. A bundle that exists already, with the same tag manifest, is a success if it stands up to the same checks.
 * KG_ERR_FORMAT (the archive), KG_ERR_INTEGRITY (the bundle, the signature; the bundle with that id is another
 * bundle, or not sound). */
KG_WARN_UNUSED enum kg_status kg_bundle_import(const struct kg_import *import, struct kg_imported *imported,
                                               struct kg_error *err);

/* Whether the root holds a bundle of this id and tag manifest already, which stands up to an import's checks; one that
 * this user's kigo has verified before is not verified again (bundle/verified.h). import->path is not read. is_signed:
 * the other copy. KG_ERR_NOT_FOUND if nothing is there under the id, KG_ERR_INTEGRITY as kg_bundle_import. */
KG_WARN_UNUSED enum kg_status kg_bundle_find_here(const struct kg_import *import, const char *id,
                                                  const char *tagmanifest_sha256, bool is_signed,
                                                  struct kg_imported *found, struct kg_error *err);

#endif
