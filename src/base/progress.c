#include "base/progress.h"
#include "base/clock.h"
#include "base/say.h"
#include <stdio.h>
#include <unistd.h>

enum { BAR_CELLS = 30, REDRAW_NS = 50 * 1000 * 1000 };

void kg_progress_start(struct kg_progress *p, const char *label) {
    *p = (struct kg_progress){ .label = label, .on = isatty(STDERR_FILENO) };
}

void kg_progress_update(struct kg_progress *p, uint64_t done, uint64_t total) {
    if (!p->on || total == 0) return;
    const uint64_t now = kg_clock_monotonic_ns();
    if (done < total && now - p->last_drawn_ns < REDRAW_NS) return;
    p->last_drawn_ns = now;
    const double share = (double)done / (double)total;
    const int filled = (int)(share * BAR_CELLS);
    kg_say(stderr, "\r%s [%.*s%.*s] %3.0f%%", p->label, filled, "##############################", BAR_CELLS - filled,
           "..............................", share * 100);
    fflush(stderr);
}

void kg_progress_finish(struct kg_progress *p) {
    if (p->on) kg_say(stderr, "\r\033[K");
}
