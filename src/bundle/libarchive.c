#include "bundle/libarchive.h"
#include "base/late_library.h"
#include "base/size.h"
#include "bundle/archive.h"

static const struct kg_late_function FUNCTIONS[] = {
#define KG_LIBARCHIVE_ROW(name) { "archive_" #name, offsetof(struct kg_libarchive, name) },
    KG_LIBARCHIVE_LIST(KG_LIBARCHIVE_ROW)
#undef KG_LIBARCHIVE_ROW
        { "archive_errno", offsetof(struct kg_libarchive, error_number) },
};

const struct kg_libarchive *kg_libarchive(void) {
    static struct kg_libarchive table;
    static struct kg_late_library library = {
        { "libarchive.so.13" }, FUNCTIONS, KG_COUNT_OF(FUNCTIONS), &table, false, false
    };
    return kg_late_library(&library);
}

const char *kg_archive_missing(void) {
    return kg_libarchive() ? NULL : "this machine has no libarchive.so.13 (Debian: libarchive13)";
}
