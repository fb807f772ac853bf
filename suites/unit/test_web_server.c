/* How long the server of `kigo web` waits for whom: limits of a second instead of those that it has. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/support/bundle_maker.h"
#include "web/server.h"
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static enum kg_status open_history(void *user, struct kg_history **history, struct kg_error *err) {
    return kg_history_open(user, history, NULL, err);
}

static void close_history(void *user, struct kg_history *history) {
    (void)user;
    kg_history_close(history);
}

/* In a child, which writes its port. */
static void serve(char *root, const struct kg_server_limits *limits, int out) {
    const struct kg_web_options options = { .root = root, .open = open_history, .close = close_history, .user = root };
    struct kg_web *web = NULL;
    struct kg_server *server = NULL;
    struct kg_error err;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (kg_web_open(&options, &web, &err) != KG_OK) _exit(1);
    if (kg_server_open(web, "127.0.0.1", 0, limits, &server, &err) != KG_OK) _exit(2);
    const uint16_t port = kg_server_port(server);
    if (write(out, &port, sizeof port) != sizeof port || kg_server_run(server, &err) != KG_OK) _exit(3);
    kg_server_close(server);
    kg_web_close(web);
    _exit(0);
}

static int connect_to(uint16_t port) {
    const struct sockaddr_in to = { .sin_family = AF_INET,
                                    .sin_port = htons(port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Sends a byte of an endless head line every pause, until the server has closed; pause 0: nothing is sent. */
static void wait_for_close(int fd, int pause_ms) {
    static const char HEAD[] = "GET / HTTP/1.1\r\nHost: localhost\r\nX: ";
    struct pollfd input = { .fd = fd, .events = POLLIN };
    char byte = 'x';
    if (pause_ms > 0) ck_assert_int_eq((int)send(fd, HEAD, sizeof HEAD - 1, MSG_NOSIGNAL), (int)sizeof HEAD - 1);
    while (poll(&input, 1, pause_ms > 0 ? pause_ms : -1) == 0)
        if (send(fd, &byte, 1, MSG_NOSIGNAL) < 0) break;
    ck_assert_int_le((int)recv(fd, &byte, 1, 0), 0);
    close(fd);
}

static const struct ending {
    struct kg_server_limits limits;
    int pause_ms;
} ENDINGS[] = { { { 1, 600 }, 0 }, { { 600, 1 }, 100 } };

/* The case's own time limit ends one that waits for ever. */
static void slow_clients_are_cut_off(struct kg_record *rec, const void *arg) {
    const struct ending *ending = arg;
    char *root = kg_xstrdup(kg_scratch_dir(rec));
    uint16_t port = 0;
    int out[2], state = 0;
    free(kg_maker_sealed(root, 1));
    ck_assert_int_eq(pipe(out), 0);
    const pid_t child = fork();
    if (child == 0) serve(root, &ending->limits, out[1]);
    close(out[1]);
    ck_assert_int_eq((int)read(out[0], &port, sizeof port), (int)sizeof port);
    close(out[0]);
    wait_for_close(connect_to(port), ending->pause_ms);
    kill(child, SIGTERM);
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {}
    ck_assert_msg(WIFEXITED(state) && WEXITSTATUS(state) == 0, "the server ended with %d", state);
    free(root);
}

#define CASE(i_, name_)                                                                                                \
    {                                                                                                                  \
        .layer = "unit", .op = "web_server", .name = name_, .timeout_s = 120, .run = slow_clients_are_cut_off,         \
        .arg = &ENDINGS[i_]                                                                                            \
    }

static const struct kg_case CASES[] = { CASE(0, "silence_ends"), CASE(1, "bytes_that_trickle_end") };

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
