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

struct kg_late_library {
    const char *sonames[3]; /* the first that loads is taken; NULL ends them */
    const struct kg_late_function *functions;
    size_t n_functions;
    void *table;              /* the structure, filled once */
    bool was_asked, is_there; /* begin as false */
};

/* library->table; NULL if the machine has no such library, or one that lacks a function. What was missing once
 * stays so, or the reason for it would be none when asked for. It stays loaded. Where memory ran out,
 * kg_memory_exhausted; glibc's loader may end the process itself, with "out of memory" and exit code 127. */
const void *kg_late_library(struct kg_late_library *library);

#endif
