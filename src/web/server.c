#include "web/server.h"
#include "base/clock.h"
#include "base/size.h"
#include "web/libmicrohttpd.h"
#include "web/listen.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

const char *kg_server_missing(void) {
    return kg_libmicrohttpd() ? NULL : "this machine has no libmicrohttpd.so.12 (Debian: libmicrohttpd12)";
}

/* A connection, and since when its request is awaited or under way. */
struct slot {
    struct MHD_Connection *connection; /* NULL: free */
    uint64_t since_ns;
};

struct kg_server {
    struct kg_web *web;
    struct kg_server_limits limits;
    struct kg_listen at;
    struct MHD_Daemon *daemon;
    int signals;
    struct slot slots[KG_SERVER_CONNECTIONS];
};

const char *kg_server_address(const struct kg_server *server) {
    return server->at.address;
}

uint16_t kg_server_port(const struct kg_server *server) {
    return server->at.port;
}

static struct slot *slot_of(struct kg_server *server, const struct MHD_Connection *connection) {
    for (size_t i = 0; i < KG_COUNT_OF(server->slots); i++)
        if (server->slots[i].connection == connection) return &server->slots[i];
    return NULL;
}

static void connection_changed(void *user, struct MHD_Connection *connection, void **context,
                               enum MHD_ConnectionNotificationCode code) {
    const bool begins = code == MHD_CONNECTION_NOTIFY_STARTED;
    struct slot *slot = slot_of(user, begins ? NULL : connection);
    (void)context;
    if (slot) *slot = (struct slot){ begins ? connection : NULL, kg_clock_monotonic_ns() };
}

/* What is known of a request before its head lines are. */
struct head {
    bool bad; /* its address holds a NUL */
    bool long_url;
};

static void *begin_request(void *user, const char *uri, struct MHD_Connection *connection) {
    (void)user, (void)connection;
    struct head *head = kg_xcalloc(1, sizeof *head);
    head->long_url = strlen(uri) > KG_SERVER_URL_BYTES;
    head->bad = strstr(uri, "%00") != NULL;
    return head;
}

static void end_request(void *user, struct MHD_Connection *connection, void **context,
                        enum MHD_RequestTerminationCode code) {
    struct slot *slot = slot_of(user, connection);
    (void)code;
    if (slot) slot->since_ns = kg_clock_monotonic_ns();
    free(*context);
    *context = NULL;
}

static void put_headers(struct MHD_Response *out, const struct kg_web_response *response) {
    static const char *const LINES[][2] = {
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", "no-referrer" },
        { "Cache-Control", "no-store" },
        { "Cross-Origin-Opener-Policy", "same-origin" },
        { "Cross-Origin-Resource-Policy", "same-origin" },
    };
    for (size_t i = 0; i < KG_COUNT_OF(LINES); i++)
        kg_libmicrohttpd()->add_response_header(out, LINES[i][0], LINES[i][1]);
    kg_libmicrohttpd()->add_response_header(out, "Content-Type", response->type);
    char *policy = kg_xasprintf("default-src 'none'; style-src 'nonce-%s'; script-src 'self'; base-uri 'none'; "
                                "form-action 'self'; frame-ancestors 'none'",
                                *response->nonce ? response->nonce : "none");
    kg_libmicrohttpd()->add_response_header(out, "Content-Security-Policy", policy);
    free(policy);
}

/* Takes the response's body. */
static enum MHD_Result send_response(struct MHD_Connection *connection, struct kg_web_response *response) {
    struct MHD_Response *out =
        kg_libmicrohttpd()->create_response_from_buffer(response->body.len, response->body.data, MHD_RESPMEM_MUST_FREE);
    if (!out) {
        kg_buffer_free(&response->body);
        return MHD_NO;
    }
    put_headers(out, response);
    if (response->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        kg_libmicrohttpd()->add_response_header(out, "Allow", "GET, HEAD");
    const enum MHD_Result sent = kg_libmicrohttpd()->queue_response(connection, (unsigned)response->status, out);
    kg_libmicrohttpd()->destroy_response(out);
    return sent;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, int status, const char *why) {
    struct kg_web_response response;
    kg_web_refuse(status, why, &response);
    return send_response(connection, &response);
}

/* Parameters of an address; more than there is room for, or longer ones, are refused. */
struct params {
    struct kg_web_request *request;
    bool too_much;
};

static enum MHD_Result take_param(void *user, enum MHD_ValueKind kind, const char *name, size_t name_size,
                                  const char *value, size_t value_size) {
    struct params *params = user;
    struct kg_web_request *request = params->request;
    (void)kind;
    if (request->n_params == KG_WEB_MAX_PARAMS || value_size >= KG_WEB_MAX_VALUE || name_size >= KG_WEB_MAX_VALUE) {
        params->too_much = true;
        return MHD_NO;
    }
    request->params[request->n_params++] = (struct kg_web_param){ name, value ? value : "" };
    return MHD_YES;
}

static bool has_body(struct MHD_Connection *connection) {
    const char *length = kg_libmicrohttpd()->lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    return (length && strcmp(length, "0") != 0) ||
           kg_libmicrohttpd()->lookup_connection_value(connection, MHD_HEADER_KIND, "Transfer-Encoding");
}

static enum MHD_Result answer(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_bytes, void **context) {
    struct kg_server *server = user;
    const struct head *head = *context;
    struct kg_web_request request = { .path = url };
    struct params params = { &request, false };
    struct kg_web_response response;
    (void)version, (void)upload, (void)upload_bytes;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "This server only shows pages: GET and HEAD.");
    if (!kg_listen_takes_host(&server->at, kg_libmicrohttpd()->lookup_connection_value(connection, MHD_HEADER_KIND,
                                                                                       MHD_HTTP_HEADER_HOST)))
        return refuse(connection, MHD_HTTP_FORBIDDEN, "This server answers to localhost alone.");
    if (head->long_url) return refuse(connection, MHD_HTTP_URI_TOO_LONG, "This address is too long.");
    if (head->bad || has_body(connection)) return refuse(connection, MHD_HTTP_BAD_REQUEST, "This is no request.");
    kg_libmicrohttpd()->get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, take_param, &params);
    if (params.too_much) return refuse(connection, MHD_HTTP_BAD_REQUEST, "This request asks for too much.");
    kg_web_answer(server->web, &request, &response);
    return send_response(connection, &response);
}

