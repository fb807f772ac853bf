/* libmicrohttpd, loaded when a server is first asked for (base/late_library.h): it brings GnuTLS and eight others. */
#ifndef KIGO_WEB_LIBMICROHTTPD_H
#define KIGO_WEB_LIBMICROHTTPD_H

#include <microhttpd.h>

#define KG_LIBMICROHTTPD_LIST(X)                                                                                       \
    X(add_response_header)                                                                                             \
    X(create_response_from_buffer)                                                                                     \
    X(destroy_response)                                                                                                \
    X(get_connection_info)                                                                                             \
    X(get_connection_values_n)                                                                                         \
    X(get_daemon_info)                                                                                                 \
    X(get_timeout)                                                                                                     \
    X(lookup_connection_value)                                                                                         \
    X(queue_response)                                                                                                  \
    X(run)                                                                                                             \
    X(start_daemon)                                                                                                    \
    X(stop_daemon)

/* kg_libmicrohttpd()->run is MHD_run, and so on. */
struct kg_libmicrohttpd {
#define KG_LIBMICROHTTPD_MEMBER(name) __typeof__(&MHD_##name) name;
    KG_LIBMICROHTTPD_LIST(KG_LIBMICROHTTPD_MEMBER)
#undef KG_LIBMICROHTTPD_MEMBER
};

/* NULL if the machine does not have it. */
const struct kg_libmicrohttpd *kg_libmicrohttpd(void);

#endif
