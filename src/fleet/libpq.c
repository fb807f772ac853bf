#include "fleet/libpq.h"
#include "fleet/fleet.h"
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} FUNCTIONS[] = {
#define KG_LIBPQ_ROW(name) { "PQ" #name, offsetof(struct kg_libpq, name) },
    KG_LIBPQ_LIST(KG_LIBPQ_ROW)
#undef KG_LIBPQ_ROW
};

const struct kg_libpq *kg_libpq(void) {
    static struct kg_libpq loaded;
    static const struct kg_libpq *answer;
    void *library = answer ? NULL : dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (!library) return answer;
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
        void *const function = dlsym(library, FUNCTIONS[i].name);
        if (!function) return NULL;
        memcpy((char *)&loaded + FUNCTIONS[i].offset, &function, sizeof function);
    }
    return answer = &loaded;
}

const char *kg_fleet_missing(void) {
    return kg_libpq() ? NULL : "this machine has no libpq.so.5 (Debian: libpq5)";
}
