/* One call of kigo, made as often as wanted: the program is started once with suites/support/fault_injector.so, waits
 * before its main, and forks for each call. A call so finds what a new process finds, without the time that loading
 * takes. */
#ifndef KIGO_SUITES_FAULT_SERVER_H
#define KIGO_SUITES_FAULT_SERVER_H

#include "suites/harness/process.h"
#include <stdint.h>

struct kg_fault_server;

/* argv and env as in struct kg_process; env names the program and the report that the injector needs. Fails the case on
 * any error, as all functions here. */
struct kg_fault_server *kg_fault_server_start(const char *const *argv, const char *const *env);
/* at: the number of the call that fails, 0: none, places are noted, -1: none, nothing is counted. */
void kg_fault_server_call(struct kg_fault_server *server, int64_t at, struct kg_process_result *result);
void kg_fault_server_stop(struct kg_fault_server *server); /* NULL is allowed */

#endif
