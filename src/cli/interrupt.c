#include "cli/interrupt.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

static volatile sig_atomic_t interrupted;

static void note(int number) {
    (void)number;
    interrupted = 1;
}

void kg_cli_interrupt_catch(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = note;
    sigaction(SIGINT, &action, NULL);
}

bool kg_cli_interrupted(void) {
    return interrupted != 0;
}

bool kg_cli_interrupt_take(void) {
    const bool was = interrupted != 0;
    interrupted = 0;
    return was;
}

bool kg_cli_wait_for_input(int fd) {
    struct pollfd input = { .fd = fd, .events = POLLIN };
    sigset_t block, before;
    int n = -1;
    sigemptyset(&block);
    sigaddset(&block, SIGINT);
    /* The signal comes while ppoll waits or is seen before: never between a look at the flag and the wait. */
    sigprocmask(SIG_BLOCK, &block, &before);
    while (!interrupted && n < 0) {
        n = ppoll(&input, 1, NULL, &before);
        if (n < 0 && errno != EINTR) break;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return !interrupted;
}
