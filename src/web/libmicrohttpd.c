#include "web/libmicrohttpd.h"
#include "base/late_library.h"
#include "base/size.h"

static const struct kg_late_function FUNCTIONS[] = {
#define KG_LIBMICROHTTPD_ROW(name) { "MHD_" #name, offsetof(struct kg_libmicrohttpd, name) },
    KG_LIBMICROHTTPD_LIST(KG_LIBMICROHTTPD_ROW)
#undef KG_LIBMICROHTTPD_ROW
};

const struct kg_libmicrohttpd *kg_libmicrohttpd(void) {
    static struct kg_libmicrohttpd loaded;
    static const struct kg_libmicrohttpd *answer;
    static bool asked; /* what was missing once stays so: whoever asked again would say that nothing is */
    if (!asked && kg_late_library_load("libmicrohttpd.so.12", FUNCTIONS, KG_COUNT_OF(FUNCTIONS), &loaded))
        answer = &loaded;
    asked = true;
    return answer;
}
