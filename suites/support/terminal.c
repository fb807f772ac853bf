#include "suites/support/terminal.h"
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 120000 };

bool kg_terminal_open(struct kg_terminal *t, struct kg_record *rec, const char *const *argv) {
    *t = (struct kg_terminal){ .fd = -1 };
    t->child = forkpty(&t->fd, NULL, NULL, NULL);
    if (t->child < 0) {
        kg_record_skip(rec, "no terminal here: %s", strerror(errno));
        return false;
    }
    if (t->child > 0) return true;
    setenv("TERM", "dumb", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    signal(SIGINT, SIG_DFL);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

/* The end of the screen, as short as a message of Check must be. */
static const char *tail(const struct kg_terminal *t) {
    enum { MOST = 1500 };
    return kg_buffer_text(&t->screen) + (t->screen.len > MOST ? t->screen.len - MOST : 0);
}

/* More of what the program writes; false at its end. */
static bool read_more(struct kg_terminal *t) {
    char part[4096];
    struct pollfd ready = { .fd = t->fd, .events = POLLIN };
    const int n_ready = poll(&ready, 1, PATIENCE_MS);
    if (n_ready == 0) kill(t->child, SIGKILL);
    ck_assert_msg(n_ready > 0, "nothing for %d ms after: %s", PATIENCE_MS, tail(t));
    const ssize_t n = read(t->fd, part, sizeof part); /* EIO once nobody holds the terminal */
    if (n > 0) kg_buffer_append(&t->screen, part, (size_t)n);
    return n > 0;
}

void kg_terminal_expect(struct kg_terminal *t, const char *text) {
    const char *at = NULL;
    for (;;) {
        at = t->screen.len > t->seen ? memmem(t->screen.data + t->seen, t->screen.len - t->seen, text, strlen(text))
                                     : NULL;
        if (at) break;
        ck_assert_msg(read_more(t), "the program has ended without '%s':\n%s", text, tail(t));
    }
    t->seen = (size_t)(at - t->screen.data) + strlen(text);
}

void kg_terminal_type(struct kg_terminal *t, const char *keys) {
    ck_assert_int_eq(write(t->fd, keys, strlen(keys)), (ssize_t)strlen(keys));
}

int kg_terminal_close(struct kg_terminal *t) {
    int state = 0;
    while (read_more(t)) {}
    waitpid(t->child, &state, 0);
    close(t->fd);
    kg_buffer_free(&t->screen);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}
