#include "cli/libedit.h"
#include "base/late_library.h"
#include "base/size.h"

static const struct kg_late_function FUNCTIONS[] = {
#define KG_LIBEDIT_ROW(name) { #name, offsetof(struct kg_libedit, name) },
    KG_LIBEDIT_LIST(KG_LIBEDIT_ROW)
#undef KG_LIBEDIT_ROW
};

const struct kg_libedit *kg_libedit(void) {
    static struct kg_libedit table;
    static struct kg_late_library library = { { "libedit.so.2", "libedit.so.0" }, /* Debian's, and its publisher's */
                                              FUNCTIONS,
                                              KG_COUNT_OF(FUNCTIONS),
                                              &table,
                                              false,
                                              false };
    return kg_late_library(&library);
}
