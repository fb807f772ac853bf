#include "cli/long_write.h"
#include "base/progress.h"
#include "base/size.h"
#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t asked_to_end;

static void on_signal(int number) {
    asked_to_end = number;
}

bool kg_cli_cancelled(void *unused) {
    (void)unused;
    return asked_to_end != 0;
}

void kg_cli_end_on_signals(void) {
    static const int NUMBERS[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    for (size_t i = 0; i < KG_COUNT_OF(NUMBERS); i++) sigaction(NUMBERS[i], &action, NULL);
    signal(SIGXFSZ, SIG_IGN);
}

void kg_cli_on_progress(void *user, uint64_t done_bytes, uint64_t total_bytes) {
    kg_progress_update(user, done_bytes, total_bytes);
}
