#include "suites/integration/fleet_relay.h"
#include "base/buffer.h"
#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un address_of(const char *path) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    ck_assert_uint_lt(strlen(path), sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    return address;
}

static bool send_all(int to, const char *bytes, size_t len) {
    while (len > 0) {
        const ssize_t n = send(to, bytes, len, MSG_NOSIGNAL);
        if (n <= 0) return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

/* Some bytes of kigo's to the server, up to the cut. False: the link is cut, or kigo has gone. */
static bool pass_on(struct kg_fleet_relay *relay, int client, int server) {
    static const char COMMIT[] = "Q\0\0\0\013COMMIT"; /* a message of 11 bytes, and its NUL */
    char bytes[1 << 14];
    ssize_t n = recv(client, bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    const bool may_cut = !relay->was_cut;
    if (may_cut && relay->cut_at > 0 && relay->n_sent + (size_t)n >= relay->cut_at) {
        n = (ssize_t)(relay->cut_at - relay->n_sent);
        relay->was_cut = true;
    }
    if (may_cut && relay->cut_at_commit && (size_t)n == sizeof COMMIT && memcmp(bytes, COMMIT, sizeof COMMIT) == 0)
        relay->was_cut = true;
    relay->n_sent += (size_t)n;
    return send_all(server, bytes, (size_t)n) && !(may_cut && relay->was_cut);
}

static void serve(struct kg_fleet_relay *relay, int client) {
    const struct sockaddr_un address = address_of(relay->server);
    const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_open = connect(server, (const struct sockaddr *)&address, sizeof address) == 0;
    while (is_open) {
        struct pollfd ends[] = { { .fd = client, .events = POLLIN }, { .fd = server, .events = POLLIN } };
        char bytes[1 << 14];
        if (poll(ends, 2, -1) < 0) break;
        if (ends[0].revents) is_open = pass_on(relay, client, server);
        else {
            const ssize_t n = recv(server, bytes, sizeof bytes, 0);
            is_open = n > 0 && send_all(client, bytes, (size_t)n);
        }
    }
    close(server);
}

static void *run(void *arg) {
    struct kg_fleet_relay *relay = arg;
    for (int client; (client = accept(relay->listener, NULL, NULL)) >= 0; close(client))
        if (!relay->was_cut || relay->comes_back) serve(relay, client);
    return NULL;
}

void kg_fleet_relay_start(struct kg_fleet_relay *relay, const char *dir) {
    relay->server = kg_xasprintf("%s/.s.PGSQL.5432", dir);
    relay->path = kg_xasprintf("%s/.s.PGSQL." KG_FLEET_RELAY_PORT, dir);
    const struct sockaddr_un address = address_of(relay->path);
    relay->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(relay->listener, (const struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(relay->listener, 8), 0);
    ck_assert_int_eq(pthread_create(&relay->thread, NULL, run, relay), 0);
}

void kg_fleet_relay_end(struct kg_fleet_relay *relay) {
    shutdown(relay->listener, SHUT_RDWR);
    ck_assert_int_eq(pthread_join(relay->thread, NULL), 0);
    close(relay->listener);
    unlink(relay->path);
    free(relay->path);
    free(relay->server);
}
