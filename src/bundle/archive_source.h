/* The bytes of an archive for libarchive: as they are, or expanded if they are frames of Zstandard. libarchive's own
 * filter would take as much memory as a frame asks for, up to 128 MiB for an archive of a few bytes. */
#ifndef KIGO_BUNDLE_ARCHIVE_SOURCE_H
#define KIGO_BUNDLE_ARCHIVE_SOURCE_H

#include "bundle/libarchive.h"
#include <kigo/status.h>

struct kg_archive_source;

/* KG_ERR_NOT_FOUND if the file cannot be opened. */
KG_WARN_UNUSED enum kg_status kg_archive_source_open(const char *path, struct kg_archive_source **source,
                                                     struct kg_error *err);
void kg_archive_source_close(struct kg_archive_source *source);

/* archive_read_open's callback. A frame that is damaged, cut, or asks for a window above 32 MiB is the archive's error.
 */
la_ssize_t kg_archive_source_read(struct archive *archive, void *source, const void **block);

#endif
