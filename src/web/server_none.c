/* In the place of the server in a build without libmicrohttpd. */
#include "web/server.h"

const char *kg_server_missing(void) {
    return "this kigo was built without libmicrohttpd: install it (Debian: libmicrohttpd-dev), configure and build "
           "again";
}

enum kg_status kg_server_open(struct kg_web *web, const char *listen, uint16_t port,
                              const struct kg_server_limits *limits, struct kg_server **server, struct kg_error *err) {
    (void)web, (void)listen, (void)port, (void)limits, (void)server;
    return kg_fail(err, KG_ERR_UNSUPPORTED, "%s", kg_server_missing());
}

const char *kg_server_address(const struct kg_server *server) {
    (void)server;
    return "";
}

uint16_t kg_server_port(const struct kg_server *server) {
    (void)server;
    return 0;
}

enum kg_status kg_server_run(struct kg_server *server, struct kg_error *err) {
    (void)server;
    return kg_fail(err, KG_ERR_UNSUPPORTED, "%s", kg_server_missing());
}

void kg_server_close(struct kg_server *server) {
    (void)server;
}
