/* The hash of a tree's sources, which holds without git: content_sha256 of source.json.
 *
 * SHA-256 over the lines "<sha256>  <path>\n" of the files in kernels, src and suites, sorted by path.
 * build-aux/built-from computes the same when it builds. */
#ifndef KIGO_BUNDLE_SOURCE_CONTENT_H
#define KIGO_BUNDLE_SOURCE_CONTENT_H

#include "base/hash.h"
#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>

struct kg_source_content {
    char sha256[KG_SHA256_HEX_SIZE]; /* "" if there is no source */
    size_t n_files;
};

/* A file or folder that cannot be read is an error that names it: a hash of the rest would be another source's. */
KG_WARN_UNUSED enum kg_status kg_source_content(const char *source_dir, struct kg_source_content *content,
                                                struct kg_error *err);

/* Whether a file below kernels, src or suites (its path inside that folder) is a source. Build products that an in-tree
 * build leaves beside the sources are none. */
bool kg_source_counts(const char *path);

#endif
