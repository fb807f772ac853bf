/* What a commit's sources hash to, so that a bundle's content_sha256 can be held against the commit it names. */
#ifndef KIGO_BUNDLE_SOURCE_COMMIT_H
#define KIGO_BUNDLE_SOURCE_COMMIT_H

#include "base/hash.h"
#include <kigo/status.h>

/* SHA-256 as source.json's content_sha256, over the files of the commit in a git repository. KG_ERR_NOT_FOUND if there
 * is no git, or the commit is not in the repository; KG_ERR_FORMAT if git answers what cannot be read. */
KG_WARN_UNUSED enum kg_status kg_source_of_commit(const char *repository, const char *commit,
                                                  char sha256[KG_SHA256_HEX_SIZE], struct kg_error *err);

#endif
