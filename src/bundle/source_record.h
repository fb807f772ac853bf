/* What an installed kigo was built from: source.json and dirty.diff (docs/bundle-format.md) as they were when it was
 * installed, in one folder. The record counts for programs that carry the same content_sha256 only. */
#ifndef KIGO_BUNDLE_SOURCE_RECORD_H
#define KIGO_BUNDLE_SOURCE_RECORD_H

#include <kigo/status.h>
#include <stdbool.h>

/* Writes the tree's record into a folder that exists. A tree that is no git work tree hands on the record that its
 * build-aux holds (make dist puts it there), if that is of the same sources. KG_ERR_INCOMPLETE if the tree does not
 * hold the sources that this program was built from. */
KG_WARN_UNUSED enum kg_status kg_source_record_write(const char *tree, const char *folder, struct kg_error *err);

struct kg_bundle_source;

/* Whether the status is that there is no record of use; any other error is that nobody knows. */
bool kg_source_record_is_none(enum kg_status status);

/* Fills *source from the folder's record. KG_ERR_NOT_FOUND if there is none; KG_ERR_FORMAT if it is malformed or of
 * other sources than built_from. *source is unchanged then. */
KG_WARN_UNUSED enum kg_status kg_source_record_read(const char *folder, const char *built_from,
                                                    struct kg_bundle_source *source, struct kg_error *err);

#endif
