/* A build without libmicrohttpd: whatever is asked of a server says what is missing, and how it comes. */
#include "base/size.h"
#include "suites/harness/case.h"
#include "web/server.h"
#include <check.h>
#include <string.h>

static void expect(enum kg_status status, const struct kg_error *err) {
    ck_assert_int_eq(status, KG_ERR_UNSUPPORTED);
    ck_assert_int_eq(kg_status_exit_code(status), KG_EXIT_USAGE);
    ck_assert_msg(strstr(err->message, "libmicrohttpd-dev") != NULL, "%s", err->message);
}

static void every_call_says_so(struct kg_record *rec, const void *arg) {
    struct kg_server *server = NULL;
    struct kg_error err;
    (void)rec, (void)arg;
    ck_assert_ptr_nonnull(kg_server_missing());
    expect(kg_server_open(NULL, "127.0.0.1", 0, NULL, &server, &err), &err);
    expect(kg_server_run(server, &err), &err);
    ck_assert_str_eq(kg_server_address(server), "");
    ck_assert_uint_eq(kg_server_port(server), 0);
    kg_server_close(server);
}

static const struct kg_case CASES[] = {
    { .layer = "unit", .op = "web_none", .name = "every_call_says_so", .run = every_call_says_so },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
