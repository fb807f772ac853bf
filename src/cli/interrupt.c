#include "cli/interrupt.h"
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
