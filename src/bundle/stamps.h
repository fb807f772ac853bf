/* Stamps of files: path, kind, size, inode, time of the last write and of the last change of anything (ctime).
 *
 * Equal stamps mean equal bytes as long as nobody sets the clock back: every write moves the ctime, and no call sets
 * it. A file system keeps times in steps of some milliseconds, so a file that was written a moment ago may be written
 * again without a trace: such stamps are not `settled`, and nothing may be kept for them. */
#ifndef KIGO_BUNDLE_STAMPS_H
#define KIGO_BUNDLE_STAMPS_H

#include "base/hash.h"
#include <stdbool.h>

struct kg_stamps {
    char sha256[KG_SHA256_HEX_SIZE]; /* of all of them */
    bool settled;
};

/* Of a folder and everything below it. */
KG_WARN_UNUSED enum kg_status kg_stamps_of_tree(const char *dir, struct kg_stamps *stamps, struct kg_error *err);
/* Of some files of a folder; one that is not there counts as such. names ends with NULL. */
void kg_stamps_of_files(const char *dir, const char *const *names, struct kg_stamps *stamps);

bool kg_stamps_equal(const struct kg_stamps *a, const struct kg_stamps *b);

#endif