/* Its messages are about clients, which may be anyone. */
static void say_nothing(void *user, const char *format, va_list args) {
    (void)user, (void)format, (void)args;
}

static enum kg_status start(struct kg_server *server, struct kg_error *err) {
    server->daemon = kg_libmicrohttpd()->start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, answer, server, MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL,
        MHD_OPTION_LISTEN_SOCKET, server->at.fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)KG_SERVER_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, server->limits.idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)KG_SERVER_HEAD_BYTES, MHD_OPTION_URI_LOG_CALLBACK, begin_request, NULL, MHD_OPTION_NOTIFY_COMPLETED,
        end_request, server, MHD_OPTION_NOTIFY_CONNECTION, connection_changed, server, MHD_OPTION_END);
    return server->daemon ? KG_OK : kg_fail(err, KG_ERR_IO, "the server does not start: %s", strerror(errno));
}

/* A descriptor that has a signal that ends the server; what is ignored (nohup) stays so. */
static enum kg_status catch_signals(int *fd, struct kg_error *err) {
    static const int SIGNALS[] = { SIGINT, SIGTERM, SIGHUP };
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < KG_COUNT_OF(SIGNALS); i++) {
        struct sigaction action;
        if (sigaction(SIGNALS[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&set, SIGNALS[i]);
    }
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    *fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return *fd >= 0 ? KG_OK : kg_fail(err, KG_ERR_IO, "signals cannot be waited for: %s", strerror(errno));
}

enum kg_status kg_server_open(struct kg_web *web, const char *listen, uint16_t port,
                              const struct kg_server_limits *limits, struct kg_server **server, struct kg_error *err) {
    if (!kg_libmicrohttpd()) return kg_fail(err, KG_ERR_UNSUPPORTED, "%s", kg_server_missing());
    struct kg_server *opened = kg_xcalloc(1, sizeof *opened);
    *opened = (struct kg_server){ .web = web, .limits = *limits, .at.fd = -1, .signals = -1 };
    enum kg_status status = kg_listen_open(listen, port, &opened->at, err);
    if (status != KG_OK) opened->at.fd = -1;
    if (status == KG_OK) status = catch_signals(&opened->signals, err);
    if (status == KG_OK) status = start(opened, err);
    if (status == KG_OK) *server = opened;
    else kg_server_close(opened);
    return status;
}

/* Whoever takes longer is cut off: bytes that trickle keep a connection open no longer than silence does. */
static void end_overdue(struct kg_server *server) {
    const uint64_t now_ns = kg_clock_monotonic_ns();
    for (size_t i = 0; i < KG_COUNT_OF(server->slots); i++) {
        const struct slot *slot = &server->slots[i];
        if (!slot->connection || now_ns - slot->since_ns < (uint64_t)server->limits.request_s * 1000000000) continue;
        const union MHD_ConnectionInfo *info =
            kg_libmicrohttpd()->get_connection_info(slot->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (info) shutdown(info->connect_fd, SHUT_RDWR);
    }
}

enum kg_status kg_server_run(struct kg_server *server, struct kg_error *err) {
    enum { LOOK_MS = 1000 };
    const union MHD_DaemonInfo *info = kg_libmicrohttpd()->get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info) return kg_fail(err, KG_ERR_IO, "the server has nothing to wait for");
    struct pollfd fds[] = { { .fd = server->signals, .events = POLLIN }, { .fd = info->epoll_fd, .events = POLLIN } };
    for (;;) {
        MHD_UNSIGNED_LONG_LONG wait_ms = LOOK_MS;
        if (kg_libmicrohttpd()->get_timeout(server->daemon, &wait_ms) != MHD_YES || wait_ms > LOOK_MS)
            wait_ms = LOOK_MS;
        if (poll(fds, KG_COUNT_OF(fds), (int)wait_ms) < 0 && errno != EINTR)
            return kg_fail(err, KG_ERR_IO, "waiting for requests: %s", strerror(errno));
        if (fds[0].revents) return KG_OK;
        if (kg_libmicrohttpd()->run(server->daemon) != MHD_YES)
            return kg_fail(err, KG_ERR_IO, "the server stopped by itself");
        end_overdue(server);
    }
}

void kg_server_close(struct kg_server *server) {
    if (!server) return;
    if (server->daemon) kg_libmicrohttpd()->stop_daemon(server->daemon); /* closes the listening socket */
    else if (server->at.fd >= 0) close(server->at.fd);
    if (server->signals >= 0) close(server->signals);
    free(server);
}
