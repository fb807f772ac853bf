/* HTTP for the pages of a history (libmicrohttpd), in the calling thread alone.
 *
 * GET and HEAD, nothing else, and no body; addresses of KG_SERVER_URL_BYTES at most, head lines of
 * KG_SERVER_HEAD_BYTES; KG_SERVER_CONNECTIONS at a time, each closed after KG_SERVER_IDLE_S without a byte and
 * KG_SERVER_REQUEST_S after its last answer was whole. A server on a loopback address answers only who asks for it by a
 * loopback name: so no other site's name that leads here (DNS rebinding) reads it. */
#ifndef KIGO_WEB_SERVER_H
#define KIGO_WEB_SERVER_H

#include "web/web.h"

enum {
    KG_SERVER_PORT = 8317,
    KG_SERVER_URL_BYTES = 2048,
    KG_SERVER_HEAD_BYTES = 16 << 10,
    KG_SERVER_CONNECTIONS = 64,
    KG_SERVER_IDLE_S = 15,
    KG_SERVER_REQUEST_S = 60,
};

struct kg_server;
struct kg_server_limits {
    unsigned idle_s, request_s; /* KG_SERVER_IDLE_S, KG_SERVER_REQUEST_S */
};

/* Listens on a numeric address (127.0.0.1, ::1, 0.0.0.0) or "localhost"; port 0: any that is free. KG_ERR_USAGE for an
 * address that is none, KG_ERR_BUSY where another program has the port, KG_ERR_UNSUPPORTED in a build without
 * libmicrohttpd. */
KG_WARN_UNUSED enum kg_status kg_server_open(struct kg_web *web, const char *listen, uint16_t port,
                                             const struct kg_server_limits *limits, struct kg_server **server,
                                             struct kg_error *err);
const char *kg_server_address(const struct kg_server *server); /* numeric */
uint16_t kg_server_port(const struct kg_server *server);

/* Answers until SIGINT, SIGTERM or SIGHUP comes, whichever this process does not ignore. */
KG_WARN_UNUSED enum kg_status kg_server_run(struct kg_server *server, struct kg_error *err);
void kg_server_close(struct kg_server *server);

/* Why this build has no server; NULL: it has one. */
const char *kg_server_missing(void);

#endif
