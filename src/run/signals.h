/* Signals as events of a descriptor, so that nothing is interrupted half way.
 *
 * By handlers and not by signalfd: that wants the signals blocked in every thread, and threads that libraries made
 * before (CUDA's are) would take them with their default action. One set at a time in a process. */
#ifndef KIGO_RUN_SIGNALS_H
#define KIGO_RUN_SIGNALS_H

#include <kigo/status.h>
#include <signal.h>

enum { KG_N_SIGNALS = 4 };

struct kg_signals {
    struct sigaction before[KG_N_SIGNALS];
    int fd; /* readable when a signal has come; -1 while closed */
};

#define KG_SIGNALS_CLOSED                                                                                              \
    { .fd = -1 }

/* From here on SIGINT, SIGTERM, SIGHUP and SIGCHLD are events. */
KG_WARN_UNUSED enum kg_status kg_signals_open(struct kg_signals *signals, struct kg_error *err);
/* Takes what has come: a signal that asks to end, 0 if there was none. */
int kg_signals_take(const struct kg_signals *signals);
/* Puts back what was; good while closed. */
void kg_signals_close(struct kg_signals *signals);

#endif
