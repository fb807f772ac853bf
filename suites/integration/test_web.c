/* kigo web: what its pages say, what they weigh, and what the server refuses. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "run/publish.h"
#include "suites/integration/verbs.h"
#include "suites/integration/web_client.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_maker.h"
#include "suites/support/html_tags.h"
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *made(const char *root, struct kg_made_run run) {
    struct kg_error err;
    char *id = NULL;
    if (run.started_us == 0) run.started_us = 1700000000000000;
    if (!run.commit) run.commit = "0123456789abcdef0123456789abcdef01234567";
    EXPECT_OK(kg_made_run_write(root, &run, &id, &err), err);
    return id;
}

/* Every head line that a page owes a browser, and a policy that names the page's own style. */
static void expect_guarded(const struct kg_web_reply *reply) {
    static const char *const LINES[][2] = {
        { "X-Content-Type-Options", "nosniff" },           { "Referrer-Policy", "no-referrer" },
        { "Content-Type", "text/html; charset=utf-8" },    { "Cross-Origin-Opener-Policy", "same-origin" },
        { "Cross-Origin-Resource-Policy", "same-origin" }, { "Cache-Control", "no-store" },
    };
    for (size_t i = 0; i < KG_COUNT_OF(LINES); i++) {
        char *value = kg_web_head_line(reply, LINES[i][0]);
        ck_assert_msg(value && strcmp(value, LINES[i][1]) == 0, "%s: %s", LINES[i][0], value ? value : "(none)");
        free(value);
    }
    char *policy = kg_web_head_line(reply, "Content-Security-Policy"), nonce[33] = "", style[80], wanted[256];
    ck_assert_ptr_nonnull(policy);
    ck_assert_msg(sscanf(policy, "default-src 'none'; style-src 'nonce-%32[0-9a-f]'", nonce) == 1, "%s", policy);
    snprintf(wanted, sizeof wanted,
             "default-src 'none'; style-src 'nonce-%s'; script-src 'self'; base-uri 'none'; form-action 'self'; "
             "frame-ancestors 'none'",
             nonce);
    ck_assert_str_eq(policy, wanted);
    snprintf(style, sizeof style, "<style nonce=\"%s\">", nonce);
    if (*reply->body) ck_assert_ptr_nonnull(strstr(reply->body, style));
    free(policy);
}

static void every_page_is_guarded(struct kg_record *rec, const void *arg) {
    struct kg_web_child child;
    struct kg_web_reply get, head, again;
    char *id = made(kg_scratch_dir(rec), (struct kg_made_run){ .n_cases = 3 });
    char *run = kg_xasprintf("/run/%s", id), *cases = kg_xasprintf("/run/%s/cases", id);
    const char *const targets[] = { "/", run, cases, "/nowhere" };
    (void)arg;
    if (!kg_web_child_start(rec, kg_scratch_dir(rec), NULL, &child)) goto cleanup;
    for (size_t i = 0; i < KG_COUNT_OF(targets); i++) {
        kg_web_ask(&child, "GET", targets[i], &get);
        kg_web_ask(&child, "HEAD", targets[i], &head);
        kg_web_ask(&child, "GET", targets[i], &again);
        expect_guarded(&get);
        expect_guarded(&head);
        kg_expect_html_closed(get.body);
        ck_assert_int_eq(get.status, i == 3 ? 404 : 200);
        ck_assert_int_eq(head.status, get.status);
        ck_assert_uint_eq(head.body_bytes, 0);
        char *length = kg_web_head_line(&head, "Content-Length"),
             *policy = kg_web_head_line(&get, "Content-Security-Policy"),
             *other = kg_web_head_line(&again, "Content-Security-Policy");
        ck_assert_uint_eq(strtoul(length, NULL, 10), get.body_bytes);
        ck_assert_str_ne(policy, other); /* a style of yesterday's page is let through by no other */
        free(other);
        free(policy);
        free(length);
        kg_web_reply_free(&again);
        kg_web_reply_free(&head);
        kg_web_reply_free(&get);
    }
    ck_assert_int_eq(kg_web_child_end(&child, SIGTERM), 0);
cleanup:
    free(cases);
    free(run);
    free(id);
}

