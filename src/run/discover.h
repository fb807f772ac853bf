/* Suite programs by their place: executables test_* (or bench_*) in a folder or in the folders directly below it. */
#ifndef KIGO_RUN_DISCOVER_H
#define KIGO_RUN_DISCOVER_H

#include <kigo/status.h>
#include <stddef.h>

struct kg_suite_program {
    char *name; /* from the folder: "unit/test_gguf" */
    char *path;
};
struct kg_suite_programs {
    struct kg_suite_program *items; /* by name */
    size_t n_items;
};
/* prefix: what their names begin with, "test_" or "bench_". */
KG_WARN_UNUSED enum kg_status kg_suites_discover(const char *dir, const char *prefix,
                                                 struct kg_suite_programs *programs, struct kg_error *err);
void kg_suite_programs_free(struct kg_suite_programs *programs);

#endif
