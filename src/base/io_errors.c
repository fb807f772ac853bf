#include "base/io_errors.h"
#include <kigo/status.h>
#include <stdatomic.h>
#include <stdio.h>

static char noted[sizeof((struct kg_error *)0)->message];
static atomic_int state; /* 0: nothing, 1: being written, 2: written */
static __thread int harmless;

const char *kg_io_error_noted(void) {
    return atomic_load(&state) == 2 ? noted : NULL;
}

void kg_io_error_note(const char *message) {
    int nothing = 0;
    if (harmless > 0 || !atomic_compare_exchange_strong(&state, &nothing, 1)) return;
    snprintf(noted, sizeof noted, "%s", message);
    atomic_store(&state, 2);
}

void kg_io_errors_harmless_begin(void) {
    harmless++;
}

void kg_io_errors_harmless_end(void) {
    harmless--;
}
