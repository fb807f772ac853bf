#include "base/late_library.h"
#include <dlfcn.h>
#include <string.h>

bool kg_late_library_load(const char *soname, const struct kg_late_function *functions, size_t n, void *table) {
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    for (size_t i = 0; i < n; i++) {
        void *const function = dlsym(library, functions[i].name);
        if (!function) return false;
        memcpy((char *)table + functions[i].offset, &function, sizeof function);
    }
    return true;
}
