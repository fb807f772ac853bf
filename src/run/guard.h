/* The guard of a suite program: a process between it and the runner, to which all that the program starts belongs,
 * whatever sessions and process groups are made and whichever parents end. Nothing of it outlives the guard. */
#ifndef KIGO_RUN_GUARD_H
#define KIGO_RUN_GUARD_H

#include <sys/types.h>

/* To be called once in the guard, before it starts the program. Blocks all signals. */
void kg_guard_begin(void);

/* Waits for the program's end, or for the end of file of alive_fd (the runner is gone, or wants it to end); then kills
 * all that is left and ends as the program did: with its exit code, or by its signal. Closes all other descriptors.
 * Where it cannot watch, it writes why to trouble_fd and ends the program. */
_Noreturn void kg_guard_watch(pid_t program, int alive_fd, int trouble_fd);

/* Kills and reaps all that descends from this process, which must be a subreaper (prctl(2)); *wait_status gets the
 * program's, if it is among them. A process that cannot be killed is waited for 2 s. */
void kg_guard_end_all(pid_t program, int *wait_status);

#endif
