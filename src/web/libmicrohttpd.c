#include "web/libmicrohttpd.h"
#include "base/late_library.h"
#include "base/size.h"

static const struct kg_late_function FUNCTIONS[] = {
#define KG_LIBMICROHTTPD_ROW(name) { "MHD_" #name, offsetof(struct kg_libmicrohttpd, name) },
    KG_LIBMICROHTTPD_LIST(KG_LIBMICROHTTPD_ROW)
#undef KG_LIBMICROHTTPD_ROW
};

const struct kg_libmicrohttpd *kg_libmicrohttpd(void) {
    static struct kg_libmicrohttpd table;
    static struct kg_late_library library = {
        { "libmicrohttpd.so.12" }, FUNCTIONS, KG_COUNT_OF(FUNCTIONS), &table, false, false
    };
    return kg_late_library(&library);
}
