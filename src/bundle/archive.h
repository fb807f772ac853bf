/* A bundle as one file: a tar archive of <id>/..., plain or compressed by Zstandard, by libarchive, which is loaded
 * at the first call. A build or a machine without it has the same functions, which say so (KG_ERR_UNSUPPORTED). */
#ifndef KIGO_BUNDLE_ARCHIVE_H
#define KIGO_BUNDLE_ARCHIVE_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL, or why this build, or this machine, can neither write nor read archives. */
const char *kg_archive_missing(void);

/* Writes <dir> as folder `id` of the archive `path` (its name ends in .tar or .tar.zst), replacing a file that is
 * there. The same bundle gives the same tar, byte for byte, wherever and whenever: files by name, owned by nobody, of
 * mode 0644 and the time `utc_s`; compressed bytes are the same where libzstd is. */
KG_WARN_UNUSED enum kg_status kg_archive_write(const char *dir, const char *id, int64_t utc_s, const char *path,
                                               struct kg_error *err);

enum { KG_ARCHIVE_ID_SIZE = 256 };

/* What an archive may not exceed. */
struct kg_archive_limits {
    uint64_t max_bytes; /* of all files together, as they are on disk */
    size_t max_files;
};

/* Unpacks the only bundle of an archive as <to>/<id>; `to` is an empty folder that nobody else writes to. Anything but
 * regular files and folders below one folder named like a bundle is KG_ERR_FORMAT, naming the entry: links of both
 * kinds, devices, sparse files, absolute paths, "..", names a manifest cannot hold, a name twice, sizes past the limits
 * (before a byte is written), cut archives. What was unpacked before stays in `to`, for the caller to remove. */
KG_WARN_UNUSED enum kg_status kg_archive_unpack(const char *path, const char *to,
                                                const struct kg_archive_limits *limits, char id[KG_ARCHIVE_ID_SIZE],
                                                struct kg_error *err);

#endif
