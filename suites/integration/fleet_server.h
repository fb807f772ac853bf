/* A PostgreSQL server of the suite's: one a program, started when it is first asked for and ended with the program,
 * also where that is killed. It listens on a Unix socket in its folder alone, and runs as another user where this one
 * is root, which the server refuses to be. What it has written and not synced stays in the system's cache whatever
 * becomes of it: only a loss of power would ask for fsync, which is off. */
#ifndef KIGO_SUITES_FLEET_SERVER_H
#define KIGO_SUITES_FLEET_SERVER_H

/* The folder of its socket; it is up. NULL or anything if there is none: *why says so then, else it is NULL. */
const char *kg_fleet_server_dir(const char **why);

/* Ends it as `pg_ctl stop -m immediate` does: without a word to anybody, as if it had crashed. */
void kg_fleet_server_kill(void);
/* Starts it again with a file system of so many MB of memory in the folder's small/, which no other process sees and
 * which goes with the server. Why it cannot be had, or NULL. */
const char *kg_fleet_server_start_with_small(int megabytes);
/* Its user owns a file of the folder, which others may not read. */
void kg_fleet_server_own(const char *name);
/* Starts it again. settings: more arguments of postgres, ended by NULL, or NULL. */
void kg_fleet_server_start(const char *const *settings);
/* PostgreSQL's defaults, where this server has others to be light; but for 120 connections. */
extern const char *const KG_FLEET_SERVER_DEFAULTS[];

/* A streaming standby of the server, which answers commits once the standby has applied them (remote_apply). Sockets of
 * both lie in the folder: the server's has port 5432, the standby's 5433. */
void kg_fleet_server_add_standby(void);
/* The server being gone, the standby takes writes. */
void kg_fleet_server_promote(void);
/* Back to one server: the one that was promoted, as of now, or the one that was there before. */
void kg_fleet_server_drop_standby(void);

#endif
