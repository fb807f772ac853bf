/* A progress bar on standard error. It is drawn only on a terminal, and erased at the end. */
#ifndef KIGO_BASE_PROGRESS_H
#define KIGO_BASE_PROGRESS_H

#include <stdint.h>

struct kg_progress {
    const char *label;
    uint64_t last_drawn_ns;
    int on; /* standard error is a terminal */
};

void kg_progress_start(struct kg_progress *p, const char *label);
void kg_progress_update(struct kg_progress *p, uint64_t done, uint64_t total);
void kg_progress_finish(struct kg_progress *p);

#endif
