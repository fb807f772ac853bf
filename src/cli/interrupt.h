/* Ctrl-C as a flag, for verbs that talk with a person: it stops what is under way, not the program. */
#ifndef KIGO_CLI_INTERRUPT_H
#define KIGO_CLI_INTERRUPT_H

#include <stdbool.h>

/* From here on SIGINT sets the flag; reads that wait end with EINTR. */
void kg_cli_interrupt_catch(void);
bool kg_cli_interrupted(void);
/* The flag, which is cleared. */
bool kg_cli_interrupt_take(void);

/* Waits until fd can be read, or has ended; false if Ctrl-C comes first, or came before it was taken. */
bool kg_cli_wait_for_input(int fd);

#endif
