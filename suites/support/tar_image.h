/* Tar archives as a stranger may make them: entry by entry, true or not. The format is ustar's (POSIX.1-1988): 512-byte
 * headers, data padded to 512 bytes, two empty blocks at the end. */
#ifndef KIGO_SUITES_TAR_IMAGE_H
#define KIGO_SUITES_TAR_IMAGE_H

#include "base/buffer.h"
#include <stdint.h>

struct kg_tar_entry {
    const char *name; /* at most 255 bytes in two parts; longer ones are the caller's mistake */
    char type;        /* '0' file, '1' hard link, '2' symbolic link, '3' '4' devices, '5' folder, '6' fifo; 0: '0' */
    const char *link; /* target of a link, or NULL */
    const void *data;
    size_t data_bytes;
    uint64_t claimed_bytes; /* what the header says; 0: data_bytes */
};

void kg_tar_add(struct kg_buffer *tar, const struct kg_tar_entry *entry);
/* Every file below dir, as <id>/<relative>. */
void kg_tar_add_dir(struct kg_buffer *tar, const char *dir, const char *id);
void kg_tar_end(struct kg_buffer *tar);

#endif
