#include "base/late_library.h"
#include "base/buffer.h"
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* In one of glibc's ways to say so: not each names the error. */
static bool lacked_memory(const char *why) {
    return strstr(why, "out of memory") || strstr(why, strerror(ENOMEM)) ||
           strstr(why, "cannot create shared object descriptor");
}

static bool load(const struct kg_late_library *l) {
    void *library = NULL;
    for (const char *const *soname = l->sonames; *soname && !library; soname++) {
        library = dlopen(*soname, RTLD_NOW | RTLD_LOCAL);
        const char *why = library ? NULL : dlerror();
        if (why && lacked_memory(why)) kg_memory_exhausted(0);
    }
    if (!library) return false;
    for (size_t i = 0; i < l->n_functions; i++) {
        void *const function = dlsym(library, l->functions[i].name);
        if (!function) return false;
        memcpy((char *)l->table + l->functions[i].offset, &function, sizeof function);
    }
    return true;
}

const void *kg_late_library(struct kg_late_library *library) {
    if (!library->was_asked) library->is_there = load(library);
    library->was_asked = true;
    return library->is_there ? library->table : NULL;
}
