/* What commands that write large files share: progress, and ending on a signal without leaving a half-written file. */
#ifndef KIGO_CLI_LONG_WRITE_H
#define KIGO_CLI_LONG_WRITE_H

#include <stdbool.h>
#include <stdint.h>

/* From here on SIGINT, SIGTERM and SIGHUP make kg_cli_cancelled true, a second one ends the program; a file that grows
 * past a limit is an error of write. */
void kg_cli_end_on_signals(void);
bool kg_cli_cancelled(void *unused);

/* user: a struct kg_progress. */
void kg_cli_on_progress(void *user, uint64_t done_bytes, uint64_t total_bytes);

#endif
