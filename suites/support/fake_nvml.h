/* Where make puts the library of fake_nvml.c. */
#ifndef KIGO_SUITES_FAKE_NVML_H
#define KIGO_SUITES_FAKE_NVML_H

#include "suites/harness/case.h"
#include <stdio.h>
#include <string.h>

static inline const char *kg_fake_nvml_path(void) {
    static char path[4096];
    const char *program = kg_program_path(), *slash = strrchr(program, '/');
    snprintf(path, sizeof path, "%.*s/suites/support/fake_nvml.so", slash ? (int)(slash - program) : 1,
             slash ? program : ".");
    return path;
}

#endif
