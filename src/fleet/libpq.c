#include "fleet/libpq.h"
#include "base/late_library.h"
#include "base/size.h"
#include "fleet/fleet.h"

static const struct kg_late_function FUNCTIONS[] = {
#define KG_LIBPQ_ROW(name) { "PQ" #name, offsetof(struct kg_libpq, name) },
    KG_LIBPQ_LIST(KG_LIBPQ_ROW)
#undef KG_LIBPQ_ROW
};

const struct kg_libpq *kg_libpq(void) {
    static struct kg_libpq table;
    static struct kg_late_library library = {
        { "libpq.so.5" }, FUNCTIONS, KG_COUNT_OF(FUNCTIONS), &table, false, false
    };
    return kg_late_library(&library);
}

const char *kg_fleet_missing(void) {
    return kg_libpq() ? NULL : "this machine has no libpq.so.5 (Debian: libpq5)";
}
