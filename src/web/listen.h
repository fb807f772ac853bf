/* A socket that listens, and which names lead to it. */
#ifndef KIGO_WEB_LISTEN_H
#define KIGO_WEB_LISTEN_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stdint.h>

enum { KG_LISTEN_ADDRESS_SIZE = 64 };
struct kg_listen {
    int fd;
    char address[KG_LISTEN_ADDRESS_SIZE]; /* numeric */
    uint16_t port;
    bool loopback; /* reached from this machine alone */
};

/* As kg_server_open. */
KG_WARN_UNUSED enum kg_status kg_listen_open(const char *address, uint16_t port, struct kg_listen *to,
                                             struct kg_error *err);

/* Whether a request's Host (NULL: it has none) may be answered: on a loopback address localhost, 127.x.y.z or [::1],
 * with any port, as a forwarded one is another; elsewhere any. */
bool kg_listen_takes_host(const struct kg_listen *at, const char *host);

#endif