static void refusals(struct kg_record *rec, const void *arg) {
    struct kg_web_child child;
    char *id = made(kg_scratch_dir(rec), (struct kg_made_run){ .n_cases = 1 });
    static const struct {
        const char *method, *target;
        int status;
    } ROWS[] = {
        { "GET", "/run/20260101T000000Z-0123456789ab-01234567", 404 },
        { "GET", "/run/../index.sqlite", 404 },
        { "GET", "/run/%2e%2e%2findex.sqlite", 404 },
        { "GET", "/index.sqlite", 404 },
        { "GET", "/../../../../etc/passwd", 404 },
        { "GET", "/run/", 404 },
        { "GET", "/?page=0", 400 },
        { "GET", "/?page=99999999999", 400 },
        { "GET", "/?page=1%00", 400 },
        { "POST", "/", 405 },
        { "PUT", "/", 405 },
        { "DELETE", "/", 405 },
        { "PATCH", "/", 405 },
        { "OPTIONS", "/", 405 },
        { "TRACE", "/", 405 },
        { "BREW", "/", 405 },
        { "GET", "/?a=1&a=2&a=3&a=4&a=5&a=6&a=7&a=8&a=9&a=10&a=11&a=12&a=13&a=14&a=15&a=16&a=17", 400 },
    };
    (void)arg;
    if (!kg_web_child_start(rec, kg_scratch_dir(rec), NULL, &child)) {
        free(id);
        return;
    }
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        const int status = kg_web_status(&child, ROWS[i].method, ROWS[i].target);
        ck_assert_msg(status == ROWS[i].status, "%s %s: %d", ROWS[i].method, ROWS[i].target, status);
    }
    static const struct {
        const char *head;
        int status;
    } HEADS[] = {
        { "GET / HTTP/1.1\r\nHost: kigo.example\r\n", 403 },
        { "GET / HTTP/1.1\r\nHost: 127.0.0.1.kigo.example\r\n", 403 },
        { "GET / HTTP/1.1\r\nHost: localhost.kigo.example:80\r\n", 403 },
        { "GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n", 403 },
        { "GET / HTTP/1.1\r\nHost: localhost\r\n", 200 },
        { "GET / HTTP/1.1\r\nHost: LOCALHOST:8080\r\n", 200 },
        { "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n", 200 },
        { "GET / HTTP/1.0\r\n", 403 },
        { "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n", 200 },
        { "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n", 400 },
    };
    for (size_t i = 0; i < KG_COUNT_OF(HEADS); i++) {
        struct kg_web_reply reply;
        char *request = kg_xasprintf("%sConnection: close\r\n\r\n", HEADS[i].head);
        kg_web_send(&child, request, strlen(request), &reply);
        ck_assert_msg(reply.status == HEADS[i].status, "%s: %d", HEADS[i].head, reply.status);
        kg_web_reply_free(&reply);
        free(request);
    }
    static const size_t LONG[] = { 3000, 40000, 1000000 };
    for (size_t i = 0; i < KG_COUNT_OF(LONG); i++) {
        char *target = kg_xmalloc(LONG[i] + 1);
        memset(target, 'a', LONG[i]);
        target[0] = '/';
        target[LONG[i]] = '\0';
        const int status = kg_web_status(&child, "GET", target);
        ck_assert_msg(status == 414 || (i > 0 && (status == 431 || status == 0)), "%zu bytes: %d", LONG[i], status);
        free(target);
    }
    char *run = kg_xasprintf("/run/%s", id);
    ck_assert_int_eq(kg_web_status(&child, "GET", run), 200);
    ck_assert_int_eq(kg_web_child_end(&child, SIGTERM), 0);
    free(run);
    free(id);
}

