#include "run/signals.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const int NUMBERS[KG_N_SIGNALS] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD };
static int write_end = -1; /* what the handler writes to: a handler has no argument */

/* A full pipe has news enough. */
static void note(int number) {
    const int kept_errno = errno;
    const unsigned char byte = (unsigned char)number;
    const ssize_t written = write(write_end, &byte, 1);
    (void)written;
    errno = kept_errno;
}

enum kg_status kg_signals_open(struct kg_signals *signals, struct kg_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return kg_fail(err, KG_ERR_IO, "no pipe for signals: %s", strerror(errno));
    signals->fd = ends[0];
    write_end = ends[1];
    struct sigaction action = { .sa_handler = note, .sa_flags = SA_RESTART };
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < KG_N_SIGNALS; i++) sigaction(NUMBERS[i], &action, &signals->before[i]);
    return KG_OK;
}

int kg_signals_take(const struct kg_signals *signals) {
    unsigned char byte;
    int asked = 0;
    while (read(signals->fd, &byte, 1) == 1)
        if (byte != SIGCHLD) asked = byte;
    return asked;
}

void kg_signals_close(struct kg_signals *signals) {
    if (signals->fd < 0) return;
    for (size_t i = 0; i < KG_N_SIGNALS; i++) sigaction(NUMBERS[i], &signals->before[i], NULL);
    close(signals->fd);
    close(write_end);
    signals->fd = write_end = -1;
}
