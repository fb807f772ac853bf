#include "suites/integration/web_client.h"
#include "base/buffer.h"
#include "suites/harness/process.h"
#include "suites/support/html_tags.h"
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ARGS = 16 };

static void become_server(const char *root, const char *const *args, int out) {
    const char *argv[MOST_ARGS + 1] = { kg_program_path(),         "web", "--port", "0", "--json",
                                        root ? "--bundles" : NULL, root };
    size_t n = root ? 7 : 5;
    for (; args && *args && n < MOST_ARGS; args++) argv[n++] = *args;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(out, STDOUT_FILENO) >= 0) execv(argv[0], (char *const *)argv);
    _exit(127);
}

static bool has_server(struct kg_record *rec) {
    const char *const argv[] = { kg_program_path(), "web", "--port", "0", "--bundles", "/nowhere/at/all", NULL };
    struct kg_process_result result;
    struct kg_error err;
    ck_assert_msg(kg_process_run(&(struct kg_process){ .argv = argv }, &result, &err) == KG_OK, "%s", err.message);
    const bool has = strstr(result.err, "libmicrohttpd") == NULL;
    if (!has) kg_record_skip(rec, "this kigo was built without libmicrohttpd");
    kg_process_result_free(&result);
    return has;
}

/* One JSON object in the first lines. */
static void read_address(int fd, struct kg_web_child *child) {
    char text[512];
    size_t n = 0;
    while (n < sizeof text - 1) {
        const ssize_t got = read(fd, text + n, sizeof text - 1 - n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        n += (size_t)got;
        text[n] = '\0';
        if (strstr(text, "}\n")) break;
    }
    text[n] = '\0';
    json_t *address = json_loads(text, 0, NULL);
    ck_assert_msg(address != NULL, "no address: '%s'", text);
    child->port = (uint16_t)json_integer_value(json_object_get(address, "port"));
    snprintf(child->url, sizeof child->url, "%s", json_string_value(json_object_get(address, "url")));
    json_decref(address);
}

bool kg_web_child_start(struct kg_record *rec, const char *root, const char *const *args, struct kg_web_child *child) {
    int out[2];
    if (!has_server(rec)) return false;
    ck_assert_int_eq(pipe(out), 0);
    *child = (struct kg_web_child){ .pid = fork() };
    if (child->pid == 0) become_server(root, args, out[1]);
    ck_assert_int_gt(child->pid, 0);
    close(out[1]);
    read_address(out[0], child);
    close(out[0]);
    return true;
}

int kg_web_child_end(struct kg_web_child *child, int number) {
    int state = 0;
    kill(child->pid, number);
    while (waitpid(child->pid, &state, 0) < 0 && errno == EINTR) {}
    child->pid = 0;
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

int kg_web_connect(const struct kg_web_child *child) {
    const struct sockaddr_in to = { .sin_family = AF_INET,
                                    .sin_port = htons(child->port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_msg(connect(fd, (const struct sockaddr *)&to, sizeof to) == 0, "port %u: %s", child->port,
                  strerror(errno));
    return fd;
}

/* A server that refuses may close before it has read all, which is a reset here. */
static void read_all(int fd, struct kg_buffer *all) {
    char bytes[1 << 16];
    for (;;) {
        const ssize_t got = read(fd, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return;
        kg_buffer_append(all, bytes, (size_t)got);
    }
}

void kg_web_send(const struct kg_web_child *child, const void *bytes, size_t n_bytes, struct kg_web_reply *reply) {
    struct kg_buffer all = KG_BUFFER_INIT;
    const int fd = kg_web_connect(child);
    for (size_t sent = 0; sent < n_bytes;) {
        const ssize_t n = send(fd, (const char *)bytes + sent, n_bytes - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        sent += (size_t)n;
    }
    read_all(fd, &all);
    close(fd);
    *reply = (struct kg_web_reply){ 0 };
    const char *text = kg_buffer_text(&all), *end = strstr(text, "\r\n\r\n");
    if (strncmp(text, "HTTP/1.", 7) == 0) reply->status = (int)strtol(text + 9, NULL, 10);
    reply->head = kg_xstrndup(text, end ? (size_t)(end - text) : all.len);
    reply->body_bytes = end ? all.len - (size_t)(end + 4 - text) : 0;
    reply->body = kg_xstrdup(end ? end + 4 : "");
    kg_buffer_free(&all);
}

void kg_web_ask(const struct kg_web_child *child, const char *method, const char *target, struct kg_web_reply *reply) {
    char *request =
        kg_xasprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: close\r\n\r\n", method, target, child->port);
    kg_web_send(child, request, strlen(request), reply);
    free(request);
}

void kg_web_reply_free(struct kg_web_reply *reply) {
    free(reply->head);
    free(reply->body);
    *reply = (struct kg_web_reply){ 0 };
}

char *kg_web_head_line(const struct kg_web_reply *reply, const char *name) {
    const size_t n = strlen(name);
    for (const char *line = reply->head; (line = strstr(line, "\r\n"));) {
        line += 2;
        if (strncasecmp(line, name, n) != 0 || line[n] != ':') continue;
        line += n + 1 + strspn(line + n + 1, " ");
        return kg_xstrndup(line, strcspn(line, "\r"));
    }
    return NULL;
}

char *kg_web_page(const struct kg_web_child *child, const char *target) {
    struct kg_web_reply reply;
    kg_web_ask(child, "GET", target, &reply);
    ck_assert_msg(reply.status == 200, "%.500s: %d %.2000s", target, reply.status, reply.body);
    char *page = reply.body;
    reply.body = NULL;
    kg_web_reply_free(&reply);
    kg_expect_html_closed(page);
    return page;
}

int kg_web_status(const struct kg_web_child *child, const char *method, const char *target) {
    struct kg_web_reply reply;
    kg_web_ask(child, method, target, &reply);
    const int status = reply.status;
    kg_web_reply_free(&reply);
    return status;
}
