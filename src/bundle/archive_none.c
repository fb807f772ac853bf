/* In the place of archives in a build without libarchive. */
#include "bundle/archive.h"

const char *kg_archive_missing(void) {
    return "this kigo was built without libarchive: install it (Debian: libarchive-dev), configure and build again";
}

enum kg_status kg_archive_write(const char *dir, const char *id, int64_t utc_s, const char *path,
                                struct kg_error *err) {
    (void)dir;
    (void)id;
    (void)utc_s;
    return kg_fail(err, KG_ERR_UNSUPPORTED, "%s: %s", path, kg_archive_missing());
}

enum kg_status kg_archive_unpack(const char *path, const char *to, const struct kg_archive_limits *limits,
                                 char id[KG_ARCHIVE_ID_SIZE], struct kg_error *err) {
    (void)to;
    (void)limits;
    (void)id;
    return kg_fail(err, KG_ERR_UNSUPPORTED, "%s: %s", path, kg_archive_missing());
}
