/* A program on a terminal, as a person has it: what is typed reaches it line by line or key by key, signals by Ctrl-C.
 */
#ifndef KIGO_SUITES_TERMINAL_H
#define KIGO_SUITES_TERMINAL_H

#include "base/buffer.h"
#include "suites/harness/case.h"
#include <stdbool.h>
#include <sys/types.h>

struct kg_terminal {
    pid_t child;
    int fd;                  /* the terminal's other end */
    struct kg_buffer screen; /* all that the program has written, CR LF and all */
    size_t seen;             /* of it, by kg_terminal_expect */
};

/* Starts argv[0] with the terminal as its three standard streams; TERM is dumb, so that nothing but text is written.
 * False with the case skipped where the machine gives no terminal. */
bool kg_terminal_open(struct kg_terminal *terminal, struct kg_record *rec, const char *const *argv);

/* Waits until the text stands in what the program wrote since the last one expected, and moves behind it. The case
 * fails if the program ends before, or writes nothing for two minutes: longer than the slowest machine takes. */
void kg_terminal_expect(struct kg_terminal *terminal, const char *text);

/* Keys; "\r" is Enter, "\x03" Ctrl-C, "\x04" Ctrl-D, "\x1b[A" the arrow up. */
void kg_terminal_type(struct kg_terminal *terminal, const char *keys);

/* Reads to the end of the program; its exit code, -1 if a signal ended it. */
int kg_terminal_close(struct kg_terminal *terminal);

#endif
