/* The folder of a log as a disk may have it whose machine lost power after some of the log: what fsync was asked for
 * is there; of the rest any part may be (Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014). Names
 * are kept or lost one by one, a rename as a whole, by the folder that it leads to; bytes are kept, lost, cut at a
 * page, or there as zeros. */
#ifndef KIGO_SUITES_CRASH_DISK_H
#define KIGO_SUITES_CRASH_DISK_H

#include "base/hash.h"
#include "suites/integration/crash_log.h"

enum kg_disk_part { KG_DISK_ALL, KG_DISK_NONE, KG_DISK_ZEROS, KG_DISK_PAGES, KG_DISK_RANDOM };

/* What of the unsynced is there. */
struct kg_disk_choice {
    enum kg_disk_part names; /* ALL, NONE or RANDOM */
    enum kg_disk_part bytes;
    size_t other;  /* this op the other way round (a name: kept or not; bytes: of its file all up to it, or none from it
                      on); KG_NO_NODE: no op */
    uint64_t seed; /* of RANDOM */
};

/* The folder in memory. */
struct kg_disk_image;
/* After the first n ops of the log. */
struct kg_disk_image *kg_disk_image_make(const struct kg_disk_log *log, size_t n, const struct kg_disk_choice *choice);
void kg_disk_image_free(struct kg_disk_image *image);
/* The same for images of the same names and bytes. */
void kg_disk_image_hash(const struct kg_disk_image *image, char hex[KG_SHA256_HEX_SIZE]);
/* Writes it to a folder, which must not exist. Fails the running case if it cannot. */
void kg_disk_image_write(const struct kg_disk_image *image, const char *dir);
/* The bytes of each file whose path fnmatch finds, one after another. malloc'ed text. */
char *kg_disk_image_text(const struct kg_disk_image *image, const char *pattern);

/* Whether an op of the first n could be lost: nothing synced it since. Of SYNC and SAY never. */
bool kg_disk_op_is_open(const struct kg_disk_log *log, size_t n, size_t op);

#endif
