/* `kigo web` as a child, and requests to it over a socket. */
#ifndef KIGO_SUITES_WEB_CLIENT_H
#define KIGO_SUITES_WEB_CLIENT_H

#include "suites/harness/case.h"
#include <stdint.h>
#include <sys/types.h>

struct kg_web_child {
    pid_t pid;
    uint16_t port;
    char url[64];
};
/* Starts `kigo web --port 0 --json --bundles <root>` (root NULL: without --bundles) and more arguments (NULL at the
 * end, or no list), and waits until it says its address. False, with the case marked as skipped, where this kigo has no
 * server. */
bool kg_web_child_start(struct kg_record *rec, const char *root, const char *const *args, struct kg_web_child *child);
/* Sends the signal and waits for the end: its exit code, -1 if the signal ended it. */
int kg_web_child_end(struct kg_web_child *child, int number);

struct kg_web_reply {
    int status;        /* 0: the connection ended without an answer */
    char *head, *body; /* head lines with the line breaks between them; each with a NUL behind it */
    size_t body_bytes;
};
/* Bytes as they are; reads until the server closes. */
void kg_web_send(const struct kg_web_child *child, const void *bytes, size_t n_bytes, struct kg_web_reply *reply);
/* A request of that method for a path and query, as a browser on this machine sends it. */
void kg_web_ask(const struct kg_web_child *child, const char *method, const char *target, struct kg_web_reply *reply);
void kg_web_reply_free(struct kg_web_reply *reply);
/* The page of a target that answers with 200 and closes what it opens; malloc'ed. */
char *kg_web_page(const struct kg_web_child *child, const char *target);
/* The status of a request. */
int kg_web_status(const struct kg_web_child *child, const char *method, const char *target);
/* The value of a head line, by its name in any case, malloc'ed; NULL: there is none. */
char *kg_web_head_line(const struct kg_web_reply *reply, const char *name);

/* A connected socket. */
int kg_web_connect(const struct kg_web_child *child);

#endif
