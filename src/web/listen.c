#include "web/listen.h"
#include "base/buffer.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_loopback(const struct sockaddr_storage *address) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    if (address->ss_family == AF_INET) return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return address->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static enum kg_status describe(struct kg_listen *to, struct kg_error *err) {
    struct sockaddr_storage address = { 0 };
    socklen_t size = sizeof address;
    char port[8];
    if (getsockname(to->fd, (struct sockaddr *)&address, &size) != 0 ||
        getnameinfo((const struct sockaddr *)&address, size, to->address, sizeof to->address, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return kg_fail(err, KG_ERR_IO, "what the socket listens on is unknown: %s", strerror(errno));
    to->port = (uint16_t)strtoul(port, NULL, 10);
    to->loopback = is_loopback(&address);
    return KG_OK;
}

static enum kg_status bind_to(const struct addrinfo *info, const char *name, uint16_t port, struct kg_listen *to,
                              struct kg_error *err) {
    enum { WAITING = 64 };
    const int yes = 1;
    to->fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (to->fd < 0) return kg_fail(err, KG_ERR_IO, "no socket: %s", strerror(errno));
    setsockopt(to->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (info->ai_family == AF_INET6) setsockopt(to->fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    enum kg_status status = KG_OK;
    if (bind(to->fd, info->ai_addr, info->ai_addrlen) != 0 || listen(to->fd, WAITING) != 0)
        status = errno == EADDRINUSE
                     ? kg_fail(err, KG_ERR_BUSY, "another program listens on %s, port %u: --port names another, 0 any",
                               name, port)
                     : kg_fail(err, KG_ERR_USAGE, "cannot listen on %s, port %u: %s", name, port, strerror(errno));
    if (status == KG_OK) status = describe(to, err);
    if (status != KG_OK) close(to->fd);
    return status;
}

enum kg_status kg_listen_open(const char *address, uint16_t port, struct kg_listen *to, struct kg_error *err) {
    const struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
                                    .ai_socktype = SOCK_STREAM };
    const char *numeric = strcasecmp(address, "localhost") == 0 ? "127.0.0.1" : address;
    struct addrinfo *found = NULL;
    char digits[8];
    snprintf(digits, sizeof digits, "%u", port);
    if (!*address || getaddrinfo(numeric, digits, &hints, &found) != 0)
        return kg_fail(err, KG_ERR_USAGE, "--listen '%.80s' is no address of digits, such as 127.0.0.1, ::1 or 0.0.0.0",
                       address);
    const enum kg_status status = bind_to(found, address, port, to, err);
    freeaddrinfo(found);
    return status;
}

static bool is_port(const char *text) {
    return *text == '\0' || (*text == ':' && text[1 + strspn(text + 1, "0123456789")] == '\0');
}

bool kg_listen_takes_host(const struct kg_listen *at, const char *host) {
    static const char *const NAMES[] = { "localhost", "[::1]" };
    if (!host) return false;
    if (!at->loopback) return true;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strncasecmp(host, NAMES[i], strlen(NAMES[i])) == 0 && is_port(host + strlen(NAMES[i]))) return true;
    char digits[INET_ADDRSTRLEN];
    struct in_addr v4;
    const size_t n = strspn(host, "0123456789.");
    if (n == 0 || n >= sizeof digits || !is_port(host + n)) return false;
    memcpy(digits, host, n);
    digits[n] = '\0';
    return inet_pton(AF_INET, digits, &v4) == 1 && ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
}