/* Names, sizes and hashes of what lies below a folder. */
static void list_below(const char *dir, struct kg_buffer *out) {
    struct kg_dir_list list = { 0 };
    struct kg_error err;
    EXPECT_OK(kg_dir_list(dir, &list, &err), err);
    for (size_t i = 0; i < list.n_names; i++) {
        char *path = kg_path_join(dir, list.names[i]), *data = NULL, hex[KG_SHA256_HEX_SIZE];
        size_t n = 0;
        if (kg_path_is_dir(path)) {
            kg_buffer_printf(out, "%s/\n", path);
            list_below(path, out);
        } else {
            EXPECT_OK(kg_file_read(path, &data, &n, &err), err);
            kg_sha256_hex(data, n, hex);
            kg_buffer_printf(out, "%s %s\n", path, hex);
        }
        free(data);
        free(path);
    }
    kg_dir_list_free(&list);
}

/* The second server finds the index as the first left it, and leaves every byte below the folder as it is. */
static void nothing_is_written(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    struct kg_buffer before = KG_BUFFER_INIT, after = KG_BUFFER_INIT;
    struct kg_web_child child;
    char *id = made(root, (struct kg_made_run){ .n_cases = 5 }), *run = kg_xasprintf("/run/%s", id);
    (void)arg;
    for (int i = 0; i < 2; i++) {
        if (i == 1) list_below(root, &before);
        if (!kg_web_child_start(rec, root, NULL, &child)) goto cleanup;
        free(kg_web_page(&child, run));
        free(kg_web_page(&child, "/?verdict=pass"));
        ck_assert_int_eq(kg_web_status(&child, "DELETE", run), 405);
        ck_assert_int_eq(kg_web_child_end(&child, SIGTERM), 0);
    }
    list_below(root, &after);
    kg_maker_expect_same(kg_buffer_text(&after), kg_buffer_text(&before));
cleanup:
    kg_buffer_free(&before);
    kg_buffer_free(&after);
    free(run);
    free(id);
}

/* Connections that say nothing take every place there is; when they are gone, the next one is answered. */
static void idle_connections(struct kg_record *rec, const void *arg) {
    enum { MORE_THAN_THERE_IS = 80 };
    struct kg_web_child child;
    int fds[MORE_THAN_THERE_IS];
    (void)arg;
    free(made(kg_scratch_dir(rec), (struct kg_made_run){ .n_cases = 1 }));
    if (!kg_web_child_start(rec, kg_scratch_dir(rec), NULL, &child)) return;
    for (size_t i = 0; i < KG_COUNT_OF(fds); i++) fds[i] = kg_web_connect(&child);
    for (size_t i = 0; i < KG_COUNT_OF(fds); i++) close(fds[i]);
    ck_assert_int_eq(kg_web_status(&child, "GET", "/"), 200);
    ck_assert_int_eq(kg_web_child_end(&child, SIGHUP), 0);
}

static void addresses(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    struct kg_web_child child;
    (void)arg;
    free(made(root, (struct kg_made_run){ .n_cases = 1 }));
    if (!kg_web_child_start(rec, root, ARGS("--listen", "localhost"), &child)) return;
    char *url = kg_xasprintf("http://127.0.0.1:%u/", child.port), port[8];
    ck_assert_str_eq(child.url, url);
    snprintf(port, sizeof port, "%u", child.port);
    kg_verb_refuses(root, ARGS("web", "--port", port), KG_EXIT_INCOMPLETE, "--port names another");
    kg_verb_refuses(root, ARGS("web", "--listen", "kigo.example"), KG_EXIT_USAGE, "no address of digits");
    kg_verb_refuses(root, ARGS("web", "--listen", ""), KG_EXIT_USAGE, "no address of digits");
    kg_verb_refuses(root, ARGS("web", "--port", "65536"), KG_EXIT_USAGE, "--port");
    ck_assert_int_eq(kg_web_child_end(&child, SIGINT), 0);
    free(url);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "web", .name = #function, .timeout_s = 120, .run = function }

static const struct kg_case CASES[] = {
    CASE(every_page_is_guarded), CASE(refusals), CASE(nothing_is_written), CASE(idle_connections), CASE(addresses),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
