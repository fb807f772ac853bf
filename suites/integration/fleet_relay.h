/* A link between kigo and the suite's server that can be cut at a chosen byte: a socket beside the server's
 * (fleet_server.h), one connection at a time. */
#ifndef KIGO_SUITES_FLEET_RELAY_H
#define KIGO_SUITES_FLEET_RELAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define KG_FLEET_RELAY_PORT "5434" /* what a URL names instead of the server's */

struct kg_fleet_relay {
    size_t cut_at;      /* the link is cut when kigo has sent so many bytes; 0: never */
    bool cut_at_commit; /* or when the server has been sent a COMMIT, so that its answer is lost */
    bool comes_back;    /* who connects after the cut is let through; else nobody is */
    size_t n_sent;      /* bytes that kigo has sent, over all connections */
    bool was_cut;
    char *server, *path;
    int listener;
    pthread_t thread;
};

/* dir: of the sockets. With the first three members set. */
void kg_fleet_relay_start(struct kg_fleet_relay *relay, const char *dir);
/* kigo having ended. */
void kg_fleet_relay_end(struct kg_fleet_relay *relay);

#endif
