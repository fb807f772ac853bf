/* Where make puts the library of fake_nvml.c. */
#ifndef KIGO_SUITES_FAKE_NVML_H
#define KIGO_SUITES_FAKE_NVML_H

#include "suites/harness/case.h"

static inline const char *kg_fake_nvml_path(void) {
    return kg_suites_path("support/fake_nvml.so");
}

#endif
