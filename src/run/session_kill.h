/* Killing a session: its processes, in whatever process groups they are. One that began another session is out of
 * reach.
 */
#ifndef KIGO_RUN_SESSION_KILL_H
#define KIGO_RUN_SESSION_KILL_H

#include <sys/types.h>

/* Kills all processes of the session but the caller, again until no living one is left: they may fork meanwhile. */
void kg_session_kill(pid_t session);

#endif
