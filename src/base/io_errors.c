#include "base/io_errors.h"
#include <stdatomic.h>
#include <stdio.h>

static char noted[sizeof((struct kg_error *)0)->message];
static atomic_int state; /* 0: nothing, 1: being written, 2: written */
static atomic_uint n_noted, n_of_memory;
static __thread int harmless;

const char *kg_io_error_noted(void) {
    return atomic_load(&state) == 2 ? noted : NULL;
}

unsigned kg_io_errors_count(void) {
    return atomic_load(&n_noted);
}

unsigned kg_io_errors_of_memory(void) {
    return atomic_load(&n_of_memory);
}

void kg_io_error_note(enum kg_status status, const char *message) {
    int nothing = 0;
    if (harmless > 0) return;
    atomic_fetch_add(&n_noted, 1);
    if (status == KG_ERR_NO_MEMORY) atomic_fetch_add(&n_of_memory, 1);
    if (!atomic_compare_exchange_strong(&state, &nothing, 1)) return;
    snprintf(noted, sizeof noted, "%s", message);
    atomic_store(&state, 2);
}

void kg_io_errors_harmless_begin(void) {
    harmless++;
}

void kg_io_errors_harmless_end(void) {
    harmless--;
}
