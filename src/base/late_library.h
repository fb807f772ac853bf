/* A shared library that is loaded when it is first needed. Linked, it and the libraries that it brings are loaded and
 * bound at every start of kigo, whatever the verb. Its functions are called through a structure of pointers. */
#ifndef KIGO_BASE_LATE_LIBRARY_H
#define KIGO_BASE_LATE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct kg_late_function {
    const char *name;
    size_t offset; /* of its pointer in the structure */
};

/* Fills *table. False if the machine has no such library, or one that lacks a function. It stays loaded. */
bool kg_late_library_load(const char *soname, const struct kg_late_function *functions, size_t n, void *table);

#endif
